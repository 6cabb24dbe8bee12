// Results of the C++ libraries as Python's values and exceptions.
#ifndef SKERRY_PYTHON_NATIVE_ERRORS_H_
#define SKERRY_PYTHON_NATIVE_ERRORS_H_

#include <utility>

#include "skerry/base/result.h"

// Raises the class of skerry.errors that has the error's code. With the GIL.
[[noreturn]] void Raise(const skerry::Error& error);

template <typename T>
T Unwrap(skerry::Result<T> result) {
  if (!result) Raise(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

#endif  // SKERRY_PYTHON_NATIVE_ERRORS_H_
