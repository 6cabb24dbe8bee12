// Who reads a checkpoint's files while others may want to move it, and who writes them.
#ifndef SKERRY_APPLY_CONTENT_LOCK_H_
#define SKERRY_APPLY_CONTENT_LOCK_H_

#include <chrono>
#include <optional>

#include "skerry/base/file.h"
#include "skerry/base/result.h"

namespace skerry {

// A lock (flock) on the file `.DIR.content` beside the checkpoint DIR, so that it outlives an exchange of the
// directory. Readers hold it shared: an agent from Engine::Prepare to Engine::Verify. Writers hold it exclusively, and
// only while files change: after decoding, and not while they wait for the board. The kernel drops it when the holder
// dies. It says nothing about who may be a writer: that is the state directory's lock.
//
// Not reentrant: who holds it shared and then moves the checkpoint on the same thread waits for himself. Waiting ends
// with kUnavailable after `patience` (0: at once), and may be long: readers are not held up by a waiting writer.
class ContentLock {
 public:
  ContentLock() = default;

  static Path FileOf(const Path& directory);

  // Makes the file if missing. kUnavailable also while a committed journal in the default state directory says that the
  // files are part old, part new: a writer is at work, or has to finish what one left.
  static Result<ContentLock> Shared(const Path& directory, std::chrono::milliseconds patience);
  // Makes the file if missing.
  static Result<ContentLock> Exclusive(const Path& directory, std::chrono::milliseconds patience);
  // Exclusive where the file is there; else it holds nothing, since nobody ever read under this lock, and leaves no
  // file beside a checkpoint that has no agent. A writer asks before it commits its journal and, not held, again after.
  static Result<ContentLock> ForWriting(const Path& directory, std::chrono::milliseconds patience);

  bool held() const { return file_.is_open(); }

 private:
  explicit ContentLock(File file) : file_(std::move(file)) {}
  static Result<ContentLock> Take(File file, int operation, std::chrono::milliseconds patience);

  File file_;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_CONTENT_LOCK_H_
