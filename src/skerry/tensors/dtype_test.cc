#include "skerry/tensors/dtype.h"

#include <gtest/gtest.h>

namespace skerry {
namespace {

struct Row {
  const char* name;
  int unit;
  bool sign;
};

// The table of docs/patch-format.md, in the order of the codes.
constexpr Row kTable[] = {
    {"BOOL", 1, false},    {"U8", 1, false},         {"I8", 1, false},         {"U16", 2, false},
    {"I16", 2, false},     {"U32", 4, false},        {"I32", 4, false},        {"U64", 8, false},
    {"I64", 8, false},     {"F16", 2, true},         {"BF16", 2, true},        {"F32", 4, true},
    {"F64", 8, true},      {"C64", 8, false},        {"F8_E4M3", 1, true},     {"F8_E5M2", 1, true},
    {"F8_E8M0", 1, false}, {"F8_E4M3FNUZ", 1, true}, {"F8_E5M2FNUZ", 1, true}, {"F4", 1, false},
    {"F6_E2M3", 1, false}, {"F6_E3M2", 1, false}};

TEST(DType, HasTheCodesUnitsAndViewsOfTheFormatDocument) {
  ASSERT_EQ(std::size(kTable), static_cast<size_t>(kDTypeCount));
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    EXPECT_EQ(static_cast<int>(dtype), code);
    EXPECT_EQ(DTypeName(dtype), kTable[code].name);
    EXPECT_EQ(DTypeFromName(kTable[code].name), dtype);
    EXPECT_EQ(DTypeUnit(dtype), kTable[code].unit) << kTable[code].name;
    EXPECT_EQ(DTypeIsSignMagnitude(dtype), kTable[code].sign) << kTable[code].name;
  }
}

TEST(DType, CountsTheBitsOfPackedElements) {
  EXPECT_EQ(DTypeBits(DType::kF4), 4);
  EXPECT_EQ(DTypeBits(DType::kF6E2M3), 6);
  EXPECT_EQ(DTypeBits(DType::kF6E3M2), 6);
  EXPECT_EQ(DTypeBits(DType::kBF16), 16);
}

TEST(DType, KnowsNoOtherNamesAndCodes) {
  for (const char* name : {"", "bf16", "BF16 ", "F8_E3M4", "F128"})
    EXPECT_EQ(DTypeFromName(name), std::nullopt) << name;
  EXPECT_EQ(DTypeFromCode(22), std::nullopt);
  EXPECT_EQ(DTypeFromCode(255), std::nullopt);
}

}  // namespace
}  // namespace skerry
