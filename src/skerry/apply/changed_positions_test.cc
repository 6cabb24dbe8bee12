#include "skerry/apply/changed_positions.h"

#include <set>

#include "skerry/apply/undo_entry.h"
#include "skerry/tensors/safetensors.h"
#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;

VersionLabel Label(uint64_t version) { return {"run", Version(version)}; }

using Positions = std::map<std::string, std::set<uint64_t>>;

// What a reader of safetensors sees in the file.
Positions ReadPositions(const Path& path) {
  const FileReader reader = Must(FileReader::Open(path));
  const SafetensorsFile file = Must(ReadSafetensorsHeader(reader));
  EXPECT_EQ(file.json.size() % 8, 0u);
  Positions positions;
  Bytes scratch;
  for (const TensorEntry& tensor : file.header.tensors) {
    EXPECT_EQ(tensor.shape.size(), 1u);
    const bool wide = tensor.dtype == DType::kU64;
    EXPECT_TRUE(wide || tensor.dtype == DType::kU32);
    const ByteSpan data = Must(reader.Read(8 + file.json.size() + tensor.begin, tensor.end - tensor.begin, scratch));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % (wide ? 8 : 4), 0u) << "can be used where it is mapped";
    std::vector<uint64_t> found;
    for (size_t i = 0; i < tensor.shape[0]; ++i) {
      found.push_back(wide ? LoadLe<uint64_t>(data.data() + 8 * i) : LoadLe<uint32_t>(data.data() + 4 * i));
    }
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
    positions[tensor.name] = {found.begin(), found.end()};
    EXPECT_EQ(positions[tensor.name].size(), found.size()) << "each index once";
  }
  return positions;
}

// The elements whose bits differ, by comparing both models.
Positions Differing(const TestModel& a, const TestModel& b) {
  Positions positions;
  for (const TestTensor& tensor : a.tensors) {
    const TestTensor* other = nullptr;
    for (const TestTensor& candidate : b.tensors) {
      if (candidate.name == tensor.name) other = &candidate;
    }
    const auto bits = static_cast<size_t>(DTypeBits(tensor.dtype));
    for (size_t byte = 0; byte < tensor.bytes.size(); ++byte) {
      if (tensor.bytes[byte] == other->bytes[byte]) continue;
      for (size_t bit = 8 * byte; bit < 8 * byte + 8; ++bit) positions[tensor.name].insert(bit / bits);
    }
  }
  return positions;
}

class ChangedPositionsTest : public ::testing::Test {
 protected:
  ChangedPositionsTest() {
    model_ = SmallModel(random_);
    // Large enough that what changes in the small ones is a small share.
    model_.tensors.push_back(RandomTensor("model.large", DType::kBF16, {1300, 1000}, random_));
    model_.tensors.push_back(RandomTensor("packed", DType::kF4, {40, 16}, random_));
    model_.tensors.push_back(RandomTensor("six", DType::kF6E2M3, {16, 24}, random_));
    work_ = directory_ / "work";
    WriteCheckpoint(model_, work_);
    models_.push_back(model_);
    canonical_.emplace(Must(CanonicalCheckpoint::Open(work_, State(), 1, Progress::None(), {.undo = {.versions = 9}})));
    Must(canonical_->Relabel(Label(0)));
  }

  Path State() const { return DefaultStateDirectory(work_); }
  void Publish(double density) {
    const uint64_t version = models_.size();
    model_.Nudge(density, random_);
    const Bytes patch = PatchBetween(ModelSource(models_.back()), ModelSource(model_));
    Must(canonical_->Apply(Must(Patch::FromBytes(patch)), Label(version), 1, Progress::None()));
    models_.push_back(model_);
  }
  Result<std::optional<ChangedPositions>> Collect(uint64_t from, const ChangedPositionsLimits& limits = {}) {
    return CollectChanges(State(), canonical_->checkpoint().layout(), Label(from), file_, limits);
  }

  Random random_{5};
  TempDir directory_;
  Path work_, file_ = directory_ / "positions";
  TestModel model_;
  std::vector<TestModel> models_;  // by version
  std::optional<CanonicalCheckpoint> canonical_;
};

TEST_F(ChangedPositionsTest, OfOneVersionAreExactlyTheElementsThatDiffer) {
  Publish(0.03);
  const ChangedPositions changed = Must(Collect(0)).value();
  const Positions expected = Differing(models_[0], models_[1]);
  EXPECT_EQ(ReadPositions(file_), expected);
  EXPECT_EQ(changed.tensors, expected.size());
  uint64_t elements = 0;
  for (const auto& [name, positions] : expected) elements += positions.size();
  EXPECT_EQ(changed.elements, elements);
  EXPECT_EQ(changed.bytes, std::filesystem::file_size(file_));
}

