// How work that lasts tells its caller how far it is. (interrupt.h: how a caller ends it.)
#ifndef SKERRY_BASE_PROGRESS_H_
#define SKERRY_BASE_PROGRESS_H_

#include <cstdint>
#include <string_view>

#include "skerry/base/result.h"

namespace skerry {

// Called from worker threads, possibly several at once; implementations synchronise.
class Progress {
 public:
  virtual ~Progress() = default;
  // A new stage with `total` bytes of work ("compare", "fetch", …).
  virtual void Begin(std::string_view stage, uint64_t total) = 0;
  virtual void Advance(uint64_t bytes) = 0;

  static Progress& None();
};

}  // namespace skerry

#endif  // SKERRY_BASE_PROGRESS_H_
