#include "skerry/apply/patch_algebra.h"

#include "skerry/apply/patched_source.h"
#include "skerry/apply/rebuild.h"
#include "skerry/apply/verified_changes.h"
#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Versions v0, v1, … of a small model on disk.
class Versions {
 public:
  explicit Versions(uint64_t seed) : random_(seed), model(SmallModel(random_)) { Write({.shards = 2}); }

  // The next version, `density` of whose units are others, or are again what they were in v0.
  void Next(double density, const CheckpointForm& form = {.shards = 2}) {
    const TestModel before = model;
    model.Nudge(density, random_);
    for (TestTensor& tensor : model.tensors) {
      for (size_t u = 0; u < tensor.units() && count_ > 1; u += 3) {
        if (random_() % 2 == 0) continue;
        const size_t at = u * tensor.unit();
        std::copy_n(first_[tensor.name].bytes.begin() + static_cast<ptrdiff_t>(at), tensor.unit(),
                    tensor.bytes.begin() + static_cast<ptrdiff_t>(at));
      }
    }
    Write(form);
  }
  void Write(const CheckpointForm& form) {
    if (count_ == 0) first_ = model;
    WriteCheckpoint(model, At(count_++), form);
  }

  Path At(size_t version) const { return directory / fmt::format("v{}", version); }
  Checkpoint Open(size_t version) const { return Must(Checkpoint::Open(At(version))); }
  Patch Between(size_t from, size_t to, const EncodeOptions& options = {}) const {
    return Must(Patch::FromBytes(PatchBetween(At(from), At(to), options)));
  }
  // What `patch` makes of a version.
  std::map<std::string, std::string> Applied(size_t base, const Patch& patch) {
    const Path output = directory / fmt::format("out-{}", ++outputs_);
    Must(RebuildCheckpoint(Open(base), {}, patch, output, {}, false, 1, Progress::None()));
    return FilesOf(output);
  }

 private:
  Random random_;
  size_t count_ = 0, outputs_ = 0;
  TestModel first_;

 public:
  TestModel model;
  TempDir directory;
};

Result<Patch> Squash(const Checkpoint& base, std::vector<const Patch*> patches, const EncodeOptions& options = {}) {
  MemorySink sink;
  SKERRY_ASSIGN([[maybe_unused]] const EncodeReceipt receipt,
                SquashPatches(base, {}, patches, options, sink, Progress::None()));
  return Patch::FromBytes(std::move(sink.bytes()));
}
Result<Patch> Invert(const Checkpoint& base, const Patch& patch, const EncodeOptions& options = {}) {
  MemorySink sink;
  SKERRY_ASSIGN([[maybe_unused]] const EncodeReceipt receipt,
                InvertPatch(base, {}, patch, options, sink, Progress::None()));
  return Patch::FromBytes(std::move(sink.bytes()));
}

RC_GTEST_PROP(PatchAlgebra, SquashedPatchesLeadWhereTheChainLeads, (uint64_t seed)) {
  const EncodeOptions options{.threads = *rc::gen::inRange(1, 4),
                              .level = *rc::gen::element(Level::kFast, Level::kCompact)};
  Versions versions(seed);
  const size_t steps = *rc::gen::inRange<size_t>(1, 4);
  std::vector<Patch> patches;
  std::vector<const Patch*> chain;
  for (size_t i = 0; i < steps; ++i) {
    versions.Next(*rc::gen::element(0.0, 0.001, 0.02, 0.5, 1.0));
    patches.push_back(versions.Between(i, i + 1));
  }
  for (const Patch& patch : patches) chain.push_back(&patch);
  const Patch squashed = Must(Squash(versions.Open(0), chain, options));
  RC_ASSERT(squashed.info().base_model == patches.front().info().base_model);
  RC_ASSERT(squashed.info().target_model == patches.back().info().target_model);
  RC_ASSERT(versions.Applied(0, squashed) == FilesOf(versions.At(steps)));
  // What returned to its old bits is not in it: it has exactly the changes of a fresh comparison.
  RC_ASSERT(squashed.info().changed == versions.Between(0, steps).info().changed);
}

