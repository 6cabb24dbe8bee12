// The two ends of a publish: where the run stands, and the step to its next version.
#ifndef SKERRY_PUBLISH_RELEASE_H_
#define SKERRY_PUBLISH_RELEASE_H_

#include <optional>
#include <vector>

#include "skerry/base/clock.h"
#include "skerry/board/board.h"
#include "skerry/publish/publisher_state.h"

namespace skerry {

// What a version is, but for the names that the board gives it.
struct NewVersion {
  std::optional<int64_t> step;
  Digest layout, model;
  ObjectRef tensor_digests;
  std::vector<SideFile> side_files;
  std::vector<PatchPart> parts;  // from the head's version
  std::vector<Edge> skips;
  std::vector<std::string> features;
  ManifestStats stats;
  std::vector<ViewManifest> views = {};  // of the run's further views; sorted by name
};

// One version, or none: nothing is written before Stage. That of a further view of a run never moves the head: it comes
// with the run's own (Join). Not thread-safe, but for Settle.
class Release {
 public:
  // `state` belongs to the publisher and outlives it.
  Release(const Board& board, const RunId& run, PublisherState& state, const Clock& clock)
      : board_(board), run_(run), state_(state), clock_(clock) {}

  // Finds the run's head: in the note of the last publish, unless `look`, else on the board. kConflict for who has been
  // replaced as the run's publisher, unless it `takes_over`; of a view, the run's own release knows that.
  Status Begin(bool look, bool takes_over);

  const Position& position() const { return *position_; }
  const Head& head() const { return position_->at.head; }
  Version next() const { return head().version.Next(); }
  // The head is as this publisher left it; nobody has looked since.
  bool from_note() const { return from_note_; }
  // Whether the board's head is still that one. The note is dropped if not.
  Result<bool> IsStillThere();

  // Makes sure that the head's version is found once the head has moved on. May run beside other work, before MoveHead.
  Status Settle();
  // Makes the manifest durable, which nobody names yet.
  Result<StagedManifest> Stage(NewVersion version) const;
  // Moves the head by compare-and-swap: now the version is out, in the further `views` too (sorted by name).
  Status MoveHead(const StagedManifest& staged, const std::vector<StagedManifest>& views = {});
  // For a view's release: the run's own has moved the head.
  Status Join(const Release& own);
  // Notes the new head, for the next Begin. `state.position()` is where it stands.
  Status Note(const StagedManifest& staged);
  // The head as it was found, for the next Begin.
  Status Note() { return state_.SetPosition(*position_); }

 private:
  Status Find(bool look);
  Status CheckOwner(bool takes_over) const;

  const Board& board_;
  const RunId& run_;
  PublisherState& state_;
  const Clock& clock_;

  std::optional<Position> position_;
  bool from_note_ = false;
  std::optional<SettledHead> settled_;
  std::optional<HeadAt> published_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_RELEASE_H_
