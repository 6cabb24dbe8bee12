#include "skerry/publish/publication.h"

#include <map>

#include "skerry/base/failpoint.h"
#include "skerry/board/keys.h"
#include "skerry/patch/side_files.h"
#include "skerry/publish/anchor_schedule.h"
#include "skerry/publish/anchor_writer.h"
#include "skerry/publish/version_objects.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {
namespace {

constexpr uint64_t kPartBytes = 16 << 20;
// Before anything is known, a patch is taken to be this part of the checkpoint.
constexpr uint64_t kFirstGuess = 128;

}  // namespace

Status Publication::Begin(bool look) {
  SKERRY_TRY(release_.Begin(look, options_.take_over));
  const Head& head = release_.head();
  version_ = release_.next();
  if (!options_.version || *options_.version <= version_) return {};
  return Fail(Code::kInvalid, "run {} is at version {}: the next one is {}, not {}", run_, head.version, version_,
              *options_.version);
}

Result<bool> Publication::TakenAlready() {
  const Head& head = release_.head();
  if (!options_.version || *options_.version > head.version) return false;
  const Checkpoint* checkpoint = target_.checkpoint();
  if (checkpoint == nullptr) {
    return Fail(Code::kConflict, "run {} is at version {} already: {} can't be compared with version {}", run_,
                head.version, target_.name(), *options_.version);
  }
  SKERRY_ASSIGN(const Manifest manifest, board_.ReadManifest(head, *options_.version));
  SKERRY_ASSIGN(const std::vector<RunningDigest> digests, DigestTensors(*checkpoint, options_.threads, progress_));
  const Digest model = ModelDigest(checkpoint->layout().tensors_digest(), digests);
  SKERRY_ASSIGN(const std::vector<SideFile> side_files, DescribeSideFiles(*checkpoint));
  if (model != manifest.model || checkpoint->layout().digest() != manifest.layout ||
      side_files != manifest.side_files) {
    return Fail(Code::kConflict, "version {} of run {} is published with model digest {}, not {}{}", *options_.version,
                run_, manifest.model.Short(), model.Short(),
                model == manifest.model ? ": side files or file layout differ" : "");
  }
  receipt_.version = *options_.version;
  receipt_.model = model;
  receipt_.step = manifest.step;
  return true;
}

Status Publication::CheckTensors() const {
  const Layout& before = snapshot_.checkpoint().layout();
  if (before.tensors_digest() == target_.layout().tensors_digest()) return {};
  return Fail(Code::kInvalid, "{} does not have the tensors of run {}: {}", target_.name(), run_,
              DescribeTensorDifferences(before, target_.layout()));
}

// What the version's side files are: the snapshot's with the changes. The checkpoint is not asked again, since it may
// have changed since it was compared.
Status Publication::DescribeTargetFiles(const std::vector<SideFileChange>& changes) {
  std::map<std::string, SideFile> files;
  SKERRY_ASSIGN(std::vector<SideFile> before, DescribeSideFiles(snapshot_.checkpoint()));
  for (SideFile& file : before) files.emplace(file.path, std::move(file));
  for (const SideFileChange& change : changes) {
    files.erase(change.path);
    if (!change.content) continue;
    files.emplace(change.path,
                  SideFile{.path = change.path, .size = change.content->size(), .sha256 = Sha256::Of(*change.content)});
  }
  side_files_.clear();
  for (auto& [path, file] : files) side_files_.push_back(std::move(file));
  return {};
}

size_t Publication::PartsToMake() const {
  if (snapshot_.checkpoint().layout().digest() != target_.layout().digest()) return 1;  // parts change no layout
  if (options_.parts) return std::max<size_t>(1, *options_.parts);
  const ManifestStats& last = release_.position().manifest.stats;
  const uint64_t expected = last.patch_bytes > 0 ? last.patch_bytes : last.checkpoint_bytes / kFirstGuess;
  return std::max<size_t>(1, expected / kPartBytes);
}

Status Publication::StorePart(const EncodedPart& part, TaskQueue& uploads) const {
  return uploads.Add([this, key = part.object.key, spool = part.spool]() -> Status {
    SKERRY_ASSIGN(const FileSource source, FileSource::Open(spool, /*may_hard_link=*/true));
    return board_.PutObject(key, source);
  });
}

// The side files travel with part 0.
Result<EncodedPart> Publication::Encode(const std::vector<size_t>& tensors, int number) {
  const EncodeOptions encode{.threads = options_.threads, .level = options_.level, .with_names = false};
  const Path spool = state_directory_ / fmt::format("spool-{:03}.skerry", number);
  SKERRY_ASSIGN(EncodedPart part,
                EncodePart(snapshot_.checkpoint(), target_.tensors(), tensors,
                           number == 0 ? side_file_changes_ : std::vector<SideFileChange>(), encode, spool, progress_));
  part.object.key = DeltaKey(run_, version_, number, part.object.sha256);
  return part;
}

