#include "skerry/apply/content_lock.h"

#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "skerry/apply/beside.h"
#include "skerry/apply/journal.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/interrupt.h"

namespace skerry {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{10};

// Asks again and again: flock itself can't wait for a bounded time. kUnavailable, saying `what`, at the end.
template <typename Try>
Status Until(std::chrono::milliseconds patience, const Path& file, std::string_view what, Try attempt) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    SKERRY_ASSIGN(const bool done, attempt());
    if (done) return {};
    if (std::chrono::steady_clock::now() >= end) {
      return Fail(Code::kUnavailable, "{}: {} ({} ms)", file.string(), what, patience.count());
    }
    SKERRY_TRY(CheckInterrupt());
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Result<bool> TryFlock(const File& file, int operation) {
  if (const int pretended = FailpointErrno("file.lock"); pretended != 0) {
    return ErrnoFailure(pretended, "lock", file.path());
  }
  if (::flock(file.descriptor(), operation | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  return ErrnoFailure(errno, "lock", file.path());
}

}  // namespace

Path ContentLock::FileOf(const Path& directory) { return Beside(directory, "content"); }

Result<ContentLock> ContentLock::Take(File file, int operation, std::chrono::milliseconds patience) {
  const std::string_view what =
      operation == LOCK_SH ? "a writer still changes the files" : "engines still read the files";
  SKERRY_TRY(Until(patience, file.path(), what, [&] { return TryFlock(file, operation); }));
  return ContentLock(std::move(file));
}

Result<ContentLock> ContentLock::Shared(const Path& directory, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left =
        std::max(std::chrono::milliseconds(0),
                 std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()));
    SKERRY_ASSIGN(File file, File::OpenOrCreate(FileOf(directory)));
    SKERRY_ASSIGN(ContentLock lock, Take(std::move(file), LOCK_SH, left));
    // A writer that came before this file was made holds no lock.
    if (!JournalExists(DefaultStateDirectory(directory))) return lock;
    if (std::chrono::steady_clock::now() >= until) {
      return Fail(Code::kUnavailable, "{}: an apply is at work or was interrupted ({} ms)", directory.string(),
                  patience.count());
    }
    lock = ContentLock();
    SKERRY_TRY(CheckInterrupt());
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Result<ContentLock> ContentLock::Exclusive(const Path& directory, std::chrono::milliseconds patience) {
  SKERRY_ASSIGN(File file, File::OpenOrCreate(FileOf(directory)));
  return Take(std::move(file), LOCK_EX, patience);
}

Result<ContentLock> ContentLock::ForWriting(const Path& directory, std::chrono::milliseconds patience) {
  std::error_code error;
  if (!std::filesystem::exists(FileOf(directory), error)) return ContentLock();
  SKERRY_ASSIGN(File file, File::OpenForReading(FileOf(directory)));
  return Take(std::move(file), LOCK_EX, patience);
}

}  // namespace skerry
