#include "skerry/tensors/layout.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Headers = std::vector<std::pair<std::string, std::string>>;

std::string HeaderOf(const std::vector<std::string>& names) {
  std::vector<TestTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kU8, {2}, Bytes(2)});
  return HeaderFor(tensors);
}

TEST(Layout, OrdersTensorsByTheBytesOfTheirNamesAndPlacesThem) {
  const std::string x = HeaderOf({"b", "a\xC3\xA4", "B"}), y = HeaderOf({"a"});
  const Layout layout = Must(Layout::FromHeaders({{"y.safetensors", y}, {"x.safetensors", x}}));
  ASSERT_EQ(layout.tensors().size(), 4u);
  EXPECT_EQ(layout.tensors()[0].name, "B");
  EXPECT_EQ(layout.tensors()[1].name, "a");
  EXPECT_EQ(layout.tensors()[2].name, "a\xC3\xA4");
  EXPECT_EQ(layout.tensors()[3].name, "b");
  EXPECT_EQ(layout.files()[0].name, "x.safetensors");
  EXPECT_EQ(layout.tensors()[0].file, 0u);
  EXPECT_EQ(layout.tensors()[0].offset_in_file, 8 + x.size() + 4);
  EXPECT_EQ(layout.tensors()[1].file, 1u);
  EXPECT_EQ(layout.files()[0].size(), 8 + x.size() + 6);
  EXPECT_EQ(layout.total_bytes(), 8u);
  EXPECT_EQ(layout.total_units(), 8u);
}

TEST(Layout, FindsEveryTensorAndNothingElse) {
  const Layout layout = Must(Layout::FromHeaders({{"m.safetensors", HeaderOf({"c", "a", "b"})}}));
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(layout.tensors()[static_cast<size_t>(layout.Find(name))].name, name);
  for (const char* name : {"", "0", "aa", "d"}) EXPECT_EQ(layout.Find(name), -1) << name;
}

