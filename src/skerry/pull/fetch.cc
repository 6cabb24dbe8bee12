#include "skerry/pull/fetch.h"

#include <algorithm>

#include "skerry/base/interrupt.h"
#include "skerry/pull/object_fetcher.h"

namespace skerry {

Status Patience::Retry(std::string_view what, const std::function<Status()>& attempt) const {
  std::chrono::milliseconds waited{0}, pause{100};
  while (true) {
    SKERRY_TRY(CheckInterrupt());
    Status status = attempt();
    if (status) return status;
    const Code code = status.error().code;
    if (code != Code::kNotFound && code != Code::kUnavailable) return status;
    if (waited >= limit) {
      return Fail(Code::kUnavailable, "{} is announced but not there (waited {:.1f} s): {}", what,
                  static_cast<double>(waited.count()) / 1000, status.error().message);
    }
    pause = std::min({pause, limit - waited, std::chrono::milliseconds(2000)});
    if (sleep) {
      sleep(pause);
    } else {
      SleepInterruptibly(pause);
    }
    waited += pause;
    pause *= 2;
  }
}

Result<uint64_t> FetchObject(const Board& board, const ObjectRef& object, const Path& path, const FetchOptions& options,
                             Progress& progress) {
  ObjectFetcher fetcher(board, {{object, path}}, options, {}, nullptr);
  SKERRY_ASSIGN(const FetchedObject fetched, fetcher.Take(0, progress));
  return fetched.transferred;
}

}  // namespace skerry
