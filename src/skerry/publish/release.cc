#include "skerry/publish/release.h"

#include "skerry/base/failpoint.h"
#include "skerry/publish/version_objects.h"
#include "skerry/pull/route.h"

namespace skerry {
namespace {

constexpr size_t kMostAnchors = 4;  // that a manifest names

}  // namespace

Status Release::Begin(bool look, bool takes_over) {
  SKERRY_TRY(Find(look || takes_over));
  return run_.IsView() ? Status() : CheckOwner(takes_over);
}

Status Release::Find(bool look) {
  if (state_.position() && !look && board_.Trusts(state_.position()->manifest)) {
    position_ = *state_.position();
    from_note_ = true;
    return {};
  }
  from_note_ = false;
  SKERRY_ASSIGN(HeadAt at, board_.ReadHead(run_));
  SKERRY_ASSIGN(Manifest manifest, board_.ReadManifest(at.head, at.head.version));
  position_ = Position{.at = std::move(at), .manifest = std::move(manifest), .tails = {}, .anchors = {}};
  position_->anchors = position_->manifest.anchors;
  // What a reader without anything would fetch beside the anchor.
  const auto route = PlanRoute(board_, head(), head().version, std::nullopt);
  if (route) {
    const uint64_t anchor = route->anchor ? route->anchor->anchor.bytes : 0;
    position_->tails[head().version] = route->bytes - anchor;
  }
  return {};
}

// Fencing: whoever owned an epoch and finds a later one of somebody else has been replaced.
Status Release::CheckOwner(bool takes_over) const {
  SKERRY_TRY(board_.MayTakeOver(head(), state_.id()));
  const bool replaced = state_.epoch() != 0 && head().publisher != state_.id() && head().epoch > state_.epoch();
  if (!replaced || takes_over) return {};
  return Fail(Code::kConflict,
              "run {}: another publisher ({}) took over with epoch {} at {}; this one owned epoch {} and must stop, "
              "unless it is to take the run back (--take-over)",
              run_, head().publisher, head().epoch, head().time, state_.epoch());
}

Result<bool> Release::IsStillThere() {
  SKERRY_ASSIGN(const HeadAt now, board_.ReadHead(run_));
  if (now.generation == position_->at.generation) return true;
  SKERRY_TRY(state_.ForgetPosition());
  from_note_ = false;
  return false;
}

Status Release::Settle() {
  SKERRY_ASSIGN(settled_, board_.Settle(position_->at, &position_->manifest));
  return {};
}

Result<StagedManifest> Release::Stage(NewVersion version) const {
  Manifest manifest{.run = run_,
                    .version = next(),
                    .parent = head().manifest.sha256,
                    .time = FormatTime(clock_.Now()),
                    .step = version.step,
                    .layout = version.layout,
                    .model = version.model,
                    .tensor_digests = std::move(version.tensor_digests),
                    .side_files = std::move(version.side_files)};
  manifest.anchors = position_->anchors;
  if (manifest.anchors.size() > kMostAnchors) manifest.anchors.resize(kMostAnchors);
  manifest.edges = {{.from = head().version, .base_model = head().model, .parts = std::move(version.parts)}};
  for (Edge& skip : version.skips) manifest.edges.push_back(std::move(skip));
  manifest.stats = version.stats;
  manifest.features = std::move(version.features);
  manifest.views = std::move(version.views);
  SKERRY_ASSIGN(StagedManifest staged, board_.StageManifest(std::move(manifest)));
  SKERRY_TRY(Failpoint("publish.manifest_stored"));
  return staged;
}

Status Release::MoveHead(const StagedManifest& staged, const std::vector<StagedManifest>& views) {
  const bool own_epoch = head().publisher == state_.id();
  Head next{.run = run_,
            .epoch = own_epoch ? head().epoch : head().epoch + 1,
            .version = staged.manifest().version,
            .manifest = staged.ref(),
            .model = staged.manifest().model,
            .publisher = state_.id(),
            .nonce = RandomToken(),
            .sequence = head().sequence + 1,
            .time = FormatTime(clock_.Now()),
            .views = HeadsOfViews(views)};
  SKERRY_TRY(state_.ForgetPosition());
  SKERRY_TRY(state_.OwnEpoch(next.epoch));
  SKERRY_ASSIGN(Generation generation, board_.MoveHead(settled_, next, staged, views));
  published_ = HeadAt{std::move(next), std::move(generation)};
  return Failpoint("publish.head_moved");
}

Status Release::Join(const Release& own) {
  SKERRY_ASSIGN(Head head, own.published_->head.OfView(run_.view()));
  published_ = HeadAt{std::move(head), own.published_->generation};
  return {};
}

Status Release::Note(const StagedManifest& staged) {
  Position next{.at = *published_,
                .manifest = staged.manifest(),
                .tails = position_->tails,
                .anchors = staged.manifest().anchors};
  AddTail(next.manifest, next.tails);
  SKERRY_TRY(state_.SetPosition(std::move(next)));
  return Failpoint("publish.position_kept");
}

}  // namespace skerry
