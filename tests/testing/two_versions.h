// What tests of applying share: two versions of a small model on disk, and the patch between them.
#ifndef SKERRY_TESTS_TESTING_TWO_VERSIONS_H_
#define SKERRY_TESTS_TESTING_TWO_VERSIONS_H_

#include <map>
#include <string>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/patch/file_sink.h"
#include "skerry/patch/side_files.h"
#include "tests/testing/patches.h"

namespace skerry {

// The patch between two directories, as `skerry diff` makes it.
inline Bytes PatchBetween(const Path& base, const Path& target, const EncodeOptions& options = {}) {
  const Checkpoint before = Must(Checkpoint::Open(base)), after = Must(Checkpoint::Open(target));
  return PatchBetween(before, after, options, Must(CompareSideFiles(before, after)));
}

// v0 and v1 in two shards; tensors, config and index change, one side file goes and one comes.
class TwoVersions {
 public:
  TwoVersions() {
    base.side_files["merges.txt"] = "a b";
    target = base;
    Nudge(target["model.embed.weight"], 0.05, random_);
    Nudge(target["model.layers.0.experts.weight"], 1, random_);  // a dense block
    Nudge(target["model.layers.0.experts.scale"], 1, random_);
    Nudge(target["model.position_ids"], 0.1, random_);
    target.side_files["config.json"] = R"({"hidden_size":97})";
    target.side_files["extra/notes.txt"] = "new";
    target.side_files.erase("merges.txt");
    WriteCheckpoint(base, directory / "v0", {.shards = 2});
    WriteCheckpoint(target, directory / "v1", {.shards = 2, .index_metadata = R"({"total_size":2})"});
    patch_bytes = PatchBetween(directory / "v0", directory / "v1");
    v0 = FilesOf(directory / "v0");
    v1 = FilesOf(directory / "v1");
  }

  // A fresh copy of v0.
  Path Work() {
    const Path work = directory / fmt::format("work-{}", ++works_);
    std::filesystem::copy(directory / "v0", work, std::filesystem::copy_options::recursive);
    return work;
  }
  Patch ThePatch() const { return Must(Patch::FromBytes(patch_bytes)); }

  TempDir directory;
  Random random_{42};
  TestModel base = SmallModel(random_), target;
  Bytes patch_bytes;
  std::map<std::string, std::string> v0, v1;

 private:
  int works_ = 0;
};

inline Result<CanonicalCheckpoint> OpenCanonical(const Path& directory) {
  return CanonicalCheckpoint::Open(directory, DefaultStateDirectory(directory), 1, Progress::None());
}
inline Result<ApplyReceipt> OpenAndApply(const Path& directory, const Patch& patch, const VersionLabel& label = {},
                                         int threads = 1) {
  SKERRY_ASSIGN(CanonicalCheckpoint canonical, OpenCanonical(directory));
  return canonical.Apply(patch, label, threads, Progress::None());
}

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_TWO_VERSIONS_H_
