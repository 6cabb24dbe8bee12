// Loops over changed elements that Python is too slow for. They run without the interpreter's lock, so an engine goes
// on serving while an update is prepared.
//
// A changed element is known by its flat index in a checkpoint tensor. A loader copies boxes of such a tensor to boxes
// of a parameter (a slice of a fused matrix, say); a box is a list of dimensions (size, stride in the tensor, stride in
// the parameter) and two offsets, all counted in elements.
//
// Thread rules: the functions keep no state. Callers see to it that nobody else writes to an array meanwhile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"

using namespace nb::literals;

namespace {

using Indices = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IndicesOut = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BytesOut = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Dimension = std::tuple<uint64_t, uint64_t, uint64_t>;  // size, stride in the source, stride in the destination

[[noreturn]] void Refuse(const std::string& what) { throw std::invalid_argument(what); }

// Calls f with a pointer of the array's own type.
template <typename Array, typename F>
auto WithIndices(const Array& array, const char* name, F f) {
  const nb::dlpack::dtype type = array.dtype();
  if (type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) && type.lanes == 1) {
    if (type.bits == 32) return f(static_cast<uint32_t*>(const_cast<void*>(static_cast<const void*>(array.data()))));
    if (type.bits == 64) return f(static_cast<uint64_t*>(const_cast<void*>(static_cast<const void*>(array.data()))));
  }
  Refuse(std::string(name) + ": want unsigned integers of 32 or 64 bits");
}

// Calls f with a value of the unsigned type of `unit` bytes.
template <typename F>
auto WithUnit(uint64_t unit, F f) {
  switch (unit) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: Refuse("elements of " + std::to_string(unit) + " bytes; want 1, 2, 4 or 8");
  }
}

// Elements of `unit` bytes that the array holds; refuses an array that can't be read in such units.
template <typename Array>
uint64_t CountOf(const Array& bytes, uint64_t unit, const char* name) {
  if (unit != 1 && unit != 2 && unit != 4 && unit != 8) WithUnit(unit, [](auto) {});
  if (bytes.size() % unit != 0 || reinterpret_cast<uintptr_t>(bytes.data()) % unit != 0) {
    Refuse(std::string(name) + ": not whole and aligned elements of " + std::to_string(unit) + " bytes");
  }
  return bytes.size() / unit;
}

struct Box {
  std::vector<Dimension> dimensions;  // descending stride in the source
  uint64_t source_offset = 0;
  uint64_t destination_offset = 0;

  // The destination's position of a source element; false where the element is outside of the box.
  bool Map(uint64_t index, uint64_t* position) const {
    if (index < source_offset) return false;
    uint64_t rest = index - source_offset;
    uint64_t place = destination_offset;
    for (const auto& [size, source, destination] : dimensions) {
      const uint64_t step = rest / source;
      if (step >= size) return false;
      rest -= step * source;
      place += step * destination;
    }
    *position = place;
    return rest == 0;
  }
};

// Checks that an element has one place at most, and gives back the greatest position that the box can yield, plus one.
uint64_t CheckBox(const Box& box) {
  uint64_t span = 0, largest = box.destination_offset;
  for (auto it = box.dimensions.rbegin(); it != box.dimensions.rend(); ++it) {
    const auto& [size, source, destination] = *it;
    if (size == 0 || source == 0 || source <= span) Refuse("box: dimensions overlap or don't descend in stride");
    span += (size - 1) * source;
    largest += (size - 1) * destination;
  }
  return largest + 1;
}

