#include "skerry/patch/huffman_frame.h"

#include <zstd.h>

#include <cmath>

#include "skerry/patch/zstd_frame.h"
#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

// libzstd is the judge of what a frame is.
Bytes Unpacked(ByteSpan frame, size_t size) {
  EXPECT_EQ(ZSTD_getFrameContentSize(frame.data(), frame.size()), size);
  Bytes out(size);
  EXPECT_TRUE(DecompressFrame(frame, out));
  return out;
}

Bytes Frame(ByteSpan bytes) {
  Bytes frame;
  EncodeHuffmanFrame(bytes, frame);
  EXPECT_LE(frame.size(), bytes.size() + 9 + 3 * std::max<size_t>(1, (bytes.size() + (128 << 10) - 1) >> 17));
  return frame;
}

// Normally distributed around `mean`, cut off at 0 and 255.
Bytes Normal(size_t size, double mean, double deviation, Random& random) {
  std::normal_distribution<double> normal(mean, deviation);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(std::clamp(normal(random), 0.0, 255.0));
  return bytes;
}

constexpr size_t kBlock = 128 << 10;

TEST(HuffmanFrame, IsReadByLibzstdWhateverItsSize) {
  Random random(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{258}, size_t{259},
                            size_t{1000}, size_t{16'383}, size_t{16'384}, size_t{65'536}, kBlock - 1, kBlock,
                            kBlock + 1, kBlock + 300, 3 * kBlock + 77}) {
    for (const double deviation : {0.4, 2.0, 20.0, 1000.0}) {
      const Bytes bytes = Normal(size, 118, deviation, random);
      EXPECT_TRUE(Unpacked(Frame(bytes), size) == bytes) << size << ", " << deviation;
    }
  }
}

TEST(HuffmanFrame, IsReadByLibzstdWhateverItsBytes) {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    // Up to 256 different bytes from anywhere, some a million times as likely as others.
    const size_t different = 1 + random() % (random() % 2 == 0 ? 256 : 6);
    std::vector<double> weights(different);
    Bytes alphabet = RandomBytes(different, random);
    for (double& weight : weights) weight = std::exp2(-static_cast<double>(random() % 20));
    std::discrete_distribution<size_t> choose(weights.begin(), weights.end());
    Bytes bytes(256 + random() % 40'000);
    for (std::byte& byte : bytes) byte = alphabet[choose(random)];
    EXPECT_TRUE(Unpacked(Frame(bytes), bytes.size()) == bytes) << i;
  }
}

TEST(HuffmanFrame, TakesLittleMoreThanTheEntropy) {
  Random random(3);
  // log2(deviation * sqrt(2 pi e)) bits each.
  for (const double deviation : {1.5, 4.0, 30.0}) {
    const Bytes bytes = Normal(65'536, 128, deviation, random);
    const double entropy = std::log2(deviation * std::sqrt(2 * M_PI * M_E)) * 65'536 / 8;
    EXPECT_LT(static_cast<double>(Frame(bytes).size()), 1.03 * entropy + 100) << deviation;
  }
}

TEST(HuffmanFrame, DescribesItsCodeInThirtyBytesForExponentsAndInAHundredForAllBytes) {
  Random random(4);
  const Bytes exponents = Normal(300, 118, 2, random);
  EXPECT_LT(Frame(exponents).size(), 300 * 3.2 / 8 + 26 + 30);
  const Bytes codes = Normal(300, 128, 30, random);
  EXPECT_LT(Frame(codes).size(), 300 * 7 / 8 + 26 + 100);
}

TEST(HuffmanFrame, OfEqualBytesIsOneOfThem) {
  EXPECT_EQ(Frame(Bytes(kBlock, std::byte{9})).size(), 9u + 3 + 1);
  EXPECT_TRUE(Unpacked(Frame(Bytes(2 * kBlock + 5, std::byte{9})), 2 * kBlock + 5) ==
              Bytes(2 * kBlock + 5, std::byte{9}));
}

}  // namespace
}  // namespace skerry
