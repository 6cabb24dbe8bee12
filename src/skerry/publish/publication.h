// The making of one version.
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
#include "skerry/publish/version_encoder.h"

namespace skerry {

// One call of Publisher::Publish; publisher.h says its steps.
class Publication {
 public:
  Publication(const Board& board, const RunId& run, const Path& state_directory, PublisherState& state,
              Snapshot& snapshot, const Target& target, const PublishOptions& options, const Clock& clock,
              Progress& progress)
      : board_(board),
        run_(run),
        state_directory_(state_directory),
        state_(state),
        snapshot_(snapshot),
        target_(target),
        options_(options),
        progress_(progress),
        release_(board, run, state, clock),
        skips_(state_directory / "undo", options.level, options.threads) {}

  Result<PublishReceipt> Run();

 private:
  Result<bool> TakenAlready();
  Status MakePatch();
  Status CheckTensors() const;
  Status DescribeTargetFiles(const std::vector<SideFileChange>& changes);
  size_t PartsToMake() const;
  Result<std::vector<EncodedPart>> EncodeParts(TaskQueue& uploads);
  Result<std::vector<EncodedPart>> EncodeWithOthers(TaskQueue& uploads);
  Result<EncodedPart> Encode(const std::vector<size_t>& tensors, int number);
  Status EncodeAndStore();
  Status StorePart(const EncodedPart& part, TaskQueue& uploads) const;
  Result<StagedManifest> Stage();
  Status PrepareSnapshot(bool from_scratch);
  Status Follow(const StagedManifest& staged);
  Status WriteAnchorIfDue(const Manifest& manifest);
  Result<PublishReceipt> NothingNew();
  Result<PublishReceipt> FinishAsOther();
  void FillReceipt();
  void Sweep() const;

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
  bool files_changed_ = false;  // side files, or how the tensors lie in files
  std::vector<SideFileChange> side_file_changes_;
  std::vector<SideFile> side_files_;
  EncodedVersion encoded_;
  std::vector<Edge> skip_edges_;
  ObjectRef digests_;
  std::optional<PartExchange> exchange_;  // with the other writers, where there are any
  PublishReceipt receipt_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_PUBLICATION_H_
