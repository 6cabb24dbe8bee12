// Skips: patches over several versions, made without reading an old checkpoint.
#ifndef SKERRY_PUBLISH_SKIP_BUILDER_H_
#define SKERRY_PUBLISH_SKIP_BUILDER_H_

#include <optional>
#include <span>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/patch/encoder.h"
#include "skerry/publish/version_encoder.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// A skip over 8 versions leads to every 8th, one over 64 to every 64th.
inline constexpr uint64_t kShortSkip = 8;
inline constexpr uint64_t kLongSkip = 64;

// Keeps undos, patches from a version back to the one before, and from every 8th version back to the 8th before: old
// versions are the snapshot with undos over it. Files: <directory>/<version>-<how many versions back>.skerry.
class SkipBuilder {
 public:
  explicit SkipBuilder(Path directory, Level level, int threads)
      : directory_(std::move(directory)), level_(level), threads_(threads) {}

  // The version that the snapshot is at, the version that is being published, and what is known about it.
  struct Step {
    const RunId& run;
    const Checkpoint& snapshot;
    const TensorSource& target;
    const EncodedVersion& encoded;
    Version version;  // of the target
    // Where the snapshot's tensors are boxes of a model's: which (patch/encoder.h).
    std::span<const TensorBox> boxes = {};
  };

  // The skips that lead to the step's version, stored on the board: none where none is due, where undos are missing or
  // do not fit (a publisher that just began, or that lost a version to another), or where the file layout changed.
  Result<std::vector<Edge>> Build(const Board& board, const Step& step, Progress& progress) const;

  // Keeps the undo of the step, and drops those that no skip will need again. Call it once the step is published and
  // before the snapshot moves.
  Status Remember(const Step& step, Progress& progress) const;

 private:
  Path UndoOf(Version version, uint64_t back) const;
  // Undos that lead from `from` back to `to`, as few as there are; empty where one is missing.
  std::vector<Path> UndosBack(Version from, Version to) const;
  Result<std::optional<Edge>> BuildOne(const Board& board, const Step& step, uint64_t over, Progress& progress) const;
  void Sweep(Version newest) const;

  Path directory_;
  Level level_;
  int threads_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_SKIP_BUILDER_H_
