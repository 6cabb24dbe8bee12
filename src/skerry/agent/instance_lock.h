// One agent of a name at a time.
#ifndef SKERRY_AGENT_INSTANCE_LOCK_H_
#define SKERRY_AGENT_INSTANCE_LOCK_H_

#include "skerry/base/file.h"

namespace skerry {

// Holds `DIRECTORY/lock` for the object's lifetime. The kernel drops the lock when its holder dies, so nothing has to
// be cleaned up after one that was killed.
class InstanceLock {
 public:
  // Makes the directory. kConflict, naming the process that holds it, where one does.
  static Result<InstanceLock> Take(const Path& directory);

 private:
  explicit InstanceLock(FileLock lock) : lock_(std::move(lock)) {}
  FileLock lock_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_INSTANCE_LOCK_H_
