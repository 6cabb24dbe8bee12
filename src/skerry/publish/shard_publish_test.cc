// Ranks that publish a sharded model together: shard_writer.h and shard_release.h, without a process group.
#include <fcntl.h>
#include <unistd.h>

#include "skerry/publish/shard_release.h"
#include "skerry/publish/shard_writer.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ShardPublishTest : public PublishTestBase {
 protected:
  static constexpr uint64_t kRanks = 3;

  ShardPublishTest() {
    model_ = TestModel{.tensors = {RandomTensor("a.rows", DType::kBF16, {300, 64}, random_),
                                   RandomTensor("b.columns", DType::kBF16, {40, 96}, random_),
                                   RandomTensor("c.small", DType::kF32, {10}, random_),
                                   RandomTensor("d.scalar", DType::kF32, {}, random_),
                                   RandomTensor("e.codes", DType::kF8E4M3, {64, 24}, random_)},
                       .side_files = {{"config.json", "{}"}}};
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
  }

  // Rows for the first and last, columns for the second; what can't be cut is one rank's.
  static std::vector<TensorBox> BoxesOf(const Layout& layout, uint64_t rank) {
    std::vector<TensorBox> boxes;
    for (size_t i = 0; i < layout.tensors().size(); ++i) {
      const std::vector<uint64_t>& shape = layout.tensors()[i].shape;
      const size_t axis = layout.tensors()[i].name == "b.columns" ? 1 : 0;
      if (shape.size() < 2) {
        if (rank == i % kRanks)
          boxes.push_back({.tensor = i, .start = std::vector<uint64_t>(shape.size()), .size = shape});
        continue;
      }
      TensorBox box{.tensor = i, .start = std::vector<uint64_t>(shape.size()), .size = shape};
      const uint64_t part = (shape[axis] + kRanks - 1) / kRanks / 8 * 8 + 8;  // the last has less
      box.start[axis] = std::min(shape[axis], rank * part);
      box.size[axis] = std::min(shape[axis] - box.start[axis], part);
      if (box.size[axis] > 0) boxes.push_back(std::move(box));
    }
    return boxes;
  }

  struct Ranks {
    ShardRelease release;
    std::vector<ShardWriter> writers;
  };
  Ranks Open() {
    Ranks ranks{.release = Must(ShardRelease::Open(board_, run_, directory_ / "release")), .writers = {}};
    Must(ranks.release.Begin(/*takes_over=*/false, clock_));
    const Layout layout = Must(ranks.release.ReadLayout());
    for (uint64_t rank = 0; rank < kRanks; ++rank) {
      ShardOptions options{.state_directory = directory_ / fmt::format("rank-{}", rank),
                           .boxes = BoxesOf(layout, rank),
                           .index = rank,
                           .of = kRanks};
      ranks.writers.push_back(Must(ShardWriter::Open(board_, run_, layout, std::move(options))));
    }
    return ranks;
  }

  // The snapshot, from a fresh checkpoint of the version where it has to be built.
  Status Prepare(ShardWriter& writer, Version version) {
    SKERRY_ASSIGN(const bool there, writer.IsAt(version, Progress::None()));
    if (there) return {};
    ++builds_;
    const Path whole = directory_ / "whole";
    std::filesystem::remove_all(whole);
    SKERRY_TRY(CatchUp(run_, whole, version.number()));
    SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(whole));
    return writer.Build(checkpoint, version, Progress::None());
  }
  // The model's bytes of each box, row by row, as a rank that holds only them would give them.
  Status TakeBoxes(const ShardWriter& writer, Capture& capture) {
    const ModelSource now(model_, form_);
    SKERRY_ASSIGN(const BoxView view, BoxView::Of(now, writer.boxes()));
    Bytes scratch;
    for (size_t i = 0; i < view.boxes().size(); ++i) {
      const LayoutTensor& box = view.layout().tensors()[i];
      SKERRY_ASSIGN(const ByteSpan bytes, view.Read(i, 0, box.bytes, scratch));
      SKERRY_TRY(capture.Take(i, 0, box.dtype, bytes));
    }
    return {};
  }

  Result<PublishReceipt> PublishTogether(Ranks& ranks, bool allow_empty = false) {
    SKERRY_ASSIGN(const Head head, ranks.release.Begin(/*takes_over=*/false, clock_));
    std::vector<Capture> captures;
    std::vector<Bytes> receipts;
    for (ShardWriter& writer : ranks.writers) {
      SKERRY_TRY(Prepare(writer, head.version));
      captures.push_back(writer.BeginCapture());
      SKERRY_TRY(TakeBoxes(writer, captures.back()));
    }
    for (uint64_t rank = 0; rank < kRanks; ++rank) {
      SKERRY_ASSIGN(Bytes receipt,
                    ranks.writers[rank].Encode(captures[rank], head.version, head.manifest.sha256, Progress::None()));
      receipts.push_back(std::move(receipt));
    }
    SKERRY_ASSIGN(const PublishReceipt receipt, ranks.release.Finish(receipts, 17, allow_empty));
    if (!receipt.published) return receipt;
    versions_[run_][receipt.version.number()] = FilesOf(Export());
    for (uint64_t rank = 0; rank < kRanks; ++rank) {
      SKERRY_TRY(ranks.writers[rank].Follow(captures[rank], Progress::None()));
    }
    return receipt;
  }

  int builds_ = 0;
};

