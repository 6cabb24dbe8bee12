// The bytes of a Python object (bytes, memoryview, bytearray, mmap, numpy array) where they are.
#ifndef SKERRY_PYTHON_NATIVE_BUFFER_H_
#define SKERRY_PYTHON_NATIVE_BUFFER_H_

#include <nanobind/nanobind.h>

#include "skerry/base/bytes.h"

// Keeps the object, and its bytes where they are, for as long as it lives. Made and destroyed with the GIL.
class PythonBuffer {
 public:
  // Raises what the object says (TypeError, BufferError) where it has no contiguous bytes.
  explicit PythonBuffer(nanobind::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nanobind::python_error();
  }
  ~PythonBuffer() { PyBuffer_Release(&view_); }
  PythonBuffer(const PythonBuffer&) = delete;
  PythonBuffer& operator=(const PythonBuffer&) = delete;

  skerry::ByteSpan bytes() const { return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)}; }

 private:
  Py_buffer view_{};
};

#endif  // SKERRY_PYTHON_NATIVE_BUFFER_H_
