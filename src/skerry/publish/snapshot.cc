#include "skerry/publish/snapshot.h"

#include "skerry/apply/catch_up.h"

namespace skerry {

Status Snapshot::Open(int threads, Progress& progress) {
  ++generation_;
  SKERRY_ASSIGN(canonical_,
                CanonicalCheckpoint::Open(directory_, DefaultStateDirectory(directory_), threads, progress));
  return {};
}

bool Snapshot::IsAt(const Head& head) const {
  const VersionLabel label{head.run.str(), head.version};
  return canonical_ && canonical_->state().label == label && canonical_->state().model == head.model;
}

Status Snapshot::Prepare(const Board& board, const Head& head, bool from_scratch, int threads, Progress& progress) {
  if (from_scratch) {
    SKERRY_TRY(Drop());
  } else if (IsAt(head) || (!canonical_ && Open(threads, progress) && IsAt(head))) {
    return {};
  }
  Close();
  const CatchUpOptions options{.version = head.version, .threads = threads};
  auto caught_up = CatchUp(board, head.run, directory_, options, progress);
  if (!caught_up && caught_up.error().code == Code::kMismatch && !from_scratch) {
    // Another run or another history had this directory.
    return Prepare(board, head, /*from_scratch=*/true, threads, progress);
  }
  if (!caught_up) return Annotate(std::move(caught_up).error(), "snapshot");
  return Open(threads, progress);
}

Status Snapshot::Follow(const EncodedVersion& version, const VersionLabel& label, int threads, Progress& progress) {
  ++generation_;
  std::vector<Patch> patches;
  for (const Path& spool : version.spools) {
    SKERRY_ASSIGN(Patch patch, Patch::Open(spool));
    patches.push_back(std::move(patch));
  }
  SKERRY_ASSIGN(const PatchSet set, PatchSet::OfParts(patches, version.parts, checkpoint().layout(), version.base_model,
                                                      version.target_model));
  SKERRY_TRY(canonical_->Apply(set, label, threads, progress));
  return {};
}

}  // namespace skerry