// Expected values: an independent calculation from the text of docs/patch-format.md.
TEST(Layout, HasTheDigestsOfTheFormatDocument) {
  const Layout layout =
      Must(Layout::FromHeaders({{"model.safetensors", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}  )"}}));
  EXPECT_EQ(
      ToString(layout.Serialize()),
      R"({"files":[{"header":"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}  ","name":"model.safetensors"}],"format":1})");
  EXPECT_EQ(layout.digest().Hex(), "6385a190de3cc185db0a6d7566860eecb29c16a59fae6e79562e81492f9c7280");
  const TestModel model{.tensors = {{"d", DType::kBF16, {2, 3}, Bytes(12)},
                                    {"c", DType::kF32, {}, Bytes(4)},
                                    {"b", DType::kF32, {2, 0}, {}},
                                    {"a", DType::kF8E4M3, {0}, {}}},
                        .side_files = {}};
  EXPECT_EQ(ModelSource(model).layout().tensors_digest().Hex(),
            "9e30cd1ad357a6756d5f4a3dab472acce780bedf2496284f867bf7637f7e2872");
}

TEST(Layout, SurvivesItsCanonicalForm) {
  Random random(1);
  const Layout layout = ModelSource(SmallModel(random)).layout();
  const Layout parsed = Must(Layout::Parse(layout.Serialize()));
  EXPECT_EQ(parsed.Serialize(), layout.Serialize());
  EXPECT_EQ(parsed.digest(), layout.digest());
  EXPECT_EQ(parsed.tensors_digest(), layout.tensors_digest());
  EXPECT_EQ(parsed.total_bytes(), layout.total_bytes());
}

TEST(Layout, TellsFilesApartByEveryByteOfTheirHeadersAndTensorsByNothingElse) {
  Random random(2);
  const TestModel model = SmallModel(random);
  const Layout layout = ModelSource(model).layout();
  EXPECT_EQ(ModelSource(model).layout().digest(), layout.digest());
  for (const CheckpointForm& form : {CheckpointForm{.metadata = "{}"}, CheckpointForm{.metadata = std::nullopt},
                                     CheckpointForm{.header_multiple = 1024}, CheckpointForm{.reversed = true}}) {
    const Layout other = ModelSource(model, form).layout();
    EXPECT_NE(other.digest(), layout.digest());
    EXPECT_EQ(other.tensors_digest(), layout.tensors_digest());
  }
  const auto with = [&](auto change) {
    TestModel changed = model;
    change(changed);
    return ModelSource(changed).layout().tensors_digest();
  };
  EXPECT_NE(with([](TestModel& m) { m.tensors[0].name += "x"; }), layout.tensors_digest());
  EXPECT_NE(with([](TestModel& m) { m.tensors[0].dtype = DType::kF16; }), layout.tensors_digest());
  EXPECT_NE(with([](TestModel& m) { m.tensors[0].shape = {96, 64}; }), layout.tensors_digest());
  EXPECT_NE(with([](TestModel& m) { m.tensors.pop_back(); }), layout.tensors_digest()) << "even an empty one";
  EXPECT_EQ(with([](TestModel& m) { m.tensors[0].bytes[0] ^= std::byte{1}; }), layout.tensors_digest());
}

TEST(Layout, RefusesATensorThatStandsInTwoFiles) {
  EXPECT_THAT(Layout::FromHeaders({{"x.safetensors", HeaderOf({"a", "b"})}, {"y.safetensors", HeaderOf({"b"})}}),
              Fails(Code::kCorrupt, AllOf(HasSubstr("'b'"), HasSubstr("x.safetensors"), HasSubstr("y.safetensors"))));
}

TEST(Layout, RefusesAFileTwiceAndUnsafeNames) {
  const std::string x = "x.safetensors";
  EXPECT_THAT(Layout::FromHeaders({{x, HeaderOf({"a"})}, {x, HeaderOf({"b"})}}),
              Fails(Code::kCorrupt, HasSubstr("twice")));
  EXPECT_THAT(Layout::FromHeaders({{"../" + x, HeaderOf({"a"})}}), Fails(Code::kCorrupt, HasSubstr("../x")));
  EXPECT_THAT(Layout::FromHeaders({{"config.json", HeaderOf({"a"})}}), Fails(Code::kCorrupt, HasSubstr("config.json")));
  EXPECT_THAT(Layout::FromHeaders({{x, "{"}}), Fails(Code::kCorrupt, HasSubstr("x.safetensors: ")));
}

TEST(Layout, RefusesSerialisedFormsThatAreNotCanonical) {
  Random random(3);
  const std::string good = ToString(ModelSource(SmallModel(random)).layout().Serialize());
  ASSERT_THAT(Layout::Parse(AsBytes(good)), Succeeds());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return Layout::Parse(AsBytes(text));
  };
  EXPECT_THAT(Layout::Parse(AsBytes(good + " ")), Fails(Code::kCorrupt, HasSubstr("canonical")));
  EXPECT_THAT(with("\"format\":1", "\"format\": 1"), Fails(Code::kCorrupt, HasSubstr("canonical")));
  EXPECT_THAT(with("\"format\":1", "\"format\":1.0"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"format\":1", "\"format\":2"), Fails(Code::kUnsupported, HasSubstr("2")));
  EXPECT_THAT(with("\"format\":1", "\"fromat\":1"), Fails(Code::kUnsupported));
  EXPECT_THAT(with("\"format\":1", "\"extra\":0,\"format\":1"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"name\":\"model", "\"name\":\"/model"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"name\":\"model.safetensors\"", "\"name\":5"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"files\":[", "\"files\":[5,"), Fails(Code::kCorrupt));
  for (const char* text : {"", "[]", "null", "{\"format\":1}", "{\"files\":{},\"format\":1}"}) {
    EXPECT_THAT(Layout::Parse(AsBytes(text)), Fails(Code::kCorrupt)) << text;
  }
  for (size_t size = 0; size < good.size(); size += 7)
    EXPECT_FALSE(Layout::Parse(AsBytes(good.substr(0, size)))) << size;
  EXPECT_THAT(Layout::Parse(AsBytes(std::string(1'000'000, '['))), Fails(Code::kCorrupt));
}

