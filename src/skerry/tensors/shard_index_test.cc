#include "skerry/tensors/shard_index.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ShardIndex> Read(std::string_view text) {
  const TempDir directory;
  WriteText(directory / "model.safetensors.index.json", text);
  return ReadShardIndex(directory / "model.safetensors.index.json");
}

TEST(ShardIndex, MapsTensorsToShardsAndListsEachShardOnce) {
  const ShardIndex index = Must(Read(
      R"({"metadata":{"total_size":7},"weight_map":{"a":"2.safetensors","b":"1.safetensors","c":"2.safetensors"},"x":[]})"));
  EXPECT_EQ(index.file_of.at("a"), "2.safetensors");
  EXPECT_THAT(index.Files(), ElementsAre("1.safetensors", "2.safetensors"));
}

TEST(ShardIndex, RefusesWhatHasNoMap) {
  for (const char* text : {"", "[]", "{}", "{", R"({"weight_map":{}})", R"({"weight_map":[]})", R"({"weight_map":"x"})",
                           R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":null}})", R"({"weight_map":{"a":["x"]}})",
                           R"({"x":{"weight_map":{"a":"b.safetensors"}}})"}) {
    EXPECT_THAT(Read(text), Fails(Code::kCorrupt, HasSubstr("index.json"))) << text;
  }
}

TEST(ShardIndex, RefusesATensorTwiceUnderAnySpelling) {
  EXPECT_THAT(Read(R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})"),
              Fails(Code::kCorrupt, HasSubstr("'a'")));
  EXPECT_THAT(Read(R"({"weight_map":{"a":"x.safetensors","\u0061":"x.safetensors"}})"),
              Fails(Code::kCorrupt, HasSubstr("'a'")));
  EXPECT_THAT(Read(R"({"weight_map":{"a":"x.safetensors"},"weight_map":{"a":"y.safetensors"}})"),
              Fails(Code::kCorrupt));
  EXPECT_THAT(Read(R"({"a":1,"a":2,"weight_map":{"a":"x.safetensors"}})"), Succeeds()) << "other fields are not ours";
}

TEST(ShardIndex, RefusesTwoMaps) {
  EXPECT_THAT(Read(R"({"weight_map":{"a":"x.safetensors"},"weight_map":{"b":"y.safetensors"}})"),
              Fails(Code::kCorrupt, HasSubstr("weight_map")));
}

TEST(ShardIndex, RefusesShardsOutsideTheDirectory) {
  for (const char* name : {"../x.safetensors", "/x.safetensors", "a//x.safetensors", ".x.safetensors", "",
                           "a\\\\x.safetensors", "config.json"}) {
    EXPECT_THAT(Read(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name)), Fails(Code::kCorrupt)) << name;
  }
}

TEST(ShardIndex, RefusesDeepNestingAndNulBytes) {
  EXPECT_THAT(Read(R"({"weight_map":{"a":"x.safetensors"},"y":)" + std::string(100'000, '[')), Fails(Code::kCorrupt));
  EXPECT_THAT(Read(R"({"weight_map":{"a":"x.safetensors"}})" + std::string("\0x", 2)),
              Fails(Code::kCorrupt, HasSubstr("NUL")));
}

}  // namespace
}  // namespace skerry
