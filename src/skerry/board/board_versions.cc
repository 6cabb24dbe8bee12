// The half of Board that is about versions: reading the head and manifests, and publishing by moving the head.
#include <fmt/format.h>

#include "skerry/board/board.h"
#include "skerry/board/keys.h"
#include "skerry/board/manifest_signature.h"

namespace skerry {
namespace {

std::string Owner(const Head& head) {
  return fmt::format("version {} (epoch {}, publisher {}, {})", head.version, head.epoch, head.publisher, head.time);
}

tl::unexpected<Error> Lost(const std::optional<HeadAt>& current, const Head& next) {
  return Fail(Code::kConflict, "run {}: the head is at {}, so {} was not published", next.run,
              current ? Owner(current->head) : "no version (somebody deleted it)", Owner(next));
}

std::optional<Generation> GenerationOf(const std::optional<SettledHead>& head) {
  if (!head) return std::nullopt;
  return head->generation();
}

// Where swaps can't be trusted, a run belongs to the publisher that claimed it first after init.
Status CheckOwnership(const Head& now, const std::string& publisher, std::optional<WriteSafety> writes) {
  const bool fresh = now.epoch == 1 && now.version.IsBase();
  if (!writes || *writes == WriteSafety::kFull || publisher == now.publisher || fresh) return {};
  return Fail(
      Code::kConflict,
      "run {}: the head at {} is owned by another publisher, and publisher {} can't take over: conditional writes of "
      "this store are '{}' ({}). Publish with the owner's state directory, or start another run",
      now.run, Owner(now), publisher, NameOf(*writes), WhatFollows(*writes));
}

// Whether `next` was the head before others, who built on it, moved the head to `now`: then its manifest is that of its
// version. A publisher that knows that its own swap was refused (kConflict) never was the head of the current version.
Result<bool> WasPublished(Store& store, const Head& now, const Head& next, Code error) {
  if (now.version < next.version) return false;
  if (now.version == next.version) return error != Code::kConflict && now.manifest == next.manifest;
  SKERRY_ASSIGN(const Object alias, store.Get(ManifestKey(next.run, next.version), kMaxManifestBytes));
  return Sha256::Of(alias.bytes) == next.manifest.sha256;
}

// Whether `next` may follow `current`.
Status CheckSuccession(const std::optional<SettledHead>& current, const Head& next, std::optional<WriteSafety> writes) {
  if (!current) {
    if (next.version.IsBase() && next.sequence == 1) return {};
    return Fail(Code::kInvalid, "run {}: the first head must be at version 0 with sequence 1, not version {} with {}",
                next.run, next.version, next.sequence);
  }
  const Head& now = current->head();
  SKERRY_TRY(CheckOwnership(now, next.publisher, writes));
  const bool takes_over = next.epoch > now.epoch;
  if (next.epoch < now.epoch || (!takes_over && next.publisher != now.publisher)) {
    return Fail(Code::kConflict,
                "run {}: the head at {} is owned by another publisher than that of {}; a new publisher takes over with "
                "epoch {}",
                next.run, Owner(now), Owner(next), now.epoch + 1);
  }
  const bool stays = takes_over && next.version == now.version && next.manifest == now.manifest;
  if (next.version != now.version.Next() && !stays) {
    return Fail(Code::kInvalid, "run {}: version {} can't follow version {}", next.run, next.version, now.version);
  }
  if (next.sequence != now.sequence + 1 || next.nonce == now.nonce) {
    return Fail(Code::kInvalid,
                "run {}: a head with sequence {} needs a successor with sequence {} and another nonce; got sequence {}",
                next.run, now.sequence, now.sequence + 1, next.sequence);
  }
  return {};
}

// A manifest must be the one of the asked version: one of another run may lie in its place after a copy or a restore.
Status CheckIdentity(const Manifest& manifest, const RunId& run, Version version, std::string_view where) {
  if (manifest.run == run && manifest.version == version) return {};
  return Fail(Code::kMismatch, "{} is the manifest of run {} version {}, not of run {} version {}", where, manifest.run,
              manifest.version, run, version);
}

// Whether `manifest` is what `head` says of it.
Status CheckHeadManifest(const Manifest& manifest, const Head& head) {
  SKERRY_TRY(CheckIdentity(manifest, head.run, head.version, head.manifest.key));
  if (manifest.model != head.model) {
    return Fail(Code::kMismatch, "run {} version {}: the head says model {}, its manifest {}", head.run, head.version,
                head.model.Short(), manifest.model.Short());
  }
  bool same_views = manifest.views.size() == head.views.size();
  for (size_t i = 0; same_views && i < head.views.size(); ++i) {
    same_views = manifest.views[i] == ViewManifest{head.views[i].view, head.views[i].manifest.sha256};
  }
  if (same_views) return {};
  return Fail(Code::kMismatch, "run {} version {}: the head names {} views, its manifest {}, and they are not the same",
              head.run, head.version, head.views.size(), manifest.views.size());
}

std::string NamesOf(const std::vector<ViewHead>& views) {
  std::vector<std::string_view> names;
  for (const ViewHead& view : views) names.push_back(view.view);
  return names.empty() ? "no further views" : fmt::format("{}", fmt::join(names, ", "));
}

// A run keeps the views that it began with, and a head is at one version in all of them.
Status CheckViews(const std::optional<SettledHead>& current, const Head& next,
                  const std::vector<StagedManifest>& staged) {
  if (next.run.IsView()) {
    return Fail(Code::kInvalid, "{} is a view of run {}: the head is moved for all views at once", next.run,
                next.run.Whole());
  }
  bool same = next.views.size() == staged.size();
  for (size_t i = 0; same && i < staged.size(); ++i) {
    SKERRY_ASSIGN(const Head of_view, next.OfView(next.views[i].view));
    SKERRY_TRY(CheckHeadManifest(staged[i].manifest(), of_view));
    same = of_view.manifest == staged[i].ref();
  }
  if (!same) {
    return Fail(Code::kInvalid, "run {}: the head of version {} is to name {}, but other manifests are staged",
                next.run, next.version, NamesOf(next.views));
  }
  if (!current || NamesOf(current->head().views) == NamesOf(next.views)) return {};
  return Fail(Code::kInvalid, "run {} has {}: version {} can't have {}", next.run, NamesOf(current->head().views),
              next.version, NamesOf(next.views));
}

}  // namespace

Result<HeadAt> Board::ReadHead(const RunId& run) const {
  Result<Object> object = store_->Get(HeadKey(run), kMaxHeadBytes);
  if (!object && object.error().code == Code::kNotFound) {
    const Result<std::vector<RunId>> runs = Runs();
    std::vector<std::string> names;
    if (runs) {
      for (const RunId& other : *runs) names.push_back(other.str());
    }
    return Fail(Code::kNotFound, "no run {} in {}; {}", run.Whole(), store_->Describe(),
                names.empty() ? "it has no runs" : fmt::format("its runs: {}", fmt::join(names, ", ")));
  }
  SKERRY_TRY(object);
  Result<Head> head = ParseHead(object->bytes);
  if (!head) return Annotate(std::move(head).error(), HeadKey(run));
  if (head->run != run.Whole()) {
    return Fail(Code::kMismatch, "{} is the head of run {}, not of {}", HeadKey(run), head->run, run.Whole());
  }
  SKERRY_ASSIGN(Head of_view, head->OfView(run.view()));
  return HeadAt{std::move(of_view), std::move(object->generation)};
}

Result<Bytes> Board::ReadManifestBytes(const ManifestRef& manifest) const {
  SKERRY_ASSIGN(Object object, store_->Get(manifest.key, kMaxManifestBytes));
  const Digest found = Sha256::Of(object.bytes);
  if (found != manifest.sha256) {
    return Fail(Code::kCorrupt, "{} has SHA-256 {}, expected {}", manifest.key, found.Hex(), manifest.sha256.Hex());
  }
  return std::move(object.bytes);
}

Result<Manifest> Board::OpenManifest(ByteSpan bytes, const RunId& run, Version version, std::string_view key) const {
  Result<Manifest> manifest = ParseManifest(bytes);
  if (!manifest) return Annotate(std::move(manifest).error(), key);
  SKERRY_TRY(CheckIdentity(*manifest, run, version, key));
  if (!trusted_.empty()) SKERRY_TRY(CheckSignature(*manifest, bytes, trusted_));
  return manifest;
}

bool Board::Trusts(const Manifest& manifest) const {
  if (trusted_.empty()) return true;
  const Result<Bytes> bytes = SerializeManifest(manifest);
  return bytes && CheckSignature(manifest, *bytes, trusted_);
}

Result<Manifest> Board::ReadManifest(const RunId& run, Version version) const {
  SKERRY_ASSIGN(const HeadAt head, ReadHead(run));
  return ReadManifest(head.head, version);
}

Result<Manifest> Board::ReadManifest(const Head& head, Version version) const {
  if (version > head.version) {
    return Fail(Code::kNotFound, "run {} is at version {}, asked for {}", head.run, head.version, version);
  }
  if (version == head.version) {
    const Result<Bytes> bytes = ReadManifestBytes(head.manifest);
    if (!bytes && bytes.error().code == Code::kNotFound) {
      return Fail(Code::kUnavailable, "the head of run {} is at version {}, but its manifest {} is not there (yet)",
                  head.run, version, head.manifest.key);
    }
    SKERRY_TRY(bytes);
    SKERRY_ASSIGN(Manifest manifest, OpenManifest(*bytes, head.run, version, head.manifest.key));
    SKERRY_TRY(CheckHeadManifest(manifest, head));
    return manifest;
  }
  return ReadSettledManifest(head.run, version);
}

Result<Manifest> Board::ReadSettledManifest(const RunId& run, Version version) const {
  const std::string key = ManifestKey(run, version);
  SKERRY_ASSIGN(const Object object, store_->Get(key, kMaxManifestBytes));
  return OpenManifest(object.bytes, run, version, key);
}

Result<Manifest> Board::ReadManifest(const RunId& run, Version version, const Digest& sha256) const {
  ManifestRef ref{.key = StagedManifestKey(run, version, sha256), .sha256 = sha256};
  Result<Bytes> bytes = ReadManifestBytes(ref);
  if (!bytes && bytes.error().code == Code::kNotFound) {
    ref.key = ManifestKey(run, version);
    bytes = ReadManifestBytes(ref);
  }
  SKERRY_TRY(bytes);
  return OpenManifest(*bytes, run, version, ref.key);
}

Result<StagedManifest> Board::StageManifest(Manifest manifest) const {
  manifest.signature.reset();
  if (signing_key_) {
    SKERRY_ASSIGN(manifest, SignManifest(std::move(manifest), *signing_key_));
  }
  SKERRY_ASSIGN(const Bytes bytes, SerializeManifest(manifest));
  // Never what this board itself would refuse to read.
  if (!trusted_.empty()) SKERRY_TRY(CheckSignature(manifest, bytes, trusted_));
  const Digest sha256 = Sha256::Of(bytes);
  ManifestRef ref{.key = StagedManifestKey(manifest.run, manifest.version, sha256), .sha256 = sha256};
  SKERRY_TRY(store_->PutIfAbsent(ref.key, MemorySource(bytes)));
  return StagedManifest(std::move(manifest), std::move(ref));
}

Result<SettledHead> Board::Settle(HeadAt at, const Manifest* manifest) const {
  const Head& head = at.head;
  Bytes bytes;
  if (manifest != nullptr) {
    SKERRY_ASSIGN(bytes, SerializeManifest(*manifest));
  }
  // Another program may have written it with fields that this one does not know.
  if (manifest == nullptr || Sha256::Of(bytes) != head.manifest.sha256) {
    SKERRY_ASSIGN(bytes, ReadManifestBytes(head.manifest));
    SKERRY_TRY(OpenManifest(bytes, head.run, head.version, head.manifest.key));
  }
  SKERRY_TRY(store_->PutIfAbsent(ManifestKey(head.run, head.version), MemorySource(bytes)));
  return SettledHead(std::move(at));
}

Status Board::MayTakeOver(const Head& now, const std::string& publisher) const {
  return CheckOwnership(now, publisher, info_.writes);
}

// What stands on the board before this: the staged manifest with everything that it names, and the alias of the current
// version (`current` is the proof). So a crash before the swap leaves objects that nobody names, and one after it a
// published version whose alias is missing: no reader needs that until the head moves on, and whoever moves it settles
// it first.
Result<Generation> Board::MoveHead(const std::optional<SettledHead>& current, const Head& next,
                                   const StagedManifest& staged, const std::vector<StagedManifest>& views) const {
  SKERRY_ASSIGN(const Bytes bytes, SerializeHead(next));
  SKERRY_TRY(CheckViews(current, next, views));
  SKERRY_TRY(CheckSuccession(current, next, info_.writes));
  const Manifest& manifest = staged.manifest();
  SKERRY_TRY(CheckHeadManifest(manifest, next));
  if (next.manifest != staged.ref()) {
    return Fail(Code::kInvalid, "run {}: the head is to name {}, but the manifest of version {} is {}", next.run,
                next.manifest.key, next.version, staged.ref().key);
  }
  if (current && next.version != current->head().version && manifest.parent != current->head().manifest.sha256) {
    return Fail(Code::kMismatch, "run {}: the parent of version {} is manifest {}, but version {} has manifest {}",
                next.run, next.version, manifest.parent->Short(), current->head().version,
                current->head().manifest.sha256.Short());
  }
  Result<Generation> moved = store_->CompareAndSwap(HeadKey(next.run), GenerationOf(current), bytes);
  if (!moved) return SettleFailedMove(moved.error(), current, next);
  // Where several writers can be told that they won, only the nonce in the head tells who did.
  if (info_.writes.value_or(WriteSafety::kFull) != WriteSafety::kFull) {
    return SettleFailedMove({Code::kConflict, "the store reported success"}, current, next);
  }
  return moved;
}

// The write may have landed although an error came back (a lost reply, a retry that met its own first try): the nonce
// in the head tells.
Result<Generation> Board::SettleFailedMove(const Error& error, const std::optional<SettledHead>& current,
                                           const Head& next) const {
  std::optional<HeadAt> found;
  if (Result<HeadAt> head = ReadHead(next.run)) {
    found = *std::move(head);
  } else if (head.error().code == Code::kCorrupt) {
    return tl::unexpected<Error>(head.error());
  } else if (head.error().code != Code::kNotFound) {
    return Fail(Code::kUnavailable,
                "run {}: unknown whether the head moved to version {}: {}; then it could not be read: {}", next.run,
                next.version, error.message, head.error().message);
  }
  if (found && found->head.nonce == next.nonce) return found->generation;
  const bool unmoved = found ? current && found->generation == current->generation() : !current;
  if (unmoved) {
    return Annotate(error, fmt::format("run {}: the head has not moved to version {}", next.run, next.version));
  }
  if (found && current && next.version != current->head().version) {
    const Result<bool> published = WasPublished(*store_, found->head, next, error.code);
    if (!published) {
      return Fail(Code::kUnavailable, "run {}: unknown whether version {} was published before the head moved on: {}",
                  next.run, next.version, published.error().message);
    }
    // Nothing can be swapped with this token, as it must be: the head is another's.
    if (*published) return Generation("superseded");
  }
  return Lost(found, next);
}

Result<AnchorRef> Board::PutAnchor(const Anchor& anchor) const {
  SKERRY_ASSIGN(const Bytes bytes, SerializeAnchor(anchor));
  const Digest sha256 = Sha256::Of(bytes);
  AnchorRef ref{.version = anchor.version,
                .bytes = anchor.bytes(),
                .object = {.key = AnchorDocumentKey(anchor.run, anchor.version, sha256),
                           .uri = {},
                           .size = bytes.size(),
                           .sha256 = sha256}};
  SKERRY_TRY(store_->PutIfAbsent(ref.object.key, MemorySource(bytes)));
  return ref;
}

Result<Anchor> Board::ReadAnchor(const RunId& run, const AnchorRef& ref) const {
  SKERRY_ASSIGN(const Bytes bytes, ReadObject(ref.object, kMaxAnchorBytes));
  SKERRY_ASSIGN(Anchor anchor, ParseAnchor(bytes));
  if (anchor.run == run && anchor.version == ref.version) return anchor;
  return Fail(Code::kMismatch, "{} is an anchor of run {} version {}, not of run {} version {}", ref.object.name(),
              anchor.run, anchor.version, run, ref.version);
}

}  // namespace skerry
