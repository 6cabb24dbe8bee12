#include <fstream>

#include "skerry/publish/publisher.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A trainer's weights in memory, published without a checkpoint.
class CapturedPublishTest : public PublishTestBase {
 protected:
  CapturedPublishTest() {
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
  }

  skerry::Publisher Open(const std::string& name = "memory") {
    return Must(skerry::Publisher::Open(board_, run_, directory_ / name));
  }
  Result<Capture> Take(skerry::Publisher& publisher, bool takes_over = false) {
    SKERRY_ASSIGN(Capture capture, publisher.BeginCapture(2, takes_over, clock_, Progress::None()));
    for (const TestTensor& tensor : model_.tensors) {
      const auto ordinal = static_cast<size_t>(capture.layout().Find(tensor.name));
      SKERRY_TRY(capture.Take(ordinal, 0, tensor.dtype, tensor.bytes));
    }
    return capture;
  }
  Result<PublishReceipt> Publish(skerry::Publisher& publisher, const Capture& capture, bool takes_over = false) {
    const PublishOptions options{.take_over = takes_over};
    return publisher.Publish(capture, options, clock_, Progress::None());
  }
  // What a checkpoint with the base's side files would be.
  void Remember(Version version) {
    model_.side_files = base_files_;
    versions_[run_][version.number()] = FilesOf(Export());
  }

  const std::map<std::string, std::string> base_files_ = model_.side_files;
};

TEST_F(CapturedPublishTest, PublishesVersionAfterVersionBitForBit) {
  skerry::Publisher publisher = Open();
  for (uint64_t version = 1; version <= 9; ++version) {  // over a skip
    const size_t changed = model_.Nudge(0.01, random_);
    const Capture capture = Must(Take(publisher));
    Remember(Version(version));
    model_.Nudge(0.5, random_);  // the trainer goes on meanwhile
    const PublishReceipt receipt = Must(Publish(publisher, capture));
    EXPECT_TRUE(receipt.published);
    EXPECT_EQ(receipt.version, Version(version));
    if (version == 1) {
      EXPECT_EQ(receipt.changed, changed);
    }
    EXPECT_THAT(receipt.warning, IsEmpty());
    EXPECT_EQ(publisher.head()->version, Version(version));
  }
  ExpectEveryVersionComesOut(run_);
}

TEST_F(CapturedPublishTest, WhatDidNotChangeIsNoVersion) {
  skerry::Publisher publisher = Open();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Must(Publish(publisher, Must(Take(publisher)))).published);
  EXPECT_EQ(HeadOf(run_), Version(0));
}

TEST_F(CapturedPublishTest, GoesOnFromTheBoardAfterARestartAndWithoutItsState) {
  for (uint64_t version = 1; version <= 3; ++version) {
    skerry::Publisher publisher = Open(version == 3 ? "another" : "memory");
    model_.Nudge(0.01, random_);
    EXPECT_EQ(Must(Publish(publisher, Must(Take(publisher)))).version, Version(version));
    Remember(Version(version));
  }
  ExpectEveryVersionComesOut(run_);
}

TEST_F(CapturedPublishTest, ACaptureIsOfOneHead) {
  skerry::Publisher publisher = Open();
  model_.Nudge(0.01, random_);
  const Capture first = Must(Take(publisher)), second = Must(Take(publisher));
  Must(Publish(publisher, first));
  EXPECT_THAT(Publish(publisher, second), Fails(Code::kConflict, HasSubstr("publish again")));
  EXPECT_EQ(HeadOf(run_), Version(1));
}

TEST_F(CapturedPublishTest, LosesToAnotherPublisherAndIsToldSo) {
  skerry::Publisher publisher = Open();
  model_.Nudge(0.01, random_);
  Must(Publish(publisher, Must(Take(publisher))));
  Remember(Version(1));
  model_.Nudge(0.01, random_);
  const Capture mine = Must(Take(publisher));
  skerry::Publisher other = Open("other");
  model_.Nudge(0.01, random_);
  Must(Publish(other, Must(Take(other, /*takes_over=*/true)), /*takes_over=*/true));
  Remember(Version(2));
  EXPECT_THAT(Publish(publisher, mine), Fails(Code::kConflict));
  EXPECT_THAT(Take(publisher), Fails(Code::kConflict, HasSubstr("took over")));
  const Capture again = Must(Take(publisher, /*takes_over=*/true));
  model_.Nudge(0.01, random_);
  Must(Publish(publisher, Must(Take(publisher, /*takes_over=*/true)), /*takes_over=*/true));
  Remember(Version(3));
  ExpectEveryVersionComesOut(run_);
}

// A byte of the snapshot has rotted: what was compared with it can't be used, and the next capture is against a new
// one.
TEST_F(CapturedPublishTest, ADamagedSnapshotIsDroppedWithItsCapture) {
  skerry::Publisher publisher = Open();
  model_.Nudge(0.01, random_);
  Must(Publish(publisher, Must(Take(publisher))));
  Remember(Version(1));
  model_.Nudge(0.01, random_);
  const Path shard = directory_ / "memory" / "snapshot" / "model-00001-of-00002.safetensors";
  std::string bytes = ReadText(shard);
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes.size()) - 1);
    file.put(static_cast<char>(bytes.back() ^ 1));
  }
  EXPECT_THAT(Publish(publisher, Must(Take(publisher))), Fails(Code::kCorrupt, HasSubstr("was damaged")));
  EXPECT_EQ(HeadOf(run_), Version(1));
  EXPECT_EQ(Must(Publish(publisher, Must(Take(publisher)))).version, Version(2));
  Remember(Version(2));
  ExpectEveryVersionComesOut(run_);
}

}  // namespace
}  // namespace skerry
