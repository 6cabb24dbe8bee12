#include "skerry/tensors/checkpoint.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointTest : public ::testing::Test {
 protected:
  void ExpectHolds(const Checkpoint& checkpoint, const TestModel& model) {
    ASSERT_EQ(checkpoint.layout().tensors().size(), model.tensors.size());
    Bytes scratch;
    for (const TestTensor& tensor : model.tensors) {
      const auto ordinal = static_cast<size_t>(checkpoint.layout().Find(tensor.name));
      EXPECT_EQ(ToBytes(Must(checkpoint.Read(ordinal, 0, tensor.bytes.size(), scratch))), tensor.bytes) << tensor.name;
    }
    EXPECT_THAT(checkpoint.Check(), Succeeds());
  }
  Digest ModelOf(const Checkpoint& checkpoint) {
    return ModelDigest(checkpoint.layout().tensors_digest(), Must(DigestTensors(checkpoint, 2, Progress::None())));
  }

  TempDir directory_;
  Random random_{1};
  TestModel model_ = SmallModel(random_);
  Path path_ = directory_ / "ckpt";
};
using CheckpointFieldCase = CheckpointTest;

TEST_F(CheckpointTest, ReadsTheSameTensorsInEveryForm) {
  WriteCheckpoint(model_, path_);
  const Digest model = ModelOf(Must(Checkpoint::Open(path_)));
  for (const CheckpointForm& form :
       {CheckpointForm{}, CheckpointForm{.shards = 2}, CheckpointForm{.shards = 5, .reversed = true},
        CheckpointForm{.metadata = std::nullopt, .header_multiple = 1}}) {
    WriteCheckpoint(model_, path_, form);
    for (const char* failpoints : {"", "file.map:errno=12"}) {
      const WithFailpoints with(failpoints);
      const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
      ExpectHolds(checkpoint, model_);
      EXPECT_EQ(ModelOf(checkpoint), model);
    }
  }
}

TEST_F(CheckpointTest, ReadsAFileByItselfAndItsBytesInMemory) {
  WriteCheckpoint(model_, path_);
  const Checkpoint whole = Must(Checkpoint::Open(path_));
  const Bytes bytes = Must(ReadFile(path_ / "model.safetensors", 1 << 20));
  const Checkpoint file = Must(Checkpoint::OpenFile(path_ / "model.safetensors"));
  const Checkpoint memory = Must(Checkpoint::FromBytes(bytes));
  for (const Checkpoint* checkpoint : {&file, &memory}) {
    ExpectHolds(*checkpoint, model_);
    EXPECT_EQ(checkpoint->layout().digest(), whole.layout().digest());
    EXPECT_EQ(ModelOf(*checkpoint), ModelOf(whole));
    EXPECT_THAT(checkpoint->side_files(), IsEmpty());
  }
  EXPECT_EQ(file.directory(), path_);
  Bytes scratch;
  const ByteSpan read = Must(memory.Read(0, 0, model_.tensors[0].bytes.size(), scratch));
  EXPECT_TRUE(read.data() >= bytes.data() && read.data() + read.size() <= bytes.data() + bytes.size()) << "a copy";
  EXPECT_THAT(Checkpoint::FromBytes(ByteSpan(bytes).first(bytes.size() - 1)),
              Fails(Code::kCorrupt, AllOf(HasSubstr("the given bytes"), HasSubstr("truncated"))));
  EXPECT_THAT(Checkpoint::OpenFile(path_ / "missing.safetensors"), Fails(Code::kNotFound));
}

TEST_F(CheckpointTest, ReadsPartsAndRefusesWhatIsOutside) {
  WriteCheckpoint(model_, path_);
  const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
  Bytes scratch;
  const Bytes& bytes = model_["model.embed.weight"].bytes;
  const auto ordinal = static_cast<size_t>(checkpoint.layout().Find("model.embed.weight"));
  EXPECT_EQ(ToBytes(Must(checkpoint.Read(ordinal, 100, 7, scratch))), Bytes(bytes.begin() + 100, bytes.begin() + 107));
  EXPECT_THAT(checkpoint.Read(ordinal, bytes.size(), 0, scratch), Succeeds());
  EXPECT_THAT(checkpoint.Read(ordinal, bytes.size(), 1, scratch),
              Fails(Code::kInvalid, HasSubstr("model.embed.weight")));
  EXPECT_THAT(checkpoint.Read(ordinal, ~uint64_t{0}, 2, scratch), Fails(Code::kInvalid));
}

