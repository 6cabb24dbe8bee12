#include "skerry/absorb/measured.h"

#include <numeric>

#include "tests/testing/publishing.h"

namespace skerry {
namespace {

class MeasuredTest : public PublishTestBase {
 protected:
  MeasuredTest() {
    model_.tensors.push_back(RandomTensor("model.layers.0.mlp.up_proj.weight", DType::kBF16, {64, 64}, random_));
    model_.tensors.push_back(RandomTensor("model.embed_tokens.weight", DType::kBF16, {64, 64}, random_));
    Must(Init(run_));
  }
  void PublishVersion(std::optional<int64_t> step = std::nullopt) {
    Step(0.05);
    Must(Publish(run_, {.step = step}));
  }
  std::vector<MeasuredVersion> Read(uint64_t first, uint64_t last) {
    return Must(ReadMeasured(board_, run_, Version(first), Version(last)));
  }
};

TEST_F(MeasuredTest, SaysWhatManifestsSay) {
  for (int i = 0; i < 4; ++i) PublishVersion();
  const std::vector<MeasuredVersion> versions = Read(2, 4);
  ASSERT_EQ(versions.size(), 3u);
  const HeadAt at = Must(board_.ReadHead(run_));
  for (const MeasuredVersion& version : versions) {
    const Manifest manifest = Must(board_.ReadManifest(at.head, version.version));
    EXPECT_EQ(version.changed, manifest.stats.changed);
    EXPECT_EQ(version.patch_bytes, manifest.stats.patch_bytes);
    EXPECT_EQ(version.steps, (StepRange{version.version.number() - 1, version.version.number()}));
    EXPECT_FALSE(version.detail);
  }
}

TEST_F(MeasuredTest, CountsTheTrainersSteps) {
  PublishVersion(5);
  PublishVersion(7);
  PublishVersion(7);  // the same step again
  PublishVersion(20'000);
  const std::vector<MeasuredVersion> versions = Read(1, 4);
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[0].steps, (StepRange{0, 5}));
  EXPECT_EQ(versions[1].steps, (StepRange{5, 7}));
}

TEST_F(MeasuredTest, DetailsAddUpToWhatChanged) {
  for (int i = 0; i < 3; ++i) PublishVersion();
  std::vector<MeasuredVersion> versions = Read(2, 3);
  ASSERT_THAT(ReadDetails(board_, run_, versions, directory_ / "scratch", 1, Progress::None()), Succeeds());
  for (const MeasuredVersion& version : versions) {
    ASSERT_TRUE(version.detail);
    const auto& kinds = version.detail->kinds;
    EXPECT_EQ(std::accumulate(kinds.begin(), kinds.end(), uint64_t{0}), version.changed);
    EXPECT_GT(kinds[static_cast<size_t>(TensorKind::kMlp)], 100u);
    EXPECT_GT(kinds[static_cast<size_t>(TensorKind::kEmbedding)], 100u);
    uint64_t shown = 0;
    for (const auto& [power, count] : version.detail->exponents) {
      EXPECT_LE(power, 128);
      shown += count;
    }
    EXPECT_GT(shown, 200u);
    EXPECT_LE(shown, version.changed);
  }
}

TEST_F(MeasuredTest, RefusesVersionsThatAreNone) {
  PublishVersion();
  EXPECT_THAT(ReadMeasured(board_, run_, Version(0), Version(1)), Fails(Code::kInvalid));
  EXPECT_THAT(ReadMeasured(board_, run_, Version(2), Version(1)), Fails(Code::kInvalid));
  EXPECT_THAT(ReadMeasured(board_, run_, Version(1), Version(9)), Fails(Code::kNotFound));
  EXPECT_THAT(ReadMeasured(board_, Run("other"), Version(1), Version(1)), Fails(Code::kNotFound));
}

}  // namespace
}  // namespace skerry
