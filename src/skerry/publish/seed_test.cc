// apply/seed.h against a base that a publisher made.
#include "skerry/apply/seed.h"

#include "skerry/base/failpoint.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

constexpr int kMoreCallsThanASeed = 60;

class SeedTest : public PublishTestBase {
 protected:
  SeedTest() {
    model_.side_files["tokenizer.json"] = "{}";
    Must(Init(run_));
  }
  Status Seed(const Path& base, const Path& directory) const {
    return SeedCheckpoint(board_, run_, base, directory, 1, Progress::None());
  }
};

TEST_F(SeedTest, WhatCannotBeReadOrWrittenForAMomentIsNoOtherBase) {
  const Path base = Export();
  for (const char* call : {"file.open", "file.write", "file.sync", "file.rename"}) {
    int failed = 0;
    for (int number = 1; number <= kMoreCallsThanASeed; ++number) {
      const Path directory = directory_ / fmt::format("{}-{}", call, number);
      {
        const WithFailpoints with(fmt::format("{}:errno=5@{}", call, number));
        const Status seeded = Seed(base, directory);
        if (!seeded) {
          ++failed;
          EXPECT_THAT(seeded, Fails(Code::kIo)) << call << " " << number;
        }
      }
      EXPECT_THAT(Seed(base, directory), Succeeds());
      EXPECT_EQ(FilesOf(directory), FilesOf(base));
    }
    EXPECT_GT(failed, 0) << call;
    EXPECT_LT(failed, kMoreCallsThanASeed) << call;
  }
}

TEST_F(SeedTest, AnotherSideFileIsAnotherBase) {
  model_.side_files["tokenizer.json"] = "[]";
  EXPECT_THAT(Seed(Export(), directory_ / "new"), Fails(Code::kMismatch, HasSubstr("tokenizer.json")));
  model_.side_files.erase("tokenizer.json");
  EXPECT_THAT(Seed(Export(), directory_ / "new"), Fails(Code::kMismatch, HasSubstr("tokenizer.json")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "new"));
}

}  // namespace
}  // namespace skerry