TEST_F(ChangedPositionsTest, OfSeveralVersionsAreTheirUnion) {
  for (int i = 0; i < 3; ++i) Publish(0.02);
  Must(Collect(0)).value();
  Positions expected;
  for (size_t version = 0; version < 3; ++version) {
    for (const auto& [name, positions] : Differing(models_[version], models_[version + 1])) {
      expected[name].insert(positions.begin(), positions.end());
    }
  }
  EXPECT_EQ(ReadPositions(file_), expected);
}

TEST_F(ChangedPositionsTest, AfterARollbackANewerVersionDiffersWhereItDid) {
  for (int i = 0; i < 2; ++i) Publish(0.02);
  Must(canonical_->RollBack(Label(0), 1, Progress::None()));
  Must(Collect(2)).value();
  Positions expected = Differing(models_[0], models_[1]);
  for (const auto& [name, positions] : Differing(models_[1], models_[2])) {
    expected[name].insert(positions.begin(), positions.end());
  }
  EXPECT_EQ(ReadPositions(file_), expected);
}

TEST_F(ChangedPositionsTest, OfTheVersionThatIsThereAreNone) {
  Publish(0.02);
  const ChangedPositions changed = Must(Collect(1)).value();
  EXPECT_EQ(changed.elements, 0u);
  EXPECT_TRUE(ReadPositions(file_).empty());
}

TEST_F(ChangedPositionsTest, AreNotKnownWithoutAnUnbrokenChain) {
  Publish(0.02);
  Publish(0.02);
  EXPECT_FALSE(Must(Collect(7)));
  EXPECT_FALSE(Must(CollectChanges(State(), canonical_->checkpoint().layout(), {"other", Version(1)}, file_)));
  std::filesystem::remove(State() / "undo/000000002.undo");
  EXPECT_FALSE(Must(Collect(0)));
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ChangedPositionsTest, ADamagedEntryIsAsGoodAsNone) {
  Publish(0.02);
  Must(Collect(0)).value();
  const Path entry = State() / "undo" / NamesIn(State() / "undo").front();
  std::string text = ReadText(entry);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  WriteText(entry, text);
  EXPECT_FALSE(Must(Collect(0)));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "the one of before is gone too";
}

TEST_F(ChangedPositionsTest, BeyondALimitAWholeLoadIsBetter) {
  Publish(0.02);
  const ChangedPositions changed = Must(Collect(0)).value();
  EXPECT_FALSE(Must(Collect(0, {.bytes = 4 * changed.elements - 1})));
  EXPECT_TRUE(Must(Collect(0, {.bytes = 4 * changed.elements})));
  EXPECT_FALSE(Must(Collect(0, {.share = 0.001})));
  EXPECT_THAT(NamesIn(directory_.path()), ElementsAre("work"))
      << "nothing is left of the attempt, nor of the one before";
}

TEST_F(ChangedPositionsTest, WhatIsNotSettledIsNotCollected) {
  Publish(0.02);
  WriteText(State() / "journal", "of an interrupted apply");
  EXPECT_FALSE(Must(Collect(0)));
}

// Nothing of the tensor itself is read, so it need not be there.
TEST(ChangedPositions, OfATensorBeyondFourGigaElementsHave64Bits) {
  const TempDir directory;
  constexpr uint64_t kLarge = (1ull << 32) + 9;
  const Layout layout = Must(Layout::FromHeaders(
      {{"model.safetensors", fmt::format(R"({{"a \"b\" \u00e4":{{"dtype":"U8","shape":[5],"data_offsets":[0,5]}},)"
                                         R"("b":{{"dtype":"U8","shape":[{0}],"data_offsets":[5,{1}]}}}})",
                                         kLarge, kLarge + 5)}}));
  const auto state = [&](uint64_t version) {
    return CheckpointState{.label = Label(version),
                           .layout = layout.digest(),
                           .model = Sha256::Of(fmt::format("{}", version)),
                           .tensors = {{1, 2}, {3, 4}}};
  };
  UndoWriter writer = Must(UndoWriter::Begin(directory.path(), VersionMark::Of(state(0)), VersionMark::Of(state(1))));
  const Bytes two(2);
  Must(writer.Add({.tensor = 0, .first_unit = 0, .units = 5, .changes = {.positions = {1, 4}, .values = two}}));
  Must(writer.Add({.tensor = 1, .first_unit = 0, .units = 65536, .changes = {.positions = {0, 65535}, .values = two}}));
  Must(
      writer.Add({.tensor = 1, .first_unit = 1ull << 32, .units = 9, .changes = {.positions = {0, 8}, .values = two}}));
  Must(writer.Commit({}, state(0)));
  Must(WriteState(directory.path(), state(1)));
  Must(CollectChanges(directory.path(), layout, Label(0), directory / "positions")).value();
  EXPECT_EQ(ReadPositions(directory / "positions"),
            (Positions{{"a \"b\" \xc3\xa4", {1, 4}}, {"b", {0, 65535, 1ull << 32, (1ull << 32) + 8}}}));
}

}  // namespace
}  // namespace skerry
