#include "capture.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "work.h"

using namespace nb::literals;

namespace {

using Values = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

std::vector<TensorRow> Tensors(const HeldCapture& held) { return RowsOf(held.get().layout()); }

void Take(HeldCapture& held, size_t ordinal, const Values& values, const std::string& dtype, uint64_t first) {
  const auto given = skerry::DTypeFromName(dtype);
  if (!given) Raise({skerry::Code::kInvalid, fmt::format("dtype: '{}' is none of safetensors", dtype)});
  const skerry::ByteSpan bytes(static_cast<const std::byte*>(values.data()), values.nbytes());
  Unwrap(Unlocked([&] { return held.get().Take(ordinal, first, *given, bytes); }));
}

}  // namespace

std::vector<TensorRow> RowsOf(const skerry::Layout& layout) {
  std::vector<TensorRow> rows;
  for (const skerry::LayoutTensor& tensor : layout.tensors()) {
    rows.emplace_back(tensor.name, std::string(skerry::DTypeName(tensor.dtype)), tensor.shape);
  }
  return rows;
}

void BindCapture(nb::module_& m) {
  nb::class_<HeldCapture>(m, "Capture", "Weights as what differs from a publisher's snapshot. One thread at a time.")
      .def_prop_ro("tensors", &Tensors, "(name, dtype, shape) of each, in the order of their ordinals.")
      .def("take", &Take, "ordinal"_a, "values"_a.noconvert(), "dtype"_a, "first"_a = 0,
           "Takes elements of a tensor from element `first` on, in row-major order: an array of any shape and type\n"
           "whose bits are those of `dtype` (a name of safetensors): the tensor's own, or F32 for BF16 and F16, which\n"
           "is rounded. Of types that pack several elements into bytes, `first` counts bytes. The array may be\n"
           "overwritten afterwards. Raises Invalid for another dtype and for elements beyond the end or given before.")
      .def_prop_ro(
          "untaken", [](const HeldCapture& held) { return held.get().Untaken(); },
          "Ordinals of the tensors that were not taken as a whole.")
      .def_prop_ro(
          "changed", [](const HeldCapture& held) { return held.get().changed(); },
          "Stored elements that differ from the snapshot.")
      .def_prop_ro(
          "kept_bytes", [](const HeldCapture& held) { return held.get().kept_bytes(); }, "Memory that it takes.");
}