TEST_F(ShardPublishTest, EveryVersionIsRebuiltBitForBit) {
  Ranks ranks = Open();
  for (uint64_t version = 1; version <= 9; ++version) {  // over a skip
    const size_t changed = model_.Nudge(version == 5 ? 0.7 : 0.01, random_);
    const PublishReceipt receipt = Must(PublishTogether(ranks));
    EXPECT_EQ(receipt.version, Version(version));
    EXPECT_EQ(receipt.changed, changed);
    EXPECT_EQ(receipt.skips, version == 8 ? 1u : 0u);
    EXPECT_THAT(receipt.warning, IsEmpty());
    const Manifest manifest = Must(board_.ReadManifest(run_, Version(version)));
    EXPECT_EQ(manifest.features, std::vector<std::string>{"boxes"});
    EXPECT_EQ(manifest.step, 17);
  }
  EXPECT_EQ(builds_, static_cast<int>(kRanks));  // once each, at the beginning
  ExpectEveryVersionComesOut(run_);
}

TEST_F(ShardPublishTest, TheModelDigestIsThatOfAPublishOfTheWholeModel) {
  Ranks ranks = Open();
  model_.Nudge(0.01, random_);
  const PublishReceipt receipt = Must(PublishTogether(ranks));
  const ModelSource now(model_, form_);
  EXPECT_EQ(receipt.model, ModelDigest(now.layout().tensors_digest(), Must(DigestTensors(now, 1, Progress::None()))));
}

TEST_F(ShardPublishTest, ReadersGoOverSkipsOfShards) {
  Ranks ranks = Open();
  const Path reader = directory_ / "reader";
  Must(CatchUp(run_, reader));
  for (int i = 0; i < 8; ++i) {
    model_.Nudge(0.01, random_);
    Must(PublishTogether(ranks));
  }
  const CatchUpReceipt receipt = Must(CatchUp(run_, reader));
  EXPECT_EQ(receipt.patches, 1u);
  EXPECT_EQ(receipt.skips, 1u);
  EXPECT_EQ(FilesOf(reader), versions_[run_][8]);
}

