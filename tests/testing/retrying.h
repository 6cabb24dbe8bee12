// Waiting that takes no time and leaves nothing to chance.
#ifndef SKERRY_TESTS_TESTING_RETRYING_H_
#define SKERRY_TESTS_TESTING_RETRYING_H_

#include "skerry/base/retry.h"

namespace skerry {

inline Waiting NoWaiting() {
  return {.sleep = [](std::chrono::milliseconds) {}, .random = [] { return 0.5; }};
}

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_RETRYING_H_
