// One version made by several writers at once.
#include <thread>

#include "skerry/board/keys.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ManyWritersTest : public PublishTestBase {
 protected:
  ManyWritersTest() {
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
  }

  // All writers but `missing` publish the model as it is, each from a state directory of its own.
  std::vector<Result<PublishReceipt>> PublishTogether(uint64_t writers, const std::string& attempt,
                                                      std::optional<uint64_t> missing = std::nullopt) {
    const Path exported = Export();
    const Checkpoint checkpoint = Must(Checkpoint::Open(exported));
    std::vector<Result<PublishReceipt>> receipts(writers, tl::unexpected<Error>(Error{Code::kInvalid, "not run"}));
    std::vector<std::thread> threads;
    for (uint64_t index = 0; index < writers; ++index) {
      if (missing == index) continue;
      threads.emplace_back([&, index] {
        const PublishOptions options{
            .state_directory = directory_ / fmt::format("writer-{}", index),
            .writer =
                WriterOfMany{.index = index,
                             .of = writers,
                             .attempt = attempt,
                             .patience = {.limit = std::chrono::milliseconds(missing ? 300 : 60'000), .sleep = {}}}};
        receipts[index] = skerry::Publish(board_, run_, checkpoint, options, clock_, Progress::None());
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (receipts[0]) versions_[run_][receipts[0]->version.number()] = FilesOf(exported);
    return receipts;
  }
  void ExpectEveryVersionComesOut() {
    for (const auto& [version, files] : versions_[run_]) {
      std::filesystem::remove_all(directory_ / "fresh");
      Must(CatchUp(run_, directory_ / "fresh", version));
      EXPECT_EQ(FilesOf(directory_ / "fresh"), files) << version;
    }
  }
};
using ManyWritersFieldCase = ManyWritersTest;

TEST_F(ManyWritersFieldCase, D10_EightWritersMakeOneVersionAndAllGetTheSameResult) {
  for (uint64_t version = 1; version <= 3; ++version) {
    Step();
    const auto receipts = PublishTogether(8, fmt::format("job-1.{}", version));
    for (const auto& receipt : receipts) {
      ASSERT_TRUE(receipt) << receipt.error().message;
      EXPECT_EQ(receipt->version, Version(version));
      EXPECT_EQ(receipt->model, receipts[0]->model);
      EXPECT_EQ(receipt->changed, receipts[0]->changed);
    }
    const HeadAt at = Must(board_.ReadHead(run_));
    EXPECT_EQ(at.head.version, Version(version));
    EXPECT_EQ(at.head.sequence, version + 1) << "the head moved once";
  }
  const Manifest manifest = Must(board_.ReadManifest(run_, Version(3)));
  EXPECT_THAT(manifest.edges[0].parts, SizeIs(::testing::Gt(1u)));
  EXPECT_THAT(Must(store_->List("")), Each(::testing::Not(HasSubstr("/parts/")))) << "receipts are gone";
  ExpectEveryVersionComesOut();
}

TEST_F(ManyWritersTest, AWriterThatDoesNotComeIsNamedAndNothingIsPublished) {
  Step();
  const auto receipts = PublishTogether(3, "job-1.1", /*missing=*/2);
  EXPECT_THAT(receipts[0], Fails(Code::kUnavailable, HasSubstr("part 2 of 3 of version 1")));
  EXPECT_THAT(receipts[1], Fails(Code::kUnavailable, HasSubstr("the first writer has not finished")));
  EXPECT_EQ(HeadOf(run_), Version(0));
}

TEST_F(ManyWritersTest, WhatADeadAttemptLeftIsNoPartOfTheNext) {
  Step();
  PublishTogether(3, "job-1.1", /*missing=*/0);
  Step();  // the trainer has gone on
  const auto receipts = PublishTogether(3, "job-2.1");
  for (const auto& receipt : receipts) ASSERT_TRUE(receipt) << receipt.error().message;
  ExpectEveryVersionComesOut();
}

TEST_F(ManyWritersTest, MoreWritersThanTensorsAreRefused) {
  Step();
  const auto receipts = PublishTogether(40, "job-1.1", 1);
  EXPECT_THAT(receipts[0], Fails(Code::kInvalid, AllOf(HasSubstr("40 writers"), HasSubstr("tensors"))));
}

}  // namespace
}  // namespace skerry
