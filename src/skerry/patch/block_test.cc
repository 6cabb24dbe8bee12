#include "skerry/patch/block.h"

#include "skerry/base/hash.h"
#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

BlockChanges Changes(int unit, std::vector<uint32_t> positions, Bytes values) {
  return {.unit = unit, .positions = std::move(positions), .values = std::move(values)};
}

BlockChanges RandomChanges(int unit, uint32_t units, double density, Random& random) {
  BlockChanges changes{.unit = unit};
  for (uint32_t i = 0; i < units; ++i) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 < density) changes.positions.push_back(i);
  }
  changes.values = RandomBytes(changes.positions.size() * static_cast<size_t>(unit), random);
  return changes;
}

TEST(Block, ApplyingTwiceIsTheSameAsOnce) {
  Random random(1);
  for (const int unit : {1, 2, 4, 8}) {
    Bytes bytes = RandomBytes(1000 * static_cast<size_t>(unit), random);
    const Bytes before = bytes;
    const BlockChanges changes = RandomChanges(unit, 1000, 0.1, random);
    ApplyBlock(changes, bytes.data());
    const Bytes once = bytes;
    EXPECT_NE(once, before);
    ApplyBlock(changes, bytes.data());
    EXPECT_EQ(bytes, once);
  }
}

TEST(Block, ReplacesExactlyTheNamedUnits) {
  Bytes bytes(10, std::byte{0});
  ApplyBlock(Changes(2, {1, 4}, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}), bytes.data());
  EXPECT_EQ(ToHex(bytes), "00000102000000000304");
  BlockChanges all{.unit = 1, .all = true, .values = Bytes(10, std::byte{9})};
  ApplyBlock(all, bytes.data());
  EXPECT_EQ(bytes, all.values);
  EXPECT_EQ(all.count(), 10u);
}

TEST(Block, TheChecksumCoversPositionsAndValues) {
  Random random(3);
  const BlockChanges changes = RandomChanges(2, 100, 0.2, random);
  ASSERT_GT(changes.count(), 2u);
  const uint32_t checksum = BlockChecksum(changes);
  BlockChanges other = changes;
  other.positions[1] += 1;
  EXPECT_NE(BlockChecksum(other), checksum);
  other = changes;
  other.values[3] ^= std::byte{1};
  EXPECT_NE(BlockChecksum(other), checksum);
  other = changes;
  other.all = true;
  EXPECT_NE(BlockChecksum(other), checksum);
}

}  // namespace
}  // namespace skerry