// Each part is stored while it is proved and the next is made. What says nothing is not stored, unless the version is
// wanted and has nothing else.
Result<std::vector<EncodedPart>> Publication::EncodeParts(TaskQueue& uploads) {
  const bool wanted_anyway = wanted_ || files_changed_;
  const std::vector<std::vector<size_t>> groups = shared_.empty()
                                                      ? GroupTensors(target_.layout(), PartsToMake())
                                                      : GroupOtherTensors(target_.layout(), shared_, PartsToMake());
  std::vector<EncodedPart> parts;
  bool stored = false;
  for (size_t i = 0; i < groups.size(); ++i) {
    SKERRY_ASSIGN(EncodedPart part, Encode(groups[i], static_cast<int>(i)));
    const bool says_something = part.receipt.info.changed > 0 || part.receipt.side_files_changed > 0;
    if (says_something || (!stored && i + 1 == groups.size() && wanted_anyway)) {
      SKERRY_TRY(StorePart(part, uploads));
      stored = true;
    }
    SKERRY_TRY(ProvePart(part, snapshot_.checkpoint(), target_, options_.threads, progress_));
    parts.push_back(std::move(part));
  }
  if (!shared_.empty()) SKERRY_TRY(AddSharedPart(parts, uploads));
  return parts;
}

// Side files are not shared: they travel with another part.
Status Publication::AddSharedPart(std::vector<EncodedPart>& parts, TaskQueue& uploads) {
  const int number = static_cast<int>(parts.size());
  bool is_made = false;
  if (shared_made_ != nullptr) {
    shared_part_ = *shared_made_;
    shared_part_->tensors = shared_;
    SKERRY_ASSIGN(is_made, FitsHere(*shared_part_));
    if (is_made) receipt_.shared_bytes = shared_part_->receipt.info.changed > 0 ? shared_part_->object.size : 0;
  }
  if (!is_made) {
    SKERRY_ASSIGN(shared_part_, Encode(shared_, number));
    if (shared_part_->receipt.info.changed > 0) SKERRY_TRY(StorePart(*shared_part_, uploads));
  }
  SKERRY_TRY(ProvePart(*shared_part_, snapshot_.checkpoint(), target_, options_.threads, progress_));
  parts.push_back(*shared_part_);
  return {};
}

// Whether these tensors are the same here as in the view that the part was made for, before and after.
Result<bool> Publication::FitsHere(const EncodedPart& part) const {
  const auto are = [&](const TensorSource& source, const std::vector<RunningDigest>& digests) -> Result<bool> {
    SKERRY_ASSIGN(const std::vector<RunningDigest> here,
                  DigestTensors(TensorSubset(source, part.tensors), options_.threads, progress_));
    return here == digests;
  };
  SKERRY_ASSIGN(const bool before, are(snapshot_.checkpoint(), part.receipt.base_digests));
  if (!before) return false;
  return are(target_.tensors(), part.receipt.target_digests);
}

// This writer's part, and for writer 0 those of the others.
Result<std::vector<EncodedPart>> Publication::EncodeWithOthers(TaskQueue& uploads) {
  const WriterOfMany& writer = *options_.writer;
  const size_t tensors = target_.layout().tensors().size();
  const std::vector<std::vector<size_t>> groups = snapshot_.checkpoint().layout().digest() == target_.layout().digest()
                                                      ? GroupTensors(target_.layout(), writer.of)
                                                      : std::vector<std::vector<size_t>>(1);
  if (groups.size() != writer.of) {
    return Fail(Code::kInvalid, "{} writers can't share version {}: its {} tensors make {} parts{}", writer.of,
                version_, tensors, groups.size(),
                groups[0].empty() ? " (the file layout changes, or there is one tensor)" : "");
  }
  SKERRY_ASSIGN(EncodedPart mine, Encode(groups[writer.index], static_cast<int>(writer.index)));
  SKERRY_TRY(StorePart(mine, uploads));
  SKERRY_TRY(ProvePart(mine, snapshot_.checkpoint(), target_, options_.threads, progress_));
  SKERRY_TRY(uploads.Finish());
  SKERRY_TRY(exchange_->Announce(mine));
  SKERRY_TRY(Failpoint("publish.part_announced"));
  std::vector<EncodedPart> parts;
  parts.push_back(std::move(mine));
  if (writer.index != 0) return parts;
  SKERRY_ASSIGN(std::vector<EncodedPart> others, exchange_->Collect(state_directory_, tensors, progress_));
  for (EncodedPart& part : others) parts.push_back(std::move(part));
  return parts;
}

