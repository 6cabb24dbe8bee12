// Results in tests: matchers that show the error, and a way to unwrap what must not fail.
#ifndef SKERRY_TESTS_TESTING_RESULTS_H_
#define SKERRY_TESTS_TESTING_RESULTS_H_

#include <gmock/gmock.h>

#include <ostream>
#include <stdexcept>
#include <string>

#include "skerry/base/failpoint.h"
#include "skerry/base/result.h"

namespace skerry {

template <typename T>
std::string Outcome(const Result<T>& result) {
  return result ? "success" : fmt::format("{}: {}", CodeName(result.error().code), result.error().message);
}

// How gtest prints a result that is not what was expected.
template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  *out << Outcome(result);
}

// EXPECT_THAT(status, Succeeds());
MATCHER(Succeeds, "succeeds") { return arg.has_value(); }

// EXPECT_THAT(result, Fails(Code::kCorrupt, HasSubstr("truncated")));
MATCHER_P2(Fails, code, message, fmt::format("fails with {}, its message saying what it should", CodeName(code))) {
  return !arg.has_value() && arg.error().code == code &&
         ::testing::ExplainMatchResult(message, arg.error().message, result_listener);
}
inline auto Fails(Code code) { return Fails(code, ::testing::_); }

// The value; the test ends with the error's message where there is none.
template <typename T>
T Must(Result<T> result) {
  if (!result) throw std::runtime_error(Outcome(result));
  return *std::move(result);
}
inline void Must(const Status& status) {
  if (!status) throw std::runtime_error(Outcome(status));
}

// Failpoints for the lifetime of the object.
class WithFailpoints {
 public:
  explicit WithFailpoints(std::string_view specification) { SetFailpoints(specification); }
  ~WithFailpoints() { SetFailpoints(""); }
  WithFailpoints(const WithFailpoints&) = delete;
  WithFailpoints& operator=(const WithFailpoints&) = delete;
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_RESULTS_H_
