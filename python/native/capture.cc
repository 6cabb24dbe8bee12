#include "capture.h"

#include <fmt/ranges.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

std::string ShapeText(const Values& values) {
  std::vector<size_t> shape;
  for (size_t axis = 0; axis < values.ndim(); ++axis) shape.push_back(values.shape(axis));
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Of an array of masters: BF16 comes as torch's own dtype, or as its bits, which is what numpy has for it.
skerry::DType MastersOf(const Values& values) {
  constexpr auto kBfloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
  const nb::dlpack::dtype dtype = values.dtype();
  if (dtype == nb::dtype<float>()) return skerry::DType::kF32;
  const bool bfloat = dtype.code == kBfloat && dtype.bits == 16 && dtype.lanes == 1;
  if (bfloat || dtype == nb::dtype<uint16_t>()) return skerry::DType::kBF16;
  Raise({skerry::Code::kInvalid, "values: neither float32 nor bfloat16 (or its bits, as uint16)"});
}

uint64_t TakeFp8Block(HeldCapture& held, size_t weight, size_t scale, const Values& values, const std::string& policy) {
  const auto scales = skerry::Fp8ScalesFromName(policy);
  if (!scales) {
    Raise({skerry::Code::kInvalid, fmt::format("policy: '{}' is none of frozen, recompute, power-of-two", policy)});
  }
  const skerry::DType dtype = MastersOf(values);
  skerry::Capture& capture = held.get();
  const auto& tensors = capture.layout().tensors();
  if (weight < tensors.size()) {
    const std::vector<uint64_t>& shape = tensors[weight].shape;
    if (values.ndim() != shape.size() || !std::equal(shape.begin(), shape.end(), values.shape_ptr())) {
      Raise({skerry::Code::kInvalid, fmt::format("tensor '{}' is {}: an array of {} was given", tensors[weight].name,
                                                 DescribeType(tensors[weight]), ShapeText(values))});
    }
  }
  const skerry::ByteSpan bytes(static_cast<const std::byte*>(values.data()), values.nbytes());
  return Unwrap(Unlocked([&] { return capture.TakeFp8Block(weight, scale, dtype, bytes, *scales); }));
}

// A tensor's bytes as the capture has them, in memory that Python owns: what was taken, and else what is published.
nb::bytearray Read(const HeldCapture& held, size_t ordinal) {
  const skerry::Capture& capture = held.get();
  const auto& tensors = capture.layout().tensors();
  if (ordinal >= tensors.size()) {
    Raise({skerry::Code::kInvalid, fmt::format("tensor {} of a model that has {}", ordinal, tensors.size())});
  }
  skerry::Bytes scratch;
  const skerry::ByteSpan bytes = Unwrap(capture.Read(ordinal, 0, tensors[ordinal].bytes, scratch));
  return nb::bytearray(bytes.data(), bytes.size());
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
      .def("take_fp8_block", &TakeFp8Block, "weight"_a, "scale"_a, "values"_a.noconvert(), "policy"_a,
           "Takes a matrix and the scales of its blocks together, as FP8 in blocks of 128 x 128. `weight`, `scale`:\n"
           "the ordinals of F8_E4M3 [rows, columns] and of F32 or F8_E8M0 [rows / 128, columns / 128], rounded up.\n"
           "`values`: the whole matrix, of float32, or of bfloat16 (or its bits, as uint16). `policy`: 'frozen' (a\n"
           "block's published scale stays until a weight would clip), 'recompute' or 'power-of-two'. The array may\n"
           "be overwritten afterwards. Returns how many blocks have another scale than the published one. Raises\n"
           "Invalid, with neither taken, for other types and shapes, what was given before, and NaN or infinity.")
      .def("read", &Read, "ordinal"_a,
           "A tensor's bytes, as a bytearray: what was taken of it, and else what is published.")
      .def_prop_ro(
          "untaken", [](const HeldCapture& held) { return held.get().Untaken(); },
          "Ordinals of the tensors that were not taken as a whole.")
      .def_prop_ro(
          "changed", [](const HeldCapture& held) { return held.get().changed(); },
          "Stored elements that differ from the snapshot.")
      .def_prop_ro(
          "kept_bytes", [](const HeldCapture& held) { return held.get().kept_bytes(); }, "Memory that it takes.");
}
