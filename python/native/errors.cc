#include "errors.h"

#include <nanobind/nanobind.h>

#include <string>

namespace nb = nanobind;

void Raise(const skerry::Error& error) {
  const std::string code(skerry::CodeName(error.code));
  // A message may quote bytes that are no UTF-8.
  const nb::object message = nb::steal(
      PyUnicode_DecodeUTF8(error.message.data(), static_cast<Py_ssize_t>(error.message.size()), "backslashreplace"));
  const nb::object raised = nb::module_::import_("skerry.errors").attr("of_code")(code.c_str(), message);
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
  throw nb::python_error();
}
