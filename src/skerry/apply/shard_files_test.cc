#include "skerry/apply/shard_files.h"

#include "skerry/tensors/checkpoint.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

class ShardFilesTest : public ::testing::Test {
 protected:
  ShardFilesTest() { WriteCheckpoint(model_, directory_ / "m", {.shards = 2, .header_multiple = 1}); }

  BlockChanges Changes(std::vector<uint32_t> positions) {
    BlockChanges changes{.unit = 2};
    changes.values = Bytes(2 * positions.size(), std::byte{0xAB});
    changes.positions = std::move(positions);
    return changes;
  }

  Random random_{1};
  TestModel model_{
      .tensors = {RandomTensor("a", DType::kU8, {7}, random_), RandomTensor("b", DType::kBF16, {9}, random_),
                  RandomTensor("c", DType::kBF16, {5}, random_)},
      .side_files = {}};
  TempDir directory_;
};

TEST_F(ShardFilesTest, WritesUnitsWhereTheLayoutPlacesThemMappedOrNot) {
  for (const char* failpoints : {"", "file.map:errno=12"}) {
    const WithFailpoints with(failpoints);
    WriteCheckpoint(model_, directory_ / "m", {.shards = 2, .header_multiple = 1});
    const Checkpoint checkpoint = Must(Checkpoint::Open(directory_ / "m"));
    ShardFiles shards = Must(ShardFiles::Open(directory_ / "m", checkpoint.layout()));
    Must(shards.Write(1, 2, 7, Changes({0, 6})));
    Must(shards.Sync());
    TestModel expected = model_;
    for (const size_t unit : {2u, 8u})
      std::fill_n(expected["b"].bytes.begin() + static_cast<ptrdiff_t>(2 * unit), 2, std::byte{0xAB});
    WriteCheckpoint(expected, directory_ / "expected", {.shards = 2, .header_multiple = 1});
    EXPECT_EQ(FilesOf(directory_ / "m"), FilesOf(directory_ / "expected"));
  }
}

TEST_F(ShardFilesTest, RefusesWhatDoesNotFitTheTensor) {
  const Checkpoint checkpoint = Must(Checkpoint::Open(directory_ / "m"));
  const auto before = FilesOf(directory_ / "m");
  ShardFiles shards = Must(ShardFiles::Open(directory_ / "m", checkpoint.layout()));
  EXPECT_THAT(shards.Write(3, 0, 1, Changes({0})), Fails(Code::kCorrupt));
  EXPECT_THAT(shards.Write(1, 0, 10, Changes({9})), Fails(Code::kCorrupt, HasSubstr("'b'")));
  EXPECT_THAT(shards.Write(1, 9, 1, Changes({0})), Fails(Code::kCorrupt));
  EXPECT_THAT(shards.Write(1, ~uint64_t{0}, 2, Changes({0})), Fails(Code::kCorrupt));
  EXPECT_THAT(shards.Write(0, 0, 1, Changes({0})), Fails(Code::kCorrupt)) << "units of another width";
  EXPECT_EQ(FilesOf(directory_ / "m"), before);
}

TEST_F(ShardFilesTest, ReadsWhatItWroteMappedOrNot) {
  for (const char* failpoints : {"", "file.map:errno=12"}) {
    const WithFailpoints with(failpoints);
    WriteCheckpoint(model_, directory_ / "m", {.shards = 2, .header_multiple = 1});
    ShardFiles shards = Must(ShardFiles::Open(directory_ / "m", Must(Checkpoint::Open(directory_ / "m")).layout()));
    Must(shards.Write(1, 2, 7, Changes({0, 6})));
    Bytes scratch, expected = model_["b"].bytes;
    for (const size_t unit : {2u, 8u})
      std::fill_n(expected.begin() + static_cast<ptrdiff_t>(2 * unit), 2, std::byte{0xAB});
    EXPECT_EQ(ToBytes(Must(shards.Read(1, 0, 18, scratch))), expected);
    EXPECT_EQ(ToBytes(Must(shards.Read(1, 16, 2, scratch))), Bytes(2, std::byte{0xAB}));
    EXPECT_THAT(shards.Read(1, 16, 3, scratch), Fails(Code::kInvalid, HasSubstr("'b'")));
    EXPECT_THAT(shards.Read(1, ~uint64_t{0}, 2, scratch), Fails(Code::kInvalid));
    EXPECT_THAT(shards.Check(), Succeeds());
  }
}

TEST_F(ShardFilesTest, RefusesShardsOfAnotherSize) {
  const Checkpoint checkpoint = Must(Checkpoint::Open(directory_ / "m"));
  const Path shard = directory_ / "m" / checkpoint.layout().files()[1].name;
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  EXPECT_THAT(ShardFiles::Open(directory_ / "m", checkpoint.layout()),
              Fails(Code::kCorrupt, HasSubstr(shard.string())));
}

TEST_F(ShardFilesTest, B15_AShardThatShrinksUnderTheMappingIsAnErrorAndNoSignal) {
  TestModel large{.tensors = {RandomTensor("b", DType::kBF16, {100'000}, random_)}, .side_files = {}};
  WriteCheckpoint(large, directory_ / "large");
  const Checkpoint checkpoint = Must(Checkpoint::Open(directory_ / "large"));
  ShardFiles shards = Must(ShardFiles::Open(directory_ / "large", checkpoint.layout()));
  std::filesystem::resize_file(directory_ / "large" / "model.safetensors", 4096);
  Must(shards.Write(0, 0, 100'000, Changes({99'000})));
  EXPECT_THAT(shards.Sync(), Fails(Code::kIo, HasSubstr("model.safetensors")));
}

}  // namespace
}  // namespace skerry
