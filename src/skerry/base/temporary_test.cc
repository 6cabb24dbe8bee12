#include "skerry/base/temporary.h"

#include <unistd.h>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// No process has it: above what Linux gives out.
constexpr const char* kDead = "4194305";

TEST(Temporary, IsHiddenBesideItsTargetAndNamesItsProcess) {
  EXPECT_EQ(TemporaryBeside("/a/b.json"), Path(fmt::format("/a/.b.json.tmp-{}", ::getpid())));
}

TEST(Temporary, SweepingTakesWhatDeadProcessesLeftAndNothingElse) {
  const TempDir directory;
  const std::string own = TemporaryBeside(directory / "x").filename();
  for (const std::string& name :
       {fmt::format(".x.tmp-{}", kDead), own, std::string("x.tmp-4194305"), std::string(".x.tmp-"),
        std::string(".x.tmp-4194305x"), std::string(".x.tmp--4194305"), std::string("config.json")}) {
    WriteText(directory / name, "x");
  }
  WriteText(directory / fmt::format(".dir.tmp-{}", kDead) / "deep" / "file", "x");
  SweepTemporaries(directory.path());
  EXPECT_THAT(NamesIn(directory.path()), UnorderedElementsAre(own, "x.tmp-4194305", ".x.tmp-", ".x.tmp-4194305x",
                                                              ".x.tmp--4194305", "config.json"));
}

TEST(Temporary, SweepingCanBeLimitedToOneTarget) {
  const TempDir directory;
  for (const char* name : {".a.tmp-4194305", ".ab.tmp-4194305"}) WriteText(directory / name, "x");
  SweepTemporaries(directory.path(), "a");
  EXPECT_THAT(NamesIn(directory.path()), ElementsAre(".ab.tmp-4194305"));
  SweepTemporaries(directory / "nowhere");
}

}  // namespace
}  // namespace skerry
