#include "skerry/agent/instance_lock.h"

#include <unistd.h>

namespace skerry {

namespace {
constexpr uint64_t kMostDigits = 32;
}

Result<InstanceLock> InstanceLock::Take(const Path& directory) {
  SKERRY_TRY(MakeDirectories(directory));
  const Path holder = directory / "pid";
  auto lock = FileLock::TryAcquire(directory / "lock");
  if (!lock) {
    if (lock.error().code != Code::kConflict) return tl::unexpected<Error>(std::move(lock).error());
    const auto pid = ReadFile(holder, kMostDigits);
    return Fail(Code::kConflict, "an agent named {} runs already for {} (process {}): give this one another --name",
                directory.filename().string(), directory.parent_path().parent_path().string(),
                pid ? ToString(*pid) : "unknown");
  }
  SKERRY_TRY(WriteFileAtomically(holder, AsBytes(std::to_string(getpid()))));
  return InstanceLock(*std::move(lock));
}

}  // namespace skerry
