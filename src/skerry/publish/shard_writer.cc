#include "skerry/publish/shard_writer.h"

#include <map>

#include "skerry/apply/boxed_changes.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/failpoint.h"
#include "skerry/board/keys.h"
#include "skerry/board/part_receipt.h"
#include "skerry/patch/file_sink.h"
#include "skerry/publish/publisher_state.h"
#include "skerry/publish/skip_builder.h"
#include "skerry/publish/version_encoder.h"

namespace skerry {
namespace {

// For each tensor that there is a box of, in rising order: the sum of its boxes' shares.
std::map<uint64_t, RunningDigest> ByTensor(const std::vector<TensorBox>& boxes,
                                           const std::vector<RunningDigest>& shares) {
  std::map<uint64_t, RunningDigest> sums;
  for (size_t i = 0; i < boxes.size(); ++i) sums[boxes[i].tensor] += shares[i];
  return sums;
}

}  // namespace

// One part, and what is needed once it is out.
struct ShardWriter::Encoded {
  Version version;
  EncodedVersion part;
};

ShardWriter::ShardWriter(const Board& board, const RunId& run, ShardOptions options, FileLock lock,
                         ShardSnapshot snapshot)
    : board_(board),
      run_(run),
      options_(std::move(options)),
      lock_(std::move(lock)),
      snapshot_(std::move(snapshot)),
      skips_(options_.state_directory / "undo", options_.level, options_.threads) {}
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter::~ShardWriter() = default;

Result<ShardWriter> ShardWriter::Open(const Board& board, const RunId& run, const Layout& layout,
                                      ShardOptions options) {
  SKERRY_ASSIGN(FileLock lock, TakeStateDirectory(options.state_directory));
  auto snapshot = ShardSnapshot::Make(options.state_directory / "shard", layout, options.boxes);
  if (!snapshot) return Fail(Code::kInvalid, "rank {}: {}", options.index, snapshot.error().message);
  return ShardWriter(board, run, std::move(options), std::move(lock), *std::move(snapshot));
}

Result<bool> ShardWriter::IsAt(Version version, Progress& progress) {
  if (boxes().empty()) return true;
  return snapshot_.Open(LabelOf(version), options_.threads, progress);
}

Status ShardWriter::Build(const Checkpoint& whole, Version version, Progress& progress) {
  if (boxes().empty()) return {};
  return snapshot_.Build(whole, LabelOf(version), options_.threads, progress);
}

Capture ShardWriter::BeginCapture() const {
  return Capture(boxes().empty() ? static_cast<const TensorSource&>(nothing_) : snapshot_.checkpoint(),
                 snapshot_.generation(), options_.threads);
}

SkipBuilder::Step ShardWriter::StepTo(const Capture& capture) const {
  return {.run = run_,
          .snapshot = snapshot_.checkpoint(),
          .target = capture,
          .encoded = encoded_->part,
          .version = encoded_->version,
          .boxes = boxes()};
}

// The part, spooled and proved; `receipt` gets its digests.
Status ShardWriter::EncodePart(const Capture& capture, Progress& progress, PartReceipt& receipt) {
  const Checkpoint& before = snapshot_.checkpoint();
  const EncodeOptions encode{
      .threads = options_.threads, .level = options_.level, .with_names = false, .boxes = boxes()};
  EncodedPart part{.tensors = {}, .receipt = {}, .spool = options_.state_directory / "spool.skerry", .object = {}};
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(part.spool));
  SKERRY_ASSIGN(part.receipt, EncodePatch(before, capture, {}, encode, sink, progress));
  SKERRY_TRY(sink.Commit());
  part.object.size = sink.size();
  part.object.sha256 = sink.sha256();
  part.object.key = DeltaKey(run_, receipt.version, static_cast<int>(options_.index), part.object.sha256);
  if (part.receipt.base_digests != snapshot_.digests()) {
    SKERRY_TRY(Drop());
    return Fail(Code::kCorrupt, "snapshot {} was damaged: it is dropped, and what was captured with it; publish again",
                options_.state_directory.string());
  }
  std::vector<RunningDigest> shares = snapshot_.shares();
  const auto add = [&](const RunChanges& changes) -> Status {
    const uint64_t first = changes.run.first_unit * static_cast<uint64_t>(changes.changes.unit);
    Bytes scratch;
    SKERRY_ASSIGN(const ByteSpan old,
                  before.Read(changes.run.tensor, first,
                              changes.run.units * static_cast<uint64_t>(changes.changes.unit), scratch));
    shares[changes.run.tensor] += MovedInTensor(snapshot_.runs(changes.run.tensor), first, changes.changes, old);
    return {};
  };
  SKERRY_ASSIGN(const Patch patch, Patch::Open(part.spool));
  SKERRY_TRY(DecodeVerified(patch, before, snapshot_.digests(), before.layout(), options_.threads, progress, add));

