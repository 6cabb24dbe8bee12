#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>

#include "skerry/board/file_store.h"

namespace skerry {
namespace {

constexpr std::chrono::hours kOldWhateverItsWriter{24};

// The process in ".tmp-<pid>-<random>" (file_publication.cc makes these names); 0 for any other name.
pid_t WriterOf(std::string_view name) {
  constexpr std::string_view kMark = ".tmp-";
  if (!name.starts_with(kMark)) return 0;
  pid_t writer = 0;
  const auto [end, error] = std::from_chars(name.data() + kMark.size(), name.data() + name.size(), writer);
  const bool dash_follows = end != name.data() + name.size() && *end == '-';
  return error == std::errc() && dash_follows && writer > 0 ? writer : 0;
}

bool IsAlive(pid_t process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

// Time since the last write, which a living writer makes again and again.
std::optional<std::chrono::seconds> Idle(const Path& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return std::chrono::seconds(std::time(nullptr) - info.st_mtime);
}

}  // namespace

Result<uint64_t> FileStore::SweepLeftovers(std::chrono::seconds older_than) {
  uint64_t removed = 0;
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(root_, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    const pid_t writer = WriterOf(entry->path().filename().string());
    if (writer == 0) continue;
    const std::optional<std::chrono::seconds> idle = Idle(entry->path());
    if (!idle || *idle < older_than || (*idle < kOldWhateverItsWriter && IsAlive(writer))) continue;
    if (::unlink(entry->path().c_str()) == 0) {
      ++removed;
    } else if (errno != ENOENT) {
      return ErrnoFailure(errno, "remove", entry->path());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) return ErrnoFailure(error.value(), "list", root_);
  return removed;
}

}  // namespace skerry
