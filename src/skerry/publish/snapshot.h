// The publisher's copy of the last published version: what the next one is compared with.
#ifndef SKERRY_PUBLISH_SNAPSHOT_H_
#define SKERRY_PUBLISH_SNAPSHOT_H_

#include <optional>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/publish/version_encoder.h"

namespace skerry {

// Only a cache of what the board has: it can be dropped at any time.
class Snapshot {
 public:
  explicit Snapshot(Path directory) : directory_(std::move(directory)) {}

  const Path& directory() const { return directory_; }
  bool is_open() const { return canonical_.has_value(); }
  // Where it is open.
  const Checkpoint& checkpoint() const { return canonical_->checkpoint(); }

  // Whether it is open at the head's version.
  bool IsAt(const Head& head) const;
  // Another one whenever the bytes may be others.
  uint64_t generation() const { return generation_; }

  // Brings it to the head's version, from the board unless it is there already; `from_scratch` drops what is there.
  Status Prepare(const Board& board, const Head& head, bool from_scratch, int threads, Progress& progress);
  // Moves it to the version that was made from it.
  Status Follow(const EncodedVersion& version, const VersionLabel& label, int threads, Progress& progress);
  void Close() {
    canonical_.reset();
    ++generation_;
  }
  Status Drop() {
    Close();
    return RemoveTree(directory_);
  }

 private:
  Status Open(int threads, Progress& progress);

  Path directory_;
  uint64_t generation_ = 0;
  std::optional<CanonicalCheckpoint> canonical_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_SNAPSHOT_H_
