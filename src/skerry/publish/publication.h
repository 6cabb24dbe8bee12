// The making of one version in one view of a run.
#ifndef SKERRY_PUBLISH_PUBLICATION_H_
#define SKERRY_PUBLISH_PUBLICATION_H_

#include <optional>
#include <string>
#include <vector>

#include "skerry/base/task_queue.h"
#include "skerry/publish/part_exchange.h"
#include "skerry/publish/publisher.h"
#include "skerry/publish/publisher_state.h"
#include "skerry/publish/release.h"
#include "skerry/publish/skip_builder.h"
#include "skerry/publish/snapshot.h"
#include "skerry/publish/target.h"
#include "skerry/publish/version_encoder.h"
#include "skerry/publish/view_state.h"

namespace skerry {

// The steps that publisher.h tells, for version_publication.h to take for each view of the run. Each needs those before
// it.
class Publication {
 public:
  // Refers to all of these.
  Publication(ViewState& view, const Target& target, const PublishOptions& options, const Clock& clock,
              Progress& progress)
      : board_(view.board),
        run_(view.run),
        state_directory_(view.directory),
        state_(view.state),
        snapshot_(view.snapshot),
        target_(target),
        options_(options),
        progress_(progress),
        release_(view.board, view.run, view.state, clock),
        skips_(view.directory / "undo", options.level, options.threads) {}

  // Finds the head; kInvalid when the asked version is not the next one.
  Status Begin(bool look);
  Release& release() { return release_; }

  // Whether the asked number is taken: by these bytes (nothing to do; the receipt says so) or by others (an error).
  Result<bool> TakenAlready();
  // Tensors that all views of the run have alike, by their ordinals here: they get a part of their own, so that one
  // object does for all. `made`: that part of the run's own view, already stored; null where this one is to make it.
  // Before Make.
  void Share(std::vector<size_t> tensors, const EncodedPart* made) {
    shared_ = std::move(tensors);
    shared_made_ = made;
  }
  // What Share made; null where nothing is shared.
  const EncodedPart* shared_part() const { return shared_part_ ? &*shared_part_ : nullptr; }
  const Layout& snapshot_layout() const { return snapshot_.checkpoint().layout(); }
  const Layout& target_layout() const { return target_.layout(); }

  // Brings the snapshot to the head.
  Status Prepare();
  // All objects of the version; none where the head has these bytes already and it is not `wanted` all the same. The
  // receipt says which.
  Status Make(bool wanted);
  // Of a writer other than the first: awaits the version, of which nothing else is left to do.
  bool is_other_writer() const { return exchange_ && options_.writer->index != 0; }
  Status FinishAsOther();
  // Stages the manifest, which names those of the run's further `views`.
  Status Stage(const std::vector<StagedManifest>& views);
  const StagedManifest& staged() const { return *staged_; }
  // The head has moved: the version is out. What fails from here on is a warning in the receipt.
  void Follow();
  // Removes what was kept for the steps before.
  void Sweep() const;
  // Where nothing was published: an anchor that was interrupted is gone on with.
  Status StayAtHead();

  PublishReceipt& receipt() { return receipt_; }
  // Whether the made version differs from the head's.
  bool changed() const { return encoded_.changed > 0 || files_changed_; }

 private:
  Status MakePatch();
  Status CheckTensors() const;
  Status DescribeTargetFiles(const std::vector<SideFileChange>& changes);
  size_t PartsToMake() const;
  Result<std::vector<EncodedPart>> EncodeParts(TaskQueue& uploads);
  Result<std::vector<EncodedPart>> EncodeWithOthers(TaskQueue& uploads);
  Result<EncodedPart> Encode(const std::vector<size_t>& tensors, int number);
  Status EncodeAndStore();
  Status StorePart(const EncodedPart& part, TaskQueue& uploads) const;
  Status PrepareSnapshot(bool from_scratch);
  Status AdvanceSnapshot();
  Status WriteAnchorIfDue(const Manifest& manifest);
  Status AddSharedPart(std::vector<EncodedPart>& parts, TaskQueue& uploads);
  Result<bool> FitsHere(const EncodedPart& part) const;
  void FillReceipt();

  SkipBuilder::Step ThisStep() const {
    return {.run = run_,
            .snapshot = snapshot_.checkpoint(),
            .target = target_.tensors(),
            .encoded = encoded_,
            .version = version_};
  }

  const Board& board_;
  const RunId& run_;
  const Path& state_directory_;
  PublisherState& state_;
  Snapshot& snapshot_;
  const Target& target_;
  const PublishOptions& options_;
  Progress& progress_;
  Release release_;
  const SkipBuilder skips_;

  Version version_;             // the new one
  bool wanted_ = false;         // although nothing changed
  bool files_changed_ = false;  // side files, or how the tensors lie in files
  std::vector<SideFileChange> side_file_changes_;
  std::vector<SideFile> side_files_;
  EncodedVersion encoded_;
  std::vector<Edge> skip_edges_;
  ObjectRef digests_;
  std::optional<StagedManifest> staged_;
  std::vector<size_t> shared_;  // tensors that all views have alike
  const EncodedPart* shared_made_ = nullptr;
  std::optional<EncodedPart> shared_part_;
  std::optional<PartExchange> exchange_;  // with the other writers, where there are any
  PublishReceipt receipt_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_PUBLICATION_H_