uint64_t Select(const Indices& indices, const Bytes& source, uint64_t unit, const std::vector<Dimension>& dimensions,
                uint64_t source_offset, uint64_t destination_offset, const IndicesOut& positions,
                const BytesOut& values) {
  const uint64_t elements = CountOf(source, unit, "source");
  const Box box{dimensions, source_offset, destination_offset};
  const uint64_t end = CheckBox(box);
  if (positions.size() < indices.size() || CountOf(values, unit, "values") < indices.size()) {
    Refuse("positions and values hold less than " + std::to_string(indices.size()) + " elements");
  }
  if (positions.dtype().bits == 32 && end > (uint64_t{1} << 32)) Refuse("positions: the box needs 64 bits");
  return WithIndices(indices, "indices", [&](const auto* from) {
    return WithIndices(positions, "positions", [&](auto* to) {
      return WithUnit(unit, [&](auto value) -> uint64_t {
        using Value = decltype(value);
        const auto* bits = reinterpret_cast<const Value*>(source.data());
        auto* out = reinterpret_cast<Value*>(values.data());
        nb::gil_scoped_release unlocked;
        uint64_t count = 0;
        for (uint64_t i = 0, n = indices.size(); i < n; ++i) {
          const uint64_t index = from[i];
          if (index >= elements || (i > 0 && index <= from[i - 1])) {
            Refuse("index " + std::to_string(index) + " at " + std::to_string(i) + ": not ascending below " +
                   std::to_string(elements));
          }
          uint64_t position = 0;
          if (!box.Map(index, &position)) continue;
          to[count] = static_cast<std::remove_reference_t<decltype(to[0])>>(position);
          out[count++] = bits[index];
        }
        return count;
      });
    });
  });
}

template <typename Positions>
void CheckPositions(const Positions* positions, uint64_t count, uint64_t elements) {
  for (uint64_t i = 0; i < count; ++i) {
    if (positions[i] >= elements) {
      Refuse("position " + std::to_string(positions[i]) + " of " + std::to_string(elements) + " elements");
    }
  }
}

void Scatter(const BytesOut& target, uint64_t unit, const Indices& positions, const Bytes& values) {
  const uint64_t elements = CountOf(target, unit, "target"), count = positions.size();
  if (CountOf(values, unit, "values") != count) Refuse("values: not one for each position");
  WithIndices(positions, "positions", [&](const auto* at) {
    WithUnit(unit, [&](auto value) {
      using Value = decltype(value);
      auto* out = reinterpret_cast<Value*>(target.data());
      const auto* in = reinterpret_cast<const Value*>(values.data());
      nb::gil_scoped_release unlocked;
      CheckPositions(at, count, elements);  // before the first store
      for (uint64_t i = 0; i < count; ++i) out[at[i]] = in[i];
    });
  });
}

uint64_t Differing(const Bytes& target, uint64_t unit, const Indices& positions, const Bytes& values) {
  const uint64_t elements = CountOf(target, unit, "target"), count = positions.size();
  if (CountOf(values, unit, "values") != count) Refuse("values: not one for each position");
  return WithIndices(positions, "positions", [&](const auto* at) {
    return WithUnit(unit, [&](auto value) -> uint64_t {
      using Value = decltype(value);
      const auto* have = reinterpret_cast<const Value*>(target.data());
      const auto* want = reinterpret_cast<const Value*>(values.data());
      nb::gil_scoped_release unlocked;
      CheckPositions(at, count, elements);
      uint64_t differing = 0;
      for (uint64_t i = 0; i < count; ++i) differing += have[at[i]] != want[i];
      return differing;
    });
  });
}

}  // namespace

void BindSparse(nb::module_& m) {
  m.def("select", &Select, "indices"_a.noconvert(), "source"_a.noconvert(), "unit"_a, "dimensions"_a, "source_offset"_a,
        "destination_offset"_a, "positions"_a.noconvert(), "values"_a.noconvert(),
        "Maps the ascending indices (uint32 or uint64) of a tensor's elements to positions in a parameter and gathers\n"
        "their values. dimensions: (size, source stride, destination stride), descending in source stride. Elements\n"
        "outside of the box are left out. Returns how many entries of positions and values were written.");
  m.def("scatter", &Scatter, "target"_a.noconvert(), "unit"_a, "positions"_a.noconvert(), "values"_a.noconvert(),
        "Stores values at positions, each in one store of `unit` bytes. Checks all positions before the first store.");
  m.def("differing", &Differing, "target"_a.noconvert(), "unit"_a, "positions"_a.noconvert(), "values"_a.noconvert(),
        "Counts the positions at which target does not hold the value.");
}
