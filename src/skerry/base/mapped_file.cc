#include "skerry/base/mapped_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>

#include "skerry/base/failpoint.h"

namespace skerry {

struct MappedFile::Guard {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> faulted{false};
  std::atomic<bool> in_use{false};
  Guard* next = nullptr;  // set before the guard becomes reachable, never changed
};

namespace {

constexpr uint64_t kPrefaultBytes = 2 << 20;
constexpr uint64_t kPrefaultFrom = 64 << 10;  // smaller reads (headers) must not pull in their surroundings

std::atomic<MappedFile::Guard*> g_guards{nullptr};
struct sigaction g_previous{};
const uintptr_t g_page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));

// Async-signal-safe: atomics and mmap only.
void OnSigbus(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (auto* guard = g_guards.load(std::memory_order_acquire); guard != nullptr; guard = guard->next) {
    if (address < guard->begin.load() || address >= guard->end.load()) continue;
    guard->faulted.store(true);
    void* page = reinterpret_cast<void*>(address & ~(g_page - 1));
    if (::mmap(page, g_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      return;
    }
  }
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(number, info, context);
  } else {
    ::signal(SIGBUS, SIG_DFL);  // the faulting instruction runs again and ends the process as before
  }
}

MappedFile::Guard* TakeGuard() {
  static std::mutex mutex;
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = OnSigbus;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGBUS, &action, &g_previous) == 0;
  }();
  (void)installed;
  const std::lock_guard lock(mutex);
  for (auto* guard = g_guards.load(); guard != nullptr; guard = guard->next) {
    if (!guard->in_use.exchange(true)) return guard;
  }
  auto* guard = new MappedFile::Guard;
  guard->in_use = true;
  guard->next = g_guards.load();
  g_guards.store(guard, std::memory_order_release);
  return guard;
}

}  // namespace

MappedFile::~MappedFile() {
  if (guard_ == nullptr) return;
  ::munmap(data_, size_);
  guard_->end = 0;
  guard_->begin = 0;
  guard_->in_use = false;
}
MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  std::swap(prefaulted_, other.prefaulted_);
  std::swap(path_, other.path_);
  return *this;
}

Result<MappedFile> MappedFile::Map(const File& file, bool writable) {
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  MappedFile mapped;
  mapped.path_ = file.path();
  if (size == 0) return mapped;
  if (const int pretended = FailpointErrno("file.map"); pretended != 0)
    return ErrnoFailure(pretended, "map", file.path());
  // Where the address space is limited (ulimit -v), a large mapping would starve everything else.
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur / 16) {
    return ErrnoFailure(ENOMEM, "map", file.path());
  }
  void* data = ::mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED) return ErrnoFailure(errno, "map", file.path());
  mapped.data_ = static_cast<std::byte*>(data);
  mapped.size_ = size;
  mapped.prefaulted_ = std::make_unique<std::atomic<bool>[]>(size / kPrefaultBytes + 1);
  mapped.guard_ = TakeGuard();
  mapped.guard_->faulted = false;
  mapped.guard_->begin = reinterpret_cast<uintptr_t>(data);
  mapped.guard_->end = reinterpret_cast<uintptr_t>(data) + size;
  return mapped;
}

void MappedFile::Prefault(uint64_t offset, uint64_t length) const {
  if (length == 0 || offset >= size_) return;
  const uint64_t last = (std::min<uint64_t>(offset + length, size_) - 1) / kPrefaultBytes;
  for (uint64_t part = offset / kPrefaultBytes; part <= last; ++part) {
    if (prefaulted_[part].load(std::memory_order_relaxed) || prefaulted_[part].exchange(true)) continue;
    const uint64_t begin = part * kPrefaultBytes;
    // Where the kernel can't (before 5.14, or the file has shrunk), the pages come one by one as before.
    ::madvise(data_ + begin, std::min(kPrefaultBytes, size_ - begin), MADV_POPULATE_READ);
  }
}

Status MappedFile::Check() const {
  if (guard_ != nullptr && guard_->faulted.load()) {
    return Fail(Code::kIo, "{} shrank while it was in use (it had {} bytes), or its disk failed or is full",
                path_.string(), size_);
  }
  return {};
}

Status MappedFile::Sync() const {
  if (size_ != 0 && ::msync(data_, size_, MS_SYNC) != 0) return ErrnoFailure(errno, "sync", path_);
  return Check();
}

Result<FileReader> FileReader::Open(const Path& path) {
  FileReader reader;
  reader.path_ = path;
  SKERRY_ASSIGN(reader.file_, File::OpenForReading(path));
  SKERRY_ASSIGN(reader.size_, reader.file_.Size());
  if (auto mapping = MappedFile::Map(reader.file_, /*writable=*/false)) {
    reader.mapping_ = std::move(*mapping);
    reader.bytes_ = reader.mapping_.bytes();
    reader.mapped_ = true;
  }
  return reader;
}

FileReader FileReader::OfMemory(ByteSpan bytes, const Path& name) {
  FileReader reader;
  reader.path_ = name;
  reader.bytes_ = bytes;
  reader.size_ = bytes.size();
  reader.mapped_ = true;
  return reader;
}

Result<ByteSpan> FileReader::Read(uint64_t offset, uint64_t length, Bytes& scratch) const {
  if (offset > size_ || length > size_ - offset) {
    return Fail(Code::kCorrupt, "{} has {} bytes, but bytes {} to {} were asked for", path().string(), size_, offset,
                offset + length);
  }
  if (mapped_) {
    if (file_.is_open() && length >= kPrefaultFrom) mapping_.Prefault(offset, length);
    return bytes_.subspan(offset, length);
  }
  scratch.resize(length);
  SKERRY_TRY(file_.ReadAt(scratch, offset));
  return ByteSpan(scratch);
}

Status FileReader::Check() const { return mapping_.Check(); }

}  // namespace skerry