Status Publication::EncodeAndStore() {
  const Checkpoint& before = snapshot_.checkpoint();
  SKERRY_TRY(CheckTensors());
  side_file_changes_.clear();
  if (target_.checkpoint() != nullptr) {
    SKERRY_ASSIGN(side_file_changes_, CompareSideFiles(before, *target_.checkpoint()));
  }
  SKERRY_TRY(DescribeTargetFiles(side_file_changes_));
  files_changed_ = !side_file_changes_.empty() || before.layout().digest() != target_.layout().digest();

  TaskQueue uploads(/*threads=*/2);
  Stopwatch watch;
  SKERRY_ASSIGN(std::vector<EncodedPart> parts, exchange_ ? EncodeWithOthers(uploads) : EncodeParts(uploads));
  if (exchange_ && options_.writer->index != 0) return {};
  SKERRY_ASSIGN(encoded_, CombineParts(std::move(parts), before.layout(), target_.layout()));
  if (encoded_.base_model != release_.head().model) {
    return Fail(Code::kCorrupt, "snapshot {}: model digest {}, but the head's is {}", snapshot_.directory().string(),
                encoded_.base_model.Short(), release_.head().model.Short());
  }
  const double worked = encoded_.compare_seconds + encoded_.encode_seconds;
  const double elapsed = watch.Lap();
  receipt_.diff_seconds = worked > 0 ? elapsed * encoded_.compare_seconds / worked : elapsed;
  receipt_.encode_seconds = elapsed - receipt_.diff_seconds;
  receipt_.published = encoded_.changed > 0 || files_changed_ || wanted_ || exchange_;
  SKERRY_TRY(Failpoint("publish.encoded"));
  if (!receipt_.published) return uploads.Finish();

  SKERRY_TRY(uploads.Add([this]() -> Status {
    SKERRY_ASSIGN(digests_, PutTensorDigests(board_, run_, version_, encoded_.target_digests));
    return {};
  }));
  SKERRY_TRY(uploads.Add([this] { return release_.Settle(); }));
  SKERRY_ASSIGN(skip_edges_, skips_.Build(board_, ThisStep(), progress_));
  SKERRY_TRY(uploads.Finish());
  SKERRY_TRY(Failpoint("publish.patch_stored"));
  if (before.layout().digest() == target_.layout().digest()) return {};
  SKERRY_TRY(board_.PutLayout(run_, target_.layout().Serialize()));
  return {};
}

Status Publication::Stage(const std::vector<StagedManifest>& views) {
  const Layout& layout = target_.layout();
  Stopwatch watch;
  SKERRY_ASSIGN(staged_, release_.Stage({.step = options_.step,
                                         .layout = layout.digest(),
                                         .model = encoded_.target_model,
                                         .tensor_digests = digests_,
                                         .side_files = side_files_,
                                         .parts = encoded_.parts,
                                         .skips = skip_edges_,
                                         .features = {},
                                         .stats = {.elements = layout.total_units(),
                                                   .changed = encoded_.changed,
                                                   .tensors_changed = encoded_.tensors_changed,
                                                   .checkpoint_bytes = layout.total_bytes(),
                                                   .patch_bytes = encoded_.patch_bytes},
                                         .views = ManifestsOfViews(views)}));
  receipt_.publish_seconds += watch.Lap();
  return {};
}

// What is left can be done again from the board.
Status Publication::AdvanceSnapshot() {
  const bool same_files = snapshot_.checkpoint().layout().digest() == target_.layout().digest();
  if (exchange_) exchange_->RemoveReceipts();
  SKERRY_TRY(skips_.Remember(ThisStep(), progress_));
  if (same_files) {
    SKERRY_TRY(snapshot_.Follow(encoded_, {run_.str(), version_}, options_.threads, progress_));
    SKERRY_TRY(Failpoint("publish.snapshot_advanced"));
  } else {
    snapshot_.Close();  // the next publish rebuilds it
  }
  return release_.Note(*staged_);
}

void Publication::Follow() {
  receipt_.version = version_;
  Stopwatch watch;
  Status followed = AdvanceSnapshot();
  receipt_.advance_seconds = watch.Lap();
  if (followed) followed = WriteAnchorIfDue(staged_->manifest());
  receipt_.anchor_seconds = watch.Lap();
  if (!followed) {
    snapshot_.Close();
    receipt_.warning = "the version is out, but what should follow it failed (the next publish makes up for it): " +
                       followed.error().message;
  }
}

