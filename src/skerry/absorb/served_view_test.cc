#include "skerry/absorb/served_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace skerry {
namespace {

const ServedView& View(std::string_view name) { return *FindServedView(name); }

std::vector<float> NumbersOfE4M3() {
  std::vector<float> numbers;
  for (int code = 0; code < 127; ++code) {  // 127 is no number
    const int exponent = code >> 3, mantissa = code & 7;
    numbers.push_back(exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10));
  }
  return numbers;
}

void ExpectGaps(const ServedView& view, const std::vector<float>& numbers) {
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    const float gap = numbers[i + 1] - numbers[i];
    EXPECT_FLOAT_EQ(view.GapAt(numbers[i]), gap) << numbers[i];
    EXPECT_FLOAT_EQ(view.GapAt(numbers[i] + gap / 2), gap) << numbers[i];
    EXPECT_FLOAT_EQ(view.GapAt(numbers[i] + 0.99F * gap), gap) << numbers[i];
  }
  EXPECT_FLOAT_EQ(view.GapAt(2 * numbers.back()), numbers.back() - numbers[numbers.size() - 2]);
}

TEST(ServedViewTest, GapsAreThoseOfTheFormatsNumbers) {
  ExpectGaps(View("fp8-block"), NumbersOfE4M3());
  ExpectGaps(View("mxfp4"), {0, 0.5, 1, 1.5, 2, 3, 4, 6});
  EXPECT_FLOAT_EQ(View("bf16").GapAt(1.5), 0x1p-7F);
  EXPECT_FLOAT_EQ(View("bf16").GapAt(0x1p-127F), 0x1p-133F);
  EXPECT_FLOAT_EQ(View("fp16").GapAt(0.9F), 0x1p-11F);
  EXPECT_FLOAT_EQ(View("fp16").GapAt(0x1p-20F), 0x1p-24F);
  EXPECT_GT(View("nf4").GapAt(0.9F), 0.27F);  // between 0.277 and 0.304
  EXPECT_LT(View("nf4").GapAt(0.01F), 0.092F);
}

TEST(ServedViewTest, TheLargestWeightOfABlockGetsTheLargestCode) {
  for (const ServedView& view : ServedViews()) {
    if (view.blocks == ServedView::Blocks::kNone) continue;
    for (const float largest : {1e-6F, 0.02F, 0.5F, 0.874F, 0.876F, 1.0F, 300.0F}) {
      const float code = largest / view.ScaleFor(largest);
      const float most = view.codes == ServedView::Codes::kE4M3 ? 448 : view.codes == ServedView::Codes::kE2M1 ? 6 : 1;
      if (!view.power_of_two) {
        EXPECT_FLOAT_EQ(code, most) << view.name;
      } else {
        // Below what would round to beyond it: 464 of E4M3 and 7 of E2M1 lie above 7/4 of a power of two.
        EXPECT_LT(code, most * 7 / 6 + 1e-3F) << view.name << " " << largest;
        EXPECT_GE(code, most / 448 * 224 * 7 / 8) << view.name << " " << largest;
        EXPECT_EQ(std::log2(view.ScaleFor(largest)), std::round(std::log2(view.ScaleFor(largest))));
      }
    }
    EXPECT_EQ(view.ScaleFor(0), 1) << view.name;
  }
}

TEST(ServedViewTest, CountsScalesAndRefusesShapesAsTheViewsDo) {
  const std::vector<uint64_t> matrix = {576, 1536}, odd = {3, 17}, vector = {576};
  EXPECT_EQ(View("fp8-tensor").ScalesOf(matrix), 1u);
  EXPECT_EQ(View("fp8-channel").ScalesOf(matrix), 576u);
  EXPECT_EQ(View("fp8-block").ScalesOf(matrix), 5u * 12);
  EXPECT_EQ(View("mxfp4").ScalesOf(matrix), 576u * 48);
  EXPECT_EQ(View("nvfp4").ScalesOf(matrix), 576u * 96);
  EXPECT_EQ(View("nf4").ScalesOf(matrix), 576u * 24);
  EXPECT_TRUE(View("fp8-block").Fits(odd));
  EXPECT_FALSE(View("mxfp8").Fits(odd));
  EXPECT_FALSE(View("nf4").Fits(odd));
  EXPECT_FALSE(View("fp8-tensor").Fits(vector));
}

// The share of odd * factor * largest / divisor, largest of eight binary digits, that have at most eight themselves.
double ShareOnGrid(const std::vector<int>& odds, const std::vector<int>& factors, int divisor) {
  double all = 0, on_grid = 0;
  for (int largest = 128; largest < 256; ++largest) {
    for (const int odd : odds) {
      for (const int factor : factors) {
        int numerator = largest * odd * factor;
        all += 1;
        if (numerator % divisor != 0) continue;
        numerator /= divisor;
        while (numerator % 2 == 0) numerator /= 2;
        on_grid += numerator < 256 ? 1 : 0;
      }
    }
  }
  return on_grid / all;
}

TEST(ServedViewTest, SomeBoundariesAreNumbersOfBf16) {
  EXPECT_NEAR(ShareOnGrid({17, 19, 21, 23, 25, 27, 29, 31}, {1}, 7), View("fp8-block").on_grid, 0.002);
  // Boundaries 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5 times E4M3 scales; 6 * 448 is 21 times a power of two.
  EXPECT_NEAR(ShareOnGrid({1, 3, 5, 7, 5, 7, 5}, {8, 9, 10, 11, 12, 13, 14, 15}, 21), View("nvfp4").on_grid, 0.002);
}

TEST(ServedViewTest, FindsByName) {
  EXPECT_EQ(ServedViews().size(), 9u);
  for (const ServedView& view : ServedViews()) EXPECT_EQ(FindServedView(view.name), &view);
  EXPECT_EQ(FindServedView("fp8"), nullptr);
}

}  // namespace
}  // namespace skerry