TEST_F(ShardPublishTest, WhatDidNotChangeIsNoVersionUnlessAskedFor) {
  Ranks ranks = Open();
  EXPECT_FALSE(Must(PublishTogether(ranks)).published);
  EXPECT_EQ(HeadOf(run_), Version(0));
  EXPECT_TRUE(Must(PublishTogether(ranks, /*allow_empty=*/true)).published);
  EXPECT_EQ(HeadOf(run_), Version(1));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(ShardPublishTest, GoesOnAfterARestartAndAfterAPublisherOfTheWholeModel) {
  {
    Ranks ranks = Open();
    model_.Nudge(0.01, random_);
    Must(PublishTogether(ranks));
  }
  {
    Ranks ranks = Open();  // snapshots are where they were
    model_.Nudge(0.01, random_);
    Must(PublishTogether(ranks));
    EXPECT_EQ(builds_, static_cast<int>(kRanks));
  }
  model_.Nudge(0.01, random_);
  Must(Publish(run_, {.take_over = true}));
  EXPECT_THAT(ShardRelease::Open(board_, run_, directory_ / "release").value().Begin(false, clock_),
              Fails(Code::kConflict, HasSubstr("took over")));
  std::filesystem::remove_all(directory_ / "release");
  Ranks ranks = Open();
  model_.Nudge(0.01, random_);
  EXPECT_EQ(Must(PublishTogether(ranks)).version, Version(4));
  EXPECT_EQ(builds_, 2 * static_cast<int>(kRanks));
  ExpectEveryVersionComesOut(run_);
}

// F11: a rank that fails fails the version for all, and the next one is clean.
TEST_F(ShardPublishTest, F11_AFailureAtAnyPointLeavesTheHeadAndTheNextVersionHasEverything) {
  for (const char* point : {"shard.encoded", "shard.stored", "shard.combined", "publish.manifest_stored"}) {
    Ranks ranks = Open();
    const Version before = HeadOf(run_);
    model_.Nudge(0.01, random_);
    {
      const WithFailpoints failing(std::string(point) + ":error");
      EXPECT_FALSE(PublishTogether(ranks)) << point;
    }
    EXPECT_EQ(HeadOf(run_), before) << point;
    model_.Nudge(0.01, random_);
    EXPECT_EQ(Must(PublishTogether(ranks)).version, before.Next()) << point;
  }
  ExpectEveryVersionComesOut(run_);
}

TEST_F(ShardPublishTest, ASnapshotThatCouldNotFollowIsBuiltAgain) {
  Ranks ranks = Open();
  model_.Nudge(0.01, random_);
  {
    const WithFailpoints failing("shard.followed:error");
    EXPECT_FALSE(PublishTogether(ranks));
  }
  EXPECT_EQ(HeadOf(run_), Version(1));  // it was out
  model_.Nudge(0.01, random_);
  Must(PublishTogether(ranks));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(ShardPublishTest, NamesTheTensorOfWhichAPartIsMissing) {
  Ranks ranks = Open();
  model_.Nudge(0.01, random_);
  const Head head = Must(ranks.release.Begin(false, clock_));
  std::vector<Bytes> receipts;
  for (ShardWriter& writer : ranks.writers) {
    Must(Prepare(writer, head.version));
    Capture capture = writer.BeginCapture();
    Must(TakeBoxes(writer, capture));
    receipts.push_back(Must(writer.Encode(capture, head.version, head.manifest.sha256, Progress::None())));
  }
  const std::vector<Bytes> without(receipts.begin(), receipts.end() - 1), twice = {receipts[0], receipts[0]};
  EXPECT_THAT(ranks.release.Finish(without, {}, false), Fails(Code::kCorrupt, HasSubstr("tensor 'a.rows'")));
  EXPECT_THAT(ranks.release.Finish(twice, {}, false), Fails(Code::kInvalid, HasSubstr("two receipts of rank 0")));
  EXPECT_THAT(ranks.release.Finish({}, {}, false), Fails(Code::kInvalid, HasSubstr("no rank has a part")));
  EXPECT_EQ(HeadOf(run_), Version(0));
}

TEST_F(ShardPublishTest, ARottenSnapshotIsFoundBeforeAnythingIsPublished) {
  Ranks ranks = Open();
  model_.Nudge(0.01, random_);
  Must(PublishTogether(ranks));
  const Path shard = directory_ / "rank-1" / "shard" / "model.safetensors";
  std::string bytes = ReadText(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const int file = ::open(shard.c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(file, &bytes.back(), 1, static_cast<off_t>(bytes.size()) - 1), 1);
  ::close(file);
  model_.Nudge(0.01, random_);
  EXPECT_THAT(PublishTogether(ranks), Fails(Code::kCorrupt, HasSubstr("was damaged")));
  EXPECT_EQ(HeadOf(run_), Version(1));
  Must(PublishTogether(ranks));
  ExpectEveryVersionComesOut(run_);
}

}  // namespace
}  // namespace skerry
