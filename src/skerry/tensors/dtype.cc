#include "skerry/tensors/dtype.h"

#include <array>

namespace skerry {
namespace {

struct Row {
  std::string_view name;
  int bits;
  bool sign_magnitude;
};

// In the order of the codes; names as in the safetensors reference implementation.
constexpr std::array<Row, kDTypeCount> kRows = {{
    {"BOOL", 8, false},    {"U8", 8, false},         {"I8", 8, false},         {"U16", 16, false},
    {"I16", 16, false},    {"U32", 32, false},       {"I32", 32, false},       {"U64", 64, false},
    {"I64", 64, false},    {"F16", 16, true},        {"BF16", 16, true},       {"F32", 32, true},
    {"F64", 64, true},     {"C64", 64, false},       {"F8_E4M3", 8, true},     {"F8_E5M2", 8, true},
    {"F8_E8M0", 8, false}, {"F8_E4M3FNUZ", 8, true}, {"F8_E5M2FNUZ", 8, true}, {"F4", 4, false},
    {"F6_E2M3", 6, false}, {"F6_E3M2", 6, false},
}};

const Row& RowOf(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromCode(uint8_t code) {
  if (code >= kDTypeCount) return std::nullopt;
  return static_cast<DType>(code);
}

int DTypeBits(DType dtype) { return RowOf(dtype).bits; }
int DTypeUnit(DType dtype) { return RowOf(dtype).bits < 8 ? 1 : RowOf(dtype).bits / 8; }
bool DTypeIsSignMagnitude(DType dtype) { return RowOf(dtype).sign_magnitude; }

}  // namespace skerry
