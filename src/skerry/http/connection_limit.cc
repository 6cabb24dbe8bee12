#include "skerry/http/connection_limit.h"

#include <sys/resource.h>

#include <cstdint>

#include "skerry/base/log.h"

namespace skerry {
namespace {

// Descriptors that the process needs besides.
constexpr uint64_t kOtherDescriptors = 256;

}  // namespace

size_t ConnectionLimit(size_t wanted) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  const uint64_t possible =
      files.rlim_cur > 2 * kOtherDescriptors ? (files.rlim_cur - kOtherDescriptors) / 2 : kOtherDescriptors / 2;
  if (wanted <= possible) return wanted;
  LogWarning("at most {} connections instead of {}: the process may open {} files", possible, wanted, files.rlim_cur);
  return possible;
}

}  // namespace skerry