TEST_F(CheckpointTest, ListsSideFilesAndLeavesOutHiddenOnesAndOtherWeights) {
  model_.side_files["sub/dir/template.jinja"] = "t";
  WriteCheckpoint(model_, path_, {.shards = 2});
  WriteText(path_ / ".skerry" / "state.json", "{}");
  WriteText(path_ / ".cache" / "huggingface" / "x", "x");
  WriteText(path_ / ".gitattributes", "x");
  WriteText(path_ / "pytorch_model.bin", "x");
  WriteText(path_ / "sub" / "adapter.safetensors", "x");
  const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
  std::vector<std::string> names;
  for (const SideFileInfo& file : checkpoint.side_files()) names.push_back(file.path);
  EXPECT_THAT(names,
              ElementsAre("config.json", "model.safetensors.index.json", "sub/dir/template.jinja", "tokenizer.json"));
  EXPECT_EQ(ToString(Must(checkpoint.ReadSideFile(checkpoint.side_files()[2]))), "t");
  EXPECT_THAT(checkpoint.warnings(), Contains(HasSubstr("pytorch_model.bin")));
}

TEST_F(CheckpointTest, FollowsLinksToFilesAsAHubCacheHasThem) {
  WriteCheckpoint(model_, directory_ / "blobs");
  std::filesystem::create_directories(path_);
  for (const char* name : {"model.safetensors", "config.json"}) {
    std::filesystem::create_symlink(directory_ / "blobs" / name, path_ / name);
  }
  const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
  ExpectHolds(checkpoint, model_);
  EXPECT_EQ(checkpoint.side_files().size(), 1u);
}

TEST_F(CheckpointTest, SaysWhatIsWrongWithADirectory) {
  EXPECT_THAT(Checkpoint::Open(path_), Fails(Code::kNotFound, HasSubstr("ckpt")));
  WriteText(path_, "x");
  EXPECT_THAT(Checkpoint::Open(path_), Fails(Code::kInvalid, HasSubstr("is a file")));
  std::filesystem::remove(path_);
  std::filesystem::create_directories(path_);
  EXPECT_THAT(Checkpoint::Open(path_), Fails(Code::kInvalid, HasSubstr("no .safetensors file")));
  WriteSafetensors(path_ / "a.safetensors", model_.tensors);
  WriteSafetensors(path_ / "b.safetensors", model_.tensors);
  EXPECT_THAT(Checkpoint::Open(path_),
              Fails(Code::kInvalid, AllOf(HasSubstr("a.safetensors, b.safetensors"), HasSubstr("index.json"))));
  WriteCheckpoint(model_, path_, {.shards = 2});
  std::filesystem::copy(path_ / "model.safetensors.index.json", path_ / "other.safetensors.index.json");
  EXPECT_THAT(Checkpoint::Open(path_), Fails(Code::kInvalid, HasSubstr("several indexes")));
}

TEST_F(CheckpointFieldCase, C1_AShardThatIsNotThereIsNamed) {
  WriteCheckpoint(model_, path_, {.shards = 3});
  std::filesystem::remove(path_ / "model-00002-of-00003.safetensors");
  EXPECT_THAT(Checkpoint::Open(path_), Fails(Code::kCorrupt, HasSubstr("model-00002-of-00003.safetensors")));
}

TEST_F(CheckpointFieldCase, C2_TheIndexIsTheAuthorityAndStrayShardsAreIgnoredWithAWarning) {
  WriteCheckpoint(model_, path_, {.shards = 2});
  const Digest model = ModelOf(Must(Checkpoint::Open(path_)));
  EXPECT_THAT(Must(Checkpoint::Open(path_)).warnings(), IsEmpty());
  TestModel stray = model_;
  stray.Nudge(0.5, random_);
  WriteSafetensors(path_ / "model.safetensors", stray.tensors);
  WriteText(path_ / "model-00001-of-00004.safetensors", "not even one");
  const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
  EXPECT_EQ(ModelOf(checkpoint), model);
  EXPECT_EQ(checkpoint.layout().files().size(), 2u);
  EXPECT_EQ(checkpoint.side_files().size(), 3u) << "a stray shard is no side file";
  EXPECT_THAT(checkpoint.warnings(), Contains(HasSubstr("model.safetensors is ignored")));
}