RC_GTEST_PROP(PatchAlgebra, SquashingIsAssociative, (uint64_t seed)) {
  Versions versions(seed);
  for (int i = 0; i < 3; ++i) versions.Next(*rc::gen::element(0.001, 0.02, 0.5));
  const Patch p = versions.Between(0, 1), q = versions.Between(1, 2), r = versions.Between(2, 3);
  const Patch pq = Must(Squash(versions.Open(0), {&p, &q})), qr = Must(Squash(versions.Open(1), {&q, &r}));
  const Patch left = Must(Squash(versions.Open(0), {&pq, &r})), right = Must(Squash(versions.Open(0), {&p, &qr}));
  RC_ASSERT(left.info().target_model == right.info().target_model);
  RC_ASSERT(left.info().changed == right.info().changed);
  RC_ASSERT(versions.Applied(0, left) == versions.Applied(0, right));
}

RC_GTEST_PROP(PatchAlgebra, AnInvertedPatchLeadsBack, (uint64_t seed)) {
  const EncodeOptions options{.threads = *rc::gen::inRange(1, 4),
                              .level = *rc::gen::element(Level::kFast, Level::kCompact)};
  Versions versions(seed);
  versions.Next(*rc::gen::element(0.0, 0.001, 0.02, 0.5, 1.0));
  const Patch patch = versions.Between(0, 1);
  const Patch back = Must(Invert(versions.Open(0), patch, options));
  RC_ASSERT(back.info().base_model == patch.info().target_model);
  RC_ASSERT(back.info().target_model == patch.info().base_model);
  RC_ASSERT(back.info().changed == patch.info().changed);
  RC_ASSERT(versions.Applied(1, back) == FilesOf(versions.At(0)));
  const Patch nothing = Must(Squash(versions.Open(0), {&patch, &back}));
  RC_ASSERT(nothing.info().changed == 0u);
  RC_ASSERT(nothing.info().blocks == 0u);
}