  std::vector<size_t> tensors;
  for (const auto& [tensor, share] : ByTensor(boxes(), snapshot_.shares())) {
    tensors.push_back(tensor);
    receipt.base_digests.push_back(share);
  }
  for (const auto& [tensor, share] : ByTensor(boxes(), shares)) receipt.target_digests.push_back(share);
  receipt.part = {.object = part.object, .tensors = RangesOf(tensors), .boxed = true};
  receipt.changed = part.receipt.info.changed;
  receipt.tensors_changed = part.receipt.tensors_changed;
  next_shares_ = std::move(shares);
  std::vector<EncodedPart> parts;
  parts.push_back(std::move(part));
  encoded_ = std::make_unique<Encoded>(Encoded{.version = receipt.version, .part = {}});
  SKERRY_ASSIGN(encoded_->part, CombineParts(std::move(parts), before.layout(), capture.layout()));
  return {};
}

Result<Bytes> ShardWriter::Encode(const Capture& capture, Version base, const Digest& base_manifest,
                                  Progress& progress) {
  encoded_.reset();
  if (boxes().empty()) return Bytes();
  if (capture.generation() != snapshot_.generation() || !snapshot_.IsAt(LabelOf(base))) {
    return Fail(Code::kConflict, "run {}: what was captured is not against version {}: publish again", run_, base);
  }
  PartReceipt receipt{.run = run_,
                      .version = base.Next(),
                      .base = base_manifest,
                      .index = options_.index,
                      .of = options_.of,
                      .part = {},
                      .base_digests = {},
                      .target_digests = {},
                      .skips = {}};
  SKERRY_TRY(EncodePart(capture, progress, receipt));
  SKERRY_TRY(Failpoint("shard.encoded"));
  {
    SKERRY_ASSIGN(const FileSource source, FileSource::Open(encoded_->part.spools[0], /*may_hard_link=*/true));
    SKERRY_TRY(board_.PutObject(receipt.part.object.key, source));
  }
  SKERRY_ASSIGN(const std::vector<Edge> skips, skips_.Build(board_, StepTo(capture), progress));
  for (const Edge& skip : skips) receipt.skips.push_back({.from = skip.from, .object = skip.parts[0].object});
  SKERRY_TRY(Failpoint("shard.stored"));
  return SerializePartReceipt(receipt);
}

Status ShardWriter::Follow(const Capture& capture, Progress& progress) {
  if (boxes().empty()) return {};
  if (!encoded_) return Fail(Code::kInvalid, "run {}: no part was encoded that could be followed", run_);
  const auto follow = [&]() -> Status {
    SKERRY_TRY(skips_.Remember(StepTo(capture), progress));
    SKERRY_ASSIGN(const Patch patch, Patch::Open(encoded_->part.spools[0]));
    SKERRY_TRY(snapshot_.Follow(patch, LabelOf(encoded_->version), next_shares_, options_.threads, progress));
    return Failpoint("shard.followed");
  };
  Status followed = follow();
  std::error_code error;
  std::filesystem::remove(encoded_->part.spools[0], error);
  encoded_.reset();
  if (!followed) SKERRY_TRY(Drop());
  return followed;
}

}  // namespace skerry
