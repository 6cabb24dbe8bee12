#include "skerry/board/layout_codec.h"

#include <gtest/gtest.h>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

TEST(LayoutCodec, GivesBackTheSameBytes) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{3'000'000}}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i * i % 23);
    const Bytes packed = PackLayout(AsBytes(text)).value();
    EXPECT_EQ(AsText(UnpackLayout(packed, size).value()), text);
    if (size > 1) {
      EXPECT_EQ(CodeOf(UnpackLayout(packed, size - 1)), "corrupt");
    }
  }
}

TEST(LayoutCodec, RefusesABombBeforeItsMemoryIsTaken) {
  const Bytes bomb = PackLayout(Bytes(64 << 20)).value();
  ASSERT_LT(bomb.size(), 100'000u);
  const Result<Bytes> unpacked = UnpackLayout(bomb, 1 << 20);
  EXPECT_EQ(MessageOf(unpacked), "packed layout: more than 1048576 bytes in it");
}

TEST(LayoutCodec, RefusesDamagedCutAndLengthenedFrames) {
  const Bytes good = PackLayout(AsBytes("{\"tensors\":[1,2,3,4,5,6,7,8,9]}")).value();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(CodeOf(UnpackLayout(ByteSpan(good).first(size), 1000)), "corrupt") << size;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(CodeOf(UnpackLayout(longer, 1000)), "corrupt");
  EXPECT_EQ(CodeOf(UnpackLayout(AsBytes("this is no zstd frame"), 1000)), "corrupt");
}

}  // namespace
}  // namespace skerry