TEST(PatchAlgebra, ReadsOnlyCellsThatAPatchTouches) {
  // Counts reads of a tensor that no patch touches.
  class Counting : public TensorSource {
   public:
    Counting(const TensorSource& source, size_t watched) : source_(source), watched_(watched) {}
    const Layout& layout() const override { return source_.layout(); }
    Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override {
      reads += ordinal == watched_;
      return source_.Read(ordinal, offset, length, scratch);
    }
    Status Check() const override { return {}; }
    mutable std::atomic<int> reads{0};

   private:
    const TensorSource& source_;
    size_t watched_;
  };
  Random random(7);
  TestModel before, after;
  before.tensors = {RandomTensor("a", DType::kBF16, {70'000}, random),
                    RandomTensor("b", DType::kBF16, {70'000}, random)};
  after = before;
  Nudge(after["a"], 0.01, random);
  const ModelSource base(before), target(after);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  const Counting counting(base, 1);
  const auto digests = Must(DigestTensors(base, 1, Progress::None()));
  const auto source = Must(PatchedSource::Open(counting, patch, base.layout()));
  KnownChanges known{.base_digests = digests,
                     .target_digests = Must(DigestTensors(target, 1, Progress::None())),
                     .touched_cells = {true, true, false, false}};
  MemorySink sink;
  Must(EncodePatch(counting, *source, {}, {}, sink, Progress::None(), &known));
  EXPECT_EQ(counting.reads, 0);
  EXPECT_EQ(sink.bytes(), PatchBetween(base, target)) << "the very patch that a comparison of everything makes";
}

TEST(PatchAlgebra, SideFilesTellTheLastWordAndWhatReturnsDropsOut) {
  Versions versions(3);
  versions.model.side_files["config.json"] = R"({"hidden_size":2})";
  versions.model.side_files["new.txt"] = "one";
  versions.Next(0.01);
  versions.model.side_files["config.json"] = R"({"hidden_size":97})";
  versions.model.side_files["new.txt"] = "two";
  versions.Next(0.01);
  const Patch p = versions.Between(0, 1), q = versions.Between(1, 2);
  const Patch squashed = Must(Squash(versions.Open(0), {&p, &q}));
  EXPECT_EQ(versions.Applied(0, squashed), FilesOf(versions.At(2)));
  const Patch back = Must(Invert(versions.Open(0), squashed));
  EXPECT_EQ(versions.Applied(2, back), FilesOf(versions.At(0)));
}

TEST(PatchAlgebra, OtherShardsTravelAndComeBack) {
  Versions versions(4);
  versions.Next(0.01, {.shards = 3, .reversed = true});
  versions.Next(0.01, {.shards = 1});
  const Patch p = versions.Between(0, 1), q = versions.Between(1, 2);
  const Patch squashed = Must(Squash(versions.Open(0), {&p, &q}));
  EXPECT_EQ(versions.Applied(0, squashed), FilesOf(versions.At(2)));
  EXPECT_EQ(versions.Applied(2, Must(Invert(versions.Open(0), squashed))), FilesOf(versions.At(0)));
}

TEST(PatchAlgebra, StructuralPatchesAreSquashedAndInverted) {
  Versions versions(5);
  Random random(5);
  versions.model.tensors.push_back(RandomTensor("new.weight", DType::kBF16, {300, 7}, random));
  versions.model.tensors.erase(versions.model.tensors.begin());
  versions.Write({.shards = 2});
  versions.model["new.weight"].bytes[0] ^= std::byte{1};
  versions.Write({.shards = 2});
  const Patch p = versions.Between(0, 1, {.allow_structural = true}), q = versions.Between(1, 2);
  const Patch squashed = Must(Squash(versions.Open(0), {&p, &q}));
  EXPECT_TRUE(squashed.info().structural);
  EXPECT_EQ(versions.Applied(0, squashed), FilesOf(versions.At(2)));
  EXPECT_EQ(versions.Applied(2, Must(Invert(versions.Open(0), squashed))), FilesOf(versions.At(0)));
}

TEST(PatchAlgebra, PatchesThatDoNotFollowEachOtherAreRefusedByBothDigests) {
  Versions versions(6);
  versions.Next(0.01);
  versions.Next(0.01);
  const Patch p = versions.Between(0, 1), q = versions.Between(1, 2);
  EXPECT_THAT(
      Squash(versions.Open(0), {&q, &p}),
      Fails(Code::kMismatch, AllOf(HasSubstr(q.info().base_model.Short()), HasSubstr(p.info().base_model.Short()))));
  EXPECT_THAT(Squash(versions.Open(0), {&p, &p}), Fails(Code::kMismatch));
  EXPECT_THAT(Invert(versions.Open(1), p), Fails(Code::kMismatch));
}

TEST(PatchAlgebra, ADamagedBaseIsFoundOut) {
  Versions versions(8);
  versions.Next(0.05);
  const Patch patch = versions.Between(0, 1);
  const auto digests = Must(DigestTensors(versions.Open(0), 1, Progress::None()));
  // The digests are what they were, the bytes are not.
  versions.model["model.embed.weight"].bytes[0] ^= std::byte{1};
  WriteCheckpoint(versions.model, versions.At(0), {.shards = 2});
  MemorySink sink;
  EXPECT_THAT(InvertPatch(versions.Open(0), digests, patch, {}, sink, Progress::None()), Fails(Code::kCorrupt));
}

TEST(PatchedSource, ReadsAnyRangeAsTheTargetHasIt) {
  Random random(9);
  TestModel before = SmallModel(random), after;
  after = before;
  after.Nudge(0.2, random);
  const ModelSource base(before), target(after);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  const auto source = Must(PatchedSource::Open(base, patch, base.layout()));
  for (size_t i = 0; i < base.layout().tensors().size(); ++i) {
    const LayoutTensor& tensor = base.layout().tensors()[i];
    const auto unit = static_cast<uint64_t>(DTypeUnit(tensor.dtype));
    for (int round = 0; round < 50; ++round) {
      const uint64_t from = random() % (tensor.units() + 1), units = random() % (tensor.units() - from + 1);
      Bytes scratch, expected_scratch;
      const ByteSpan read = Must(source->Read(i, from * unit, units * unit, scratch));
      const ByteSpan expected = Must(target.Read(i, from * unit, units * unit, expected_scratch));
      ASSERT_TRUE(std::equal(read.begin(), read.end(), expected.begin(), expected.end())) << tensor.name;
    }
    Bytes scratch;
    EXPECT_THAT(source->Read(i, tensor.bytes + unit, unit, scratch), Fails(Code::kInvalid));
  }
}

}  // namespace
}  // namespace skerry
