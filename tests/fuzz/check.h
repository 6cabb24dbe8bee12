// An assertion that stays in every build: what a fuzz target reports besides the sanitizers' findings.
#ifndef SKERRY_TESTS_FUZZ_CHECK_H_
#define SKERRY_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

#endif  // SKERRY_TESTS_FUZZ_CHECK_H_