TEST(Layout, DescribesDifferencesInWords) {
  const auto layout_of = [](std::vector<TestTensor> tensors) {
    return ModelSource({.tensors = std::move(tensors), .side_files = {}}).layout();
  };
  const TestTensor a{"a", DType::kBF16, {4}, Bytes(8)}, b{"b", DType::kBF16, {2, 8}, Bytes(32)};
  const TestTensor a32{"a", DType::kF32, {4}, Bytes(16)}, c{"c", DType::kF32, {}, Bytes(4)};
  EXPECT_THAT(DescribeTensorDifferences(layout_of({a, b}), layout_of({b, a})), IsEmpty());
  EXPECT_EQ(DescribeTensorDifferences(layout_of({a, b}), layout_of({a32, c})),
            "tensor 'a' was BF16 [4] and is F32 [4]; tensor 'b' (BF16 [2, 8]) is missing; tensor 'c' (F32 []) is new");
  EXPECT_THAT(DescribeTensorDifferences(layout_of({a, b}), layout_of({a32, c}), 1), HasSubstr("and 2 more"));
}

TEST(FieldCase, A16_EqualByteCountsDoNotHideAnotherShape) {
  const TestModel wide{.tensors = {{"w", DType::kBF16, {2, 8}, Bytes(32)}}, .side_files = {}};
  const TestModel tall{.tensors = {{"w", DType::kBF16, {4, 4}, Bytes(32)}}, .side_files = {}};
  EXPECT_THAT(DescribeTensorDifferences(ModelSource(wide).layout(), ModelSource(tall).layout()),
              AllOf(HasSubstr("'w'"), HasSubstr("[2, 8]"), HasSubstr("[4, 4]")));
}

TEST(FieldCase, C5_ShardsCutAnewHoldTheSameTensors) {
  Random random(4);
  const TestModel model = SmallModel(random);
  const auto headers_in = [&](size_t shards) {
    Headers headers;
    for (size_t shard = 0; shard < shards; ++shard) {
      std::vector<TestTensor> part;
      for (size_t i = shard; i < model.tensors.size(); i += shards) part.push_back(model.tensors[i]);
      headers.emplace_back(fmt::format("{}-of-{}.safetensors", shard, shards), HeaderFor(part));
    }
    return headers;
  };
  const Layout two = Must(Layout::FromHeaders(headers_in(2))), three = Must(Layout::FromHeaders(headers_in(3)));
  EXPECT_EQ(two.tensors_digest(), three.tensors_digest());
  EXPECT_NE(two.digest(), three.digest());
  EXPECT_THAT(DescribeTensorDifferences(two, three), IsEmpty());
}

TEST(RelativePath, StaysInsideItsDirectory) {
  for (const char* path : {"a", "config.json", "a/b/c.txt", "a b", "a..b", "\xC3\xA4", "a.", "~"}) {
    EXPECT_THAT(CheckRelativePath(path), Succeeds()) << path;
  }
  for (const char* path : {"",    "/",  "/a",   "a/",   "a//b", ".",    "..",    "a/..", "../a", "a/../b",
                           "./a", ".a", "a/.b", "a\\b", "a\"b", "a\nb", "a\x7f", "\x01", "\xFF", "a\xC3"}) {
    EXPECT_THAT(CheckRelativePath(path), Fails(Code::kCorrupt)) << path;
  }
  EXPECT_THAT(CheckRelativePath(std::string("a\0b", 3)), Fails(Code::kCorrupt));
  EXPECT_THAT(CheckRelativePath(std::string(1024, 'a')), Succeeds());
  EXPECT_THAT(CheckRelativePath(std::string(1025, 'a')), Fails(Code::kCorrupt));
}

}  // namespace
}  // namespace skerry
