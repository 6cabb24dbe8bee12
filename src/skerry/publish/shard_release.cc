#include "skerry/publish/shard_release.h"

#include <algorithm>
#include <map>

#include "skerry/apply/patch_set.h"
#include "skerry/base/failpoint.h"
#include "skerry/board/part_receipt.h"
#include "skerry/publish/release.h"
#include "skerry/publish/version_objects.h"

namespace skerry {
namespace {

constexpr uint64_t kDigestBytes = 16;  // of a tensor, in the sidecar

// What all parts together say.
struct Combined {
  std::vector<PatchPart> parts;
  std::vector<RunningDigest> base, target;  // by tensor
  uint64_t changed = 0, patch_bytes = 0;
  std::map<Version, std::vector<PatchPart>> skips;  // by where they begin
};

Status Add(const PartReceipt& receipt, Combined& all) {
  SKERRY_ASSIGN(const std::vector<size_t> tensors, TensorsOfPart(receipt.part, all.base.size()));
  if (!receipt.part.boxed || tensors.size() != receipt.base_digests.size()) {
    return Fail(Code::kInvalid, "the receipt of rank {} has {} digests for {} tensors{}", receipt.index,
                receipt.base_digests.size(), tensors.size(), receipt.part.boxed ? "" : ", and no boxes");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    all.base[tensors[i]] += receipt.base_digests[i];
    all.target[tensors[i]] += receipt.target_digests[i];
  }
  all.changed += receipt.changed;
  for (const PartReceipt::Skip& skip : receipt.skips) {
    all.skips[skip.from].push_back({.object = skip.object, .tensors = receipt.part.tensors, .boxed = true});
  }
  return {};
}

}  // namespace

struct ShardRelease::Impl {
  Impl(const Board& b, const RunId& r, FileLock l, PublisherState s)
      : board(b), run(r), lock(std::move(l)), state(std::move(s)) {}

  Result<std::vector<PartReceipt>> Parse(const std::vector<Bytes>& receipts) const;
  Result<Combined> Combine(const std::vector<PartReceipt>& receipts, const Layout& layout) const;
  Status CheckBase(const Combined& all, const Layout& layout) const;
  Result<std::vector<Edge>> Skips(Combined& all, size_t writers) const;

