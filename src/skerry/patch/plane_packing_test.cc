#include "skerry/patch/plane_packing.h"

#include "skerry/patch/huffman_frame.h"
#include "skerry/patch/zstd_frame.h"
#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

Bytes Packed(ByteSpan plane) {
  Bytes out = {std::byte{1}};  // it appends
  PackPlane(plane, out);
  EXPECT_EQ(out.front(), std::byte{1});
  out.erase(out.begin());
  if (!out.empty()) {
    EXPECT_LT(out.size(), plane.size());
    Bytes back(plane.size());
    EXPECT_TRUE(DecompressFrame(out, back) && std::equal(back.begin(), back.end(), plane.begin(), plane.end()));
  }
  return out;
}

Bytes Exponents(size_t size, Random& random) {
  std::geometric_distribution<int> down(0.5);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(121 - down(random) + down(random));
  return bytes;
}

TEST(PlanePacking, LeavesNoiseAsItIs) {
  Random random(1);
  for (const size_t size : {1u, 300u, 8192u, 65536u, 300'000u}) EXPECT_TRUE(Packed(RandomBytes(size, random)).empty());
}

TEST(PlanePacking, TakesAPrefixCodeForExponents) {
  Random random(2);
  for (const size_t size : {8192u, 65536u, 300'000u}) {
    const Bytes plane = Exponents(size, random);
    Bytes frame;
    EncodeHuffmanFrame(plane, frame);
    EXPECT_EQ(Packed(plane), frame) << size;
    EXPECT_LT(frame.size(), plane.size() / 2);
  }
}

TEST(PlanePacking, FindsRowsThatAreTheSame) {
  Random random(3);
  const Bytes row = RandomBytes(576, random);
  Bytes plane = RandomBytes(30'000, random);
  for (int i = 0; i < 50; ++i) plane.insert(plane.end(), row.begin(), row.end());
  EXPECT_LT(Packed(plane).size(), 35'000u);
}

TEST(PlanePacking, FindsRunsAndCounters) {
  Bytes counter(65'536), zeros(65'536);
  for (size_t i = 0; i < counter.size(); ++i) counter[i] = static_cast<std::byte>(i);
  for (size_t i = 0; i < zeros.size(); i += 997) zeros[i] = static_cast<std::byte>(i);
  EXPECT_LT(Packed(counter).size(), 1000u);
  EXPECT_LT(Packed(zeros).size(), 1000u);
}

TEST(PlanePacking, OfASmallPlaneTakesTheBetterWay) {
  Random random(4);
  const Bytes plane = Exponents(3000, random);
  Bytes coded, matched;
  EncodeHuffmanFrame(plane, coded);
  CompressFrame(plane, matched);
  EXPECT_EQ(Packed(plane).size(), std::min(coded.size(), matched.size()));
  EXPECT_LT(Packed(Bytes(5000, std::byte{7})).size(), 30u);
}

}  // namespace
}  // namespace skerry