TEST_F(CheckpointFieldCase, C4_AStaleIndexIsCalledSo) {
  WriteCheckpoint(model_, path_, {.shards = 5});
  const std::string index = ReadText(path_ / "model.safetensors.index.json");
  WriteCheckpoint(model_, path_, {.shards = 2});
  WriteText(path_ / "model.safetensors.index.json", index);
  EXPECT_THAT(Checkpoint::Open(path_),
              Fails(Code::kCorrupt, AllOf(HasSubstr("stale"), HasSubstr("model-00001-of-00002.safetensors"))));
}

TEST_F(CheckpointFieldCase, C4_AnIndexThatPlacesATensorElsewhereIsRefused) {
  WriteCheckpoint(model_, path_, {.shards = 2});
  const Path index = path_ / "model.safetensors.index.json";
  const std::string good = ReadText(index);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    WriteText(index, text);
    return Checkpoint::Open(path_);
  };
  EXPECT_THAT(with(R"("model.embed.weight": "model-00001)", R"("model.embed.weight": "model-00002)"),
              Fails(Code::kCorrupt, HasSubstr("'model.embed.weight'")));
  EXPECT_THAT(with(R"("model.embed.weight")", R"("model.other.weight")"),
              Fails(Code::kCorrupt, HasSubstr("'model.embed.weight'")));
  EXPECT_THAT(with(R"("weight_map": {)", R"("weight_map": {"ghost": "model-00001-of-00002.safetensors",)"),
              Fails(Code::kCorrupt, AllOf(HasSubstr("'ghost'"), HasSubstr("stale"))));
}

TEST_F(CheckpointFieldCase, C7_TotalSizeAndExtraFieldsOfTheIndexAreNotTrusted) {
  for (const char* metadata :
       {R"({"total_size":18446744073709551615})", R"({"total_size":-1,"x":[{"y":null}]})", "null", R"("text")"}) {
    WriteCheckpoint(model_, path_, {.shards = 2, .index_metadata = metadata});
    ExpectHolds(Must(Checkpoint::Open(path_)), model_);
  }
}

TEST_F(CheckpointFieldCase, B13_TensorsOffAnyAlignmentAreReadRight) {
  const TestModel odd{
      .tensors = {RandomTensor("a", DType::kU8, {3}, random_), RandomTensor("b", DType::kF32, {2}, random_),
                  RandomTensor("c", DType::kBF16, {1}, random_)},
      .side_files = {}};
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    std::filesystem::remove_all(path_);
    const std::string header =
        HeaderFor(odd.tensors, {.metadata = std::nullopt, .header_multiple = 8}) + std::string(spaces, ' ');
    WriteText(path_ / "model.safetensors", AsText(SafetensorsBytes(header, DataOf(odd.tensors))));
    const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
    ExpectHolds(checkpoint, odd);
    EXPECT_EQ(ModelOf(checkpoint), ModelDigest(ModelSource(odd).layout().tensors_digest(),
                                               Must(DigestTensors(ModelSource(odd), 1, Progress::None()))));
  }
}

TEST_F(CheckpointFieldCase, B15_AFileThatIsTruncatedWhileItIsReadIsAnErrorWithItsPath) {
  const TestModel large{.tensors = {RandomTensor("w", DType::kBF16, {500, 400}, random_)}, .side_files = {}};
  for (const char* failpoints : {"", "file.map:errno=12"}) {
    const WithFailpoints with(failpoints);
    WriteCheckpoint(large, path_);
    const Checkpoint checkpoint = Must(Checkpoint::Open(path_));
    std::filesystem::resize_file(path_ / "model.safetensors", 200'000);
    const auto digests = DigestTensors(checkpoint, 2, Progress::None());
    ASSERT_FALSE(digests);
    EXPECT_THAT(digests.error().message, HasSubstr("ckpt/model.safetensors"));
    EXPECT_EQ(digests.error().code, *failpoints == '\0' ? Code::kIo : Code::kCorrupt);
  }
}

TEST_F(CheckpointFieldCase, B4_B5_ADamagedShardIsNamed) {
  WriteCheckpoint(model_, path_, {.shards = 2});
  const Path shard = path_ / "model-00002-of-00002.safetensors";
  const std::string good = ReadText(shard);
  for (const std::string& bad : {good + "x", good.substr(0, good.size() - 1), good.substr(0, 30), std::string()}) {
    WriteText(shard, bad);
    EXPECT_THAT(Checkpoint::Open(path_), Fails(Code::kCorrupt, HasSubstr("model-00002-of-00002.safetensors")));
  }
}

}  // namespace
}  // namespace skerry
