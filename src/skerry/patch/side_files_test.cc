#include "skerry/patch/side_files.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

std::map<std::string, std::string> Compared(const std::map<std::string, std::string>& before,
                                            const std::map<std::string, std::string>& after) {
  Random random(1);
  TestModel model{.tensors = {RandomTensor("w", DType::kBF16, {3}, random)}, .side_files = before};
  const TempDir directory;
  WriteCheckpoint(model, directory / "a");
  model.side_files = after;
  WriteCheckpoint(model, directory / "b");
  std::map<std::string, std::string> changes;
  std::string previous;
  for (const SideFileChange& change :
       Must(CompareSideFiles(Must(Checkpoint::Open(directory / "a")), Must(Checkpoint::Open(directory / "b"))))) {
    EXPECT_LT(previous, change.path);
    previous = change.path;
    changes[change.path] = change.content ? ToString(*change.content) : "removed";
  }
  return changes;
}

TEST(SideFiles, OnlyWhatChangedTravels) {
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(Compared({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "2"}}), Map());
  EXPECT_EQ(Compared({{"a", "1"}, {"b", "2"}, {"c", "3"}}, {{"b", "two"}, {"c", "4"}, {"d/e", ""}}),
            (Map{{"a", "removed"}, {"b", "two"}, {"c", "4"}, {"d/e", ""}}));
  EXPECT_EQ(Compared({}, {{"z", "1"}}), (Map{{"z", "1"}}));
  EXPECT_EQ(Compared({{"z", "1"}}, {}), (Map{{"z", "removed"}}));
}

}  // namespace
}  // namespace skerry
