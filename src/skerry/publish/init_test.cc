#include "skerry/publish/init.h"

#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InitTest : public PublishTestBase {};

TEST_F(InitTest, MakesVersion0ThatComesOutByteForByte) {
  const InitReceipt receipt = Must(Init(run_));
  EXPECT_TRUE(receipt.created);
  EXPECT_EQ(HeadOf(run_), Version(0));
  const Manifest manifest = Must(board_.ReadManifest(run_, Version(0)));
  EXPECT_EQ(manifest.model, receipt.model);
  EXPECT_EQ(manifest.layout, receipt.layout);
  EXPECT_FALSE(manifest.parent);
  Must(CatchUp(run_, directory_ / "reader"));
  EXPECT_EQ(FilesOf(directory_ / "reader"), FilesOf(Export()));
}

TEST_F(InitTest, TheSameBaseAgainIsANoOpAndAnotherAConflict) {
  const InitReceipt first = Must(Init(run_));
  const InitReceipt again = Must(Init(run_));
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.model, first.model);
  EXPECT_EQ(again.bytes, first.bytes);
  Step();
  EXPECT_THAT(Init(run_), Fails(Code::kConflict, AllOf(HasSubstr("grpo-1"), HasSubstr(first.model.Short()))));
}

TEST_F(InitTest, AFailureAnywhereIsTakenOverByTheNextCall) {
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("init.") || name == "init.board_stored") continue;
    const RunId run = Run(fmt::format("run-{}", name));
    {
      const WithFailpoints with(fmt::format("{}:error", name));
      EXPECT_THAT(Init(run), Fails(Code::kIo)) << name;
    }
    EXPECT_EQ(board_.ReadHead(run).has_value(), name == "init.head_stored") << name;
    Must(Init(run));
    Must(CatchUp(run, directory_ / run.str()));
    EXPECT_EQ(FilesOf(directory_ / run.str()), FilesOf(Export())) << name;
  }
}

TEST_F(InitTest, ABaseByReferenceIsNotStoredButReadWhereItLies) {
  const Path base = Export();
  const InitReceipt receipt =
      Must(InitRun(board_, run_, Must(Checkpoint::Open(base)), BaseMode::kReference, 1, clock_, Progress::None()));
  EXPECT_TRUE(receipt.created);
  for (const std::string& key : Must(store_->List(""))) EXPECT_EQ(key.find("safetensors"), std::string::npos) << key;
  Must(CatchUp(run_, directory_ / "reader"));
  EXPECT_EQ(FilesOf(directory_ / "reader"), FilesOf(base));
}

TEST_F(InitTest, ABaseByReferenceThatChangedMeanwhileIsNoticed) {
  const Path base = Export();
  Must(InitRun(board_, run_, Must(Checkpoint::Open(base)), BaseMode::kReference, 1, clock_, Progress::None()));
  const Path shard = base / "model-00001-of-00002.safetensors";
  std::string bytes = ReadText(shard);
  bytes[bytes.size() - 1] ^= 1;
  WriteText(shard, bytes);
  EXPECT_THAT(CatchUp(run_, directory_ / "reader"), Fails(Code::kCorrupt, HasSubstr("SHA-256")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "reader"));
}

}  // namespace
}  // namespace skerry