  const Board board;
  const RunId run;
  const FileLock lock;
  PublisherState state;
  std::optional<Release> release;
  std::optional<Layout> layout;
};

ShardRelease::ShardRelease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardRelease::ShardRelease(ShardRelease&&) noexcept = default;
ShardRelease::~ShardRelease() = default;

Result<ShardRelease> ShardRelease::Open(const Board& board, const RunId& run, const Path& state_directory) {
  SKERRY_ASSIGN(FileLock lock, TakeStateDirectory(state_directory));
  SKERRY_ASSIGN(PublisherState state, PublisherState::Open(state_directory, board.id(), run));
  return ShardRelease(std::make_unique<Impl>(board, run, std::move(lock), std::move(state)));
}

Result<Head> ShardRelease::Begin(bool takes_over, const Clock& clock) {
  Impl& impl = *impl_;
  impl.release.emplace(impl.board, impl.run, impl.state, clock);
  // No snapshot of this one tells whether the note is still true: a look at the head is one small request.
  SKERRY_TRY(impl.release->Begin(/*look=*/true, takes_over));
  if (const size_t views = impl.release->head().views.size(); views > 0) {
    return Fail(Code::kUnsupported, "run {} has {} further views, and a version in several views is made by one writer",
                impl.run, views);
  }
  return impl.release->head();
}

Result<Layout> ShardRelease::ReadLayout() {
  Impl& impl = *impl_;
  if (!impl.release) return Fail(Code::kInvalid, "run {}: nothing was begun", impl.run);
  const Digest& wanted = impl.release->position().manifest.layout;
  if (!impl.layout || impl.layout->digest() != wanted) {
    SKERRY_ASSIGN(const Bytes json, impl.board.ReadLayout(impl.run, wanted));
    SKERRY_ASSIGN(impl.layout, Layout::Parse(json));
  }
  return *impl.layout;
}

Result<std::vector<PartReceipt>> ShardRelease::Impl::Parse(const std::vector<Bytes>& receipts) const {
  std::vector<PartReceipt> parsed;
  for (const Bytes& bytes : receipts) {
    if (bytes.empty()) continue;
    SKERRY_ASSIGN(PartReceipt receipt, ParsePartReceipt(bytes));
    if (receipt.run != run || receipt.version != release->next() || receipt.base != release->head().manifest.sha256) {
      return Fail(Code::kMismatch,
                  "rank {} made a part of run {} version {} over manifest {}, not run {} version {} over {}",
                  receipt.index, receipt.run, receipt.version, receipt.base.Short(), run, release->next(),
                  release->head().manifest.sha256.Short());
    }
    parsed.push_back(std::move(receipt));
  }
  std::sort(parsed.begin(), parsed.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  for (size_t i = 1; i < parsed.size(); ++i) {
    if (parsed[i].index != parsed[i - 1].index) continue;
    return Fail(Code::kInvalid, "there are two receipts of rank {}", parsed[i].index);
  }
  if (parsed.empty()) return Fail(Code::kInvalid, "run {}: no rank has a part of the model", run);
  return parsed;
}

Result<Combined> ShardRelease::Impl::Combine(const std::vector<PartReceipt>& receipts, const Layout& layout) const {
  Combined all;
  all.base.resize(layout.tensors().size());
  all.target.resize(layout.tensors().size());
  for (const PartReceipt& receipt : receipts) SKERRY_TRY(Add(receipt, all));
  SKERRY_TRY(CheckBase(all, layout));
  // Parts that say nothing are left out, as long as one is left.
  for (size_t i = 0; i < receipts.size(); ++i) {
    if (receipts[i].changed == 0 && (i + 1 < receipts.size() || !all.parts.empty())) continue;
    all.parts.push_back(receipts[i].part);
    all.patch_bytes += receipts[i].part.object.size;
  }
  return all;
}

// The parts' shares of each tensor must add up to what the head's version has.
Status ShardRelease::Impl::CheckBase(const Combined& all, const Layout& layout) const {
  const Head& head = release->head();
  const Digest model = ModelDigest(layout.tensors_digest(), all.base);
  if (model == head.model) return {};
  SKERRY_ASSIGN(const Bytes digests,
                board.ReadObject(release->position().manifest.tensor_digests, layout.tensors().size() * kDigestBytes));
  for (size_t i = 0; i < all.base.size() && (i + 1) * kDigestBytes <= digests.size(); ++i) {
    const std::byte* at = digests.data() + i * kDigestBytes;
    if (all.base[i] == RunningDigest{LoadLe<uint64_t>(at), LoadLe<uint64_t>(at + 8)}) continue;
    return Fail(Code::kCorrupt,
                "tensor '{}': the ranks' parts of it are not version {}'s: some of it is missing or there twice, or a "
                "rank's snapshot is damaged",
                layout.tensors()[i].name, head.version);
  }
  return Fail(Code::kCorrupt, "the ranks' snapshots have model digest {}, but the head's is {}", model.Short(),
              head.model.Short());
}

// Those that all ranks made.
Result<std::vector<Edge>> ShardRelease::Impl::Skips(Combined& all, size_t writers) const {
  std::vector<Edge> edges;
  for (auto& [from, parts] : all.skips) {
    if (parts.size() != writers) continue;
    SKERRY_ASSIGN(const Manifest manifest, board.ReadManifest(release->head(), from));
    edges.push_back({.kind = "skip", .from = from, .base_model = manifest.model, .parts = std::move(parts)});
  }
  return edges;
}

Result<PublishReceipt> ShardRelease::Finish(const std::vector<Bytes>& receipts, std::optional<int64_t> step,
                                            bool allow_empty) {
  Impl& impl = *impl_;
  if (!impl.release) return Fail(Code::kInvalid, "run {}: nothing was begun", impl.run);
  Release& release = *impl.release;
  const Manifest& before = release.position().manifest;
  Stopwatch watch;
  SKERRY_ASSIGN(const Layout layout, ReadLayout());
  SKERRY_ASSIGN(const std::vector<PartReceipt> parsed, impl.Parse(receipts));
  SKERRY_ASSIGN(Combined all, impl.Combine(parsed, layout));
  SKERRY_TRY(Failpoint("shard.combined"));

  const Digest model = ModelDigest(layout.tensors_digest(), all.target);
  PublishReceipt receipt{.version = release.head().version,
                         .published = all.changed > 0 || allow_empty,
                         .step = step,
                         .model = model,
                         .elements = layout.total_units(),
                         .changed = all.changed,
                         .checkpoint_bytes = layout.total_bytes(),
                         .warning = {},
                         .parts = all.parts.size()};
  for (size_t i = 0; i < all.base.size(); ++i) receipt.tensors_changed += all.base[i] != all.target[i];
  if (!receipt.published) return receipt;
  receipt.version = release.next();
  receipt.patch_bytes = all.patch_bytes;
  SKERRY_ASSIGN(ObjectRef digests, PutTensorDigests(impl.board, impl.run, receipt.version, all.target));
  SKERRY_TRY(release.Settle());
  SKERRY_ASSIGN(std::vector<Edge> skips, impl.Skips(all, parsed.size()));
  for (const Edge& skip : skips) receipt.skip_bytes += skip.bytes();
  receipt.skips = skips.size();
  SKERRY_ASSIGN(const StagedManifest staged, release.Stage({.step = step,
                                                            .layout = before.layout,
                                                            .model = model,
                                                            .tensor_digests = std::move(digests),
                                                            .side_files = before.side_files,
                                                            .parts = std::move(all.parts),
                                                            .skips = std::move(skips),
                                                            .features = {std::string(kBoxesFeature)},
                                                            .stats = {.elements = receipt.elements,
                                                                      .changed = receipt.changed,
                                                                      .tensors_changed = receipt.tensors_changed,
                                                                      .checkpoint_bytes = receipt.checkpoint_bytes,
                                                                      .patch_bytes = receipt.patch_bytes}}));
  SKERRY_TRY(release.MoveHead(staged));
  receipt.publish_seconds = watch.Lap();
  if (const Status noted = release.Note(staged); !noted) receipt.warning = noted.error().message;
  return receipt;
}

}  // namespace skerry
