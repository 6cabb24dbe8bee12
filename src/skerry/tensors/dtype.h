// Element types of the safetensors format, and the storage units in which Skerry counts positions.
#ifndef SKERRY_TENSORS_DTYPE_H_
#define SKERRY_TENSORS_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace skerry {

// Codes are part of the patch format (docs/patch-format.md, "Dtypes"): never renumber.
enum class DType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kU16 = 3,
  kI16 = 4,
  kU32 = 5,
  kI32 = 6,
  kU64 = 7,
  kI64 = 8,
  kF16 = 9,
  kBF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 13,
  kF8E4M3 = 14,
  kF8E5M2 = 15,
  kF8E8M0 = 16,
  kF8E4M3FNUZ = 17,
  kF8E5M2FNUZ = 18,
  kF4 = 19,
  kF6E2M3 = 20,
  kF6E3M2 = 21,
};
inline constexpr int kDTypeCount = 22;

// The name in a safetensors header: "BF16", "F8_E4M3", …
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
std::optional<DType> DTypeFromCode(uint8_t code);

// Bits of one element: 4 and 6 for the packed types.
int DTypeBits(DType dtype);

// Bytes of one storage unit: the element's size, or 1 for types that pack several elements into bytes. Positions in
// patches count storage units, so that a packed byte is replaced whole.
int DTypeUnit(DType dtype);

// True for types whose bits are sign and magnitude (IEEE-like floats, except C64, which is a pair): their neighbours in
// value are neighbours in the ordered-integer view only after mapping the sign (see patch/value_step.h).
bool DTypeIsSignMagnitude(DType dtype);

}  // namespace skerry

#endif  // SKERRY_TENSORS_DTYPE_H_
