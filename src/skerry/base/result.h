// Errors as values. Every fallible function returns Result<T> (or Status); exceptions are used only at language
// bindings.
//
// An error message names the thing and both sides ("patch 42: base digest 9f… but the checkpoint has 3c…"); its code
// says what the caller can do about it, and apps/skerry maps the code to an exit status.
#ifndef SKERRY_BASE_RESULT_H_
#define SKERRY_BASE_RESULT_H_

#include <fmt/core.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace skerry {

enum class Code {
  kInvalid,      // the request or the input makes no sense as given: change it
  kNotFound,     // the named thing does not exist
  kConflict,     // somebody else changed or created it first: re-read, decide again
  kMismatch,     // both sides are well formed but do not belong together (wrong base, wrong run)
  kCorrupt,      // bytes are damaged or malformed: fetch or make them again
  kUnsupported,  // written by a newer version, or the platform lacks what is needed
  kNoSpace,      // disk or quota is full: nothing was changed
  kUnavailable,  // may work later: retry
  kIo,           // the operating system refused; the message says what
  kInterrupted,  // the caller itself ended the work (interrupt.h): nothing is wrong
};

std::string_view CodeName(Code code);

struct Error {
  Code code;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

// `return Fail(Code::kCorrupt, "{}: {} bytes, expected {}", path, got, want);`
template <typename... Args>
tl::unexpected<Error> Fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Puts "context: " in front of an error's message and keeps its code.
inline tl::unexpected<Error> Annotate(Error error, std::string_view context) {
  error.message = fmt::format("{}: {}", context, error.message);
  return tl::unexpected<Error>(std::move(error));
}

#define SKERRY_CONCAT_INNER(a, b) a##b
#define SKERRY_CONCAT(a, b) SKERRY_CONCAT_INNER(a, b)

// SKERRY_TRY(Write(x));              returns the error from the enclosing function
// SKERRY_ASSIGN(auto y, Read(x));    the same, else binds the value
#define SKERRY_TRY(expression)                                                 \
  do {                                                                         \
    if (auto skerry_try = (expression); !skerry_try) [[unlikely]]              \
      return ::tl::unexpected<::skerry::Error>(std::move(skerry_try).error()); \
  } while (false)
#define SKERRY_ASSIGN(declaration, expression) \
  SKERRY_ASSIGN_INNER(SKERRY_CONCAT(skerry_result_, __LINE__), declaration, expression)
#define SKERRY_ASSIGN_INNER(result, declaration, expression)             \
  auto result = (expression);                                            \
  if (!result) [[unlikely]]                                              \
    return ::tl::unexpected<::skerry::Error>(std::move(result).error()); \
  declaration = *std::move(result)

}  // namespace skerry

#endif  // SKERRY_BASE_RESULT_H_