Status Publication::WriteAnchorIfDue(const Manifest& manifest) {
  Position position = *state_.position();
  if (!snapshot_.is_open() || !AnchorIsDue(manifest.version, manifest.stats.checkpoint_bytes, position.anchors,
                                           position.tails, options_.anchor_tail)) {
    return {};
  }
  const AnchorOptions options{.directory = state_directory_ / "anchor", .threads = options_.threads};
  SKERRY_ASSIGN(AnchorRef ref, WriteAnchor(board_, manifest, snapshot_.checkpoint(), options, progress_));
  receipt_.anchor_bytes = ref.bytes;
  position.anchors.insert(position.anchors.begin(), std::move(ref));
  position.tails[manifest.version] = 0;
  return state_.SetPosition(std::move(position));
}

void Publication::Sweep() const {
  std::error_code error;
  for (const Path& spool : encoded_.spools) std::filesystem::remove(spool, error);
}

void Publication::FillReceipt() {
  receipt_.model = encoded_.target_model;
  receipt_.step = options_.step;
  receipt_.elements = target_.layout().total_units();
  receipt_.changed = encoded_.changed;
  receipt_.tensors_changed = encoded_.tensors_changed;
  receipt_.patch_bytes = encoded_.patch_bytes;
  receipt_.checkpoint_bytes = target_.layout().total_bytes();
  receipt_.parts = encoded_.parts.size();
  receipt_.skips = skip_edges_.size();
  for (const Edge& edge : skip_edges_) receipt_.skip_bytes += edge.bytes();
}

Status Publication::StayAtHead() {
  Sweep();
  receipt_.version = release_.head().version;
  SKERRY_TRY(release_.Note());
  return WriteAnchorIfDue(release_.position().manifest);
}

Status Publication::FinishAsOther() {
  SKERRY_ASSIGN(const Manifest manifest, exchange_->AwaitVersion());
  SKERRY_TRY(state_.ForgetPosition());
  Sweep();
  receipt_.version = manifest.version;
  receipt_.published = true;
  receipt_.step = manifest.step;
  receipt_.model = manifest.model;
  receipt_.elements = manifest.stats.elements;
  receipt_.changed = manifest.stats.changed;
  receipt_.tensors_changed = manifest.stats.tensors_changed;
  receipt_.patch_bytes = manifest.stats.patch_bytes;
  receipt_.checkpoint_bytes = manifest.stats.checkpoint_bytes;
  receipt_.parts = options_.writer->of;
  return {};
}

// A capture is what differs from the snapshot as it was then.
Status Publication::PrepareSnapshot(bool from_scratch) {
  const Head& head = release_.head();
  const Capture* capture = target_.capture();
  if (capture == nullptr) return snapshot_.Prepare(board_, head, from_scratch, options_.threads, progress_);
  if (from_scratch) {
    SKERRY_TRY(snapshot_.Drop());
    return Fail(Code::kCorrupt, "snapshot {} was damaged: it is dropped, and what was captured with it; publish again",
                snapshot_.directory().string());
  }
  if (capture->generation() == snapshot_.generation() && snapshot_.IsAt(head)) return {};
  return Fail(Code::kConflict, "run {}: its head went on to version {} after the weights were captured: publish again",
              run_, head.version);
}

Status Publication::Prepare() {
  Stopwatch watch;
  SKERRY_TRY(PrepareSnapshot(/*from_scratch=*/false));
  SKERRY_TRY(Failpoint("publish.snapshot_ready"));
  receipt_.snapshot_seconds = watch.Lap();
  return {};
}

// The patch; once more where the snapshot turns out to be damaged.
Status Publication::MakePatch() {
  Stopwatch watch;
  Status encoded = EncodeAndStore();
  if (!encoded && encoded.error().code == Code::kCorrupt) {
    watch.Lap();
    SKERRY_TRY(PrepareSnapshot(/*from_scratch=*/true));
    receipt_.snapshot_seconds += watch.Lap();
    encoded = EncodeAndStore();
  }
  SKERRY_TRY(std::move(encoded));
  receipt_.publish_seconds = watch.Lap() - receipt_.diff_seconds - receipt_.encode_seconds;
  return {};
}

Status Publication::Make(bool wanted) {
  wanted_ = wanted || options_.allow_empty || options_.version;
  if (options_.writer) {
    exchange_.emplace(board_, run_, version_, release_.head().manifest.sha256, *options_.writer);
  }
  SKERRY_TRY(MakePatch());
  if (!is_other_writer()) FillReceipt();
  return {};
}

}  // namespace skerry
