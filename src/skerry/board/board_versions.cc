// The half of Board that is about versions: reading the head and manifests, and publishing by moving the head.
#include <fmt/format.h>

#include "skerry/board/board.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

std::string Owner(const Head& head) {
  return fmt::format("version {} (epoch {}, publisher {}, {})", head.version, head.epoch, head.publisher, head.time);
}

tl::unexpected<Error> Lost(const std::optional<HeadAt>& current, const Head& next) {
  return Fail(Code::kConflict, "run {}: the head is at {}, so {} was not published", next.run,
              current ? Owner(current->head) : "no version (somebody deleted it)", Owner(next));
}

std::optional<Generation> GenerationOf(const std::optional<HeadAt>& head) {
  if (!head) return std::nullopt;
  return head->generation;
}

// Whether `next` may follow `current`.
Status CheckSuccession(const std::optional<HeadAt>& current, const Head& next) {
  if (!current) {
    if (next.version.IsBase() && next.sequence == 1) return {};
    return Fail(Code::kInvalid, "run {}: the first head must be at version 0 with sequence 1, not version {} with {}",
                next.run, next.version, next.sequence);
  }
  const Head& now = current->head;
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
  if (manifest.model == head.model) return {};
  return Fail(Code::kMismatch, "run {} version {}: the head says model {}, its manifest {}", head.run, head.version,
              head.model.Short(), manifest.model.Short());
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
    return Fail(Code::kNotFound, "no run {} in {}; {}", run, store_->Describe(),
                names.empty() ? "it has no runs" : fmt::format("its runs: {}", fmt::join(names, ", ")));
  }
  SKERRY_TRY(object);
  Result<Head> head = ParseHead(object->bytes);
  if (!head) return Annotate(std::move(head).error(), HeadKey(run));
  if (head->run != run) {
    return Fail(Code::kMismatch, "{} is the head of run {}, not of {}", HeadKey(run), head->run, run);
  }
  return HeadAt{*std::move(head), std::move(object->generation)};
}

Result<Bytes> Board::ReadManifestBytes(const ManifestRef& manifest) const {
  SKERRY_ASSIGN(Object object, store_->Get(manifest.key, kMaxManifestBytes));
  const Digest found = Sha256::Of(object.bytes);
  if (found != manifest.sha256) {
    return Fail(Code::kCorrupt, "{} has SHA-256 {}, expected {}", manifest.key, found.Hex(), manifest.sha256.Hex());
  }
  return std::move(object.bytes);
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
    SKERRY_ASSIGN(Manifest manifest, ParseManifest(*bytes));
    SKERRY_TRY(CheckHeadManifest(manifest, head));
    return manifest;
  }
  const std::string key = ManifestKey(head.run, version);
  SKERRY_ASSIGN(const Object object, store_->Get(key, kMaxManifestBytes));
  Result<Manifest> manifest = ParseManifest(object.bytes);
  if (!manifest) return Annotate(std::move(manifest).error(), key);
  SKERRY_TRY(CheckIdentity(*manifest, head.run, version, key));
  return manifest;
}

Result<Manifest> Board::ReadParent(const Manifest& manifest) const {
  if (!manifest.parent) {
    return Fail(Code::kNotFound, "run {} version {} is the base: it has no parent", manifest.run, manifest.version);
  }
  const Version version = manifest.version.Previous();
  const std::string key = ManifestKey(manifest.run, version);
  SKERRY_ASSIGN(const Bytes bytes, ReadManifestBytes({.key = key, .sha256 = *manifest.parent}));
  SKERRY_ASSIGN(Manifest parent, ParseManifest(bytes));
  SKERRY_TRY(CheckIdentity(parent, manifest.run, version, key));
  return parent;
}

Result<ManifestRef> Board::StageManifest(const Manifest& manifest) const {
  SKERRY_ASSIGN(const Bytes bytes, SerializeManifest(manifest));
  const Digest sha256 = Sha256::Of(bytes);
  ManifestRef ref{.key = StagedManifestKey(manifest.run, manifest.version, sha256), .sha256 = sha256};
  SKERRY_TRY(store_->PutIfAbsent(ref.key, MemorySource(bytes)));
  return ref;
}

// 1. read the head and compare it with `expected`       crash: nothing has happened
// 2. read and check the manifest that `next` names      crash: a staged manifest that nobody names
// 3. put the alias of the current version if missing    crash: the same; the alias is right in any case
// 4. compare-and-swap the head                          crash: published, or not; the alias of `next` is missing, but
//    no reader needs it until the head moves on, and whoever moves it puts the alias first (step 3)
Result<Generation> Board::MoveHead(const std::optional<Generation>& expected, const Head& next) const {
  SKERRY_ASSIGN(const Bytes bytes, SerializeHead(next));
  std::optional<HeadAt> current;
  if (Result<HeadAt> head = ReadHead(next.run)) {
    current = *std::move(head);
  } else if (head.error().code != Code::kNotFound) {
    return tl::unexpected<Error>(std::move(head).error());
  }
  if (GenerationOf(current) != expected) return Lost(current, next);
  SKERRY_TRY(CheckSuccession(current, next));

  SKERRY_ASSIGN(const Bytes manifest_bytes, ReadManifestBytes(next.manifest));
  SKERRY_ASSIGN(const Manifest manifest, ParseManifest(manifest_bytes));
  SKERRY_TRY(CheckHeadManifest(manifest, next));
  if (current && next.version != current->head.version && manifest.parent != current->head.manifest.sha256) {
    return Fail(Code::kMismatch, "run {}: the parent of version {} is manifest {}, but version {} has manifest {}",
                next.run, next.version, manifest.parent->Short(), current->head.version,
                current->head.manifest.sha256.Short());
  }
  if (current) SKERRY_TRY(PublishAlias(current->head));

  Result<Generation> moved = store_->CompareAndSwap(HeadKey(next.run), expected, bytes);
  if (!moved) return SettleFailedMove(moved.error(), expected, next);
  return moved;
}

// The write may have landed although an error came back (a lost reply, a retry that met its own first try): the nonce
// in the head tells.
Result<Generation> Board::SettleFailedMove(const Error& error, const std::optional<Generation>& expected,
                                           const Head& next) const {
  std::optional<HeadAt> current;
  if (Result<HeadAt> head = ReadHead(next.run)) {
    current = *std::move(head);
  } else if (head.error().code != Code::kNotFound) {
    return Fail(Code::kUnavailable,
                "run {}: unknown whether the head moved to version {}: {}; then it could not be read: {}", next.run,
                next.version, error.message, head.error().message);
  }
  if (current && current->head.nonce == next.nonce) return current->generation;
  if (GenerationOf(current) == expected) {
    return Annotate(error, fmt::format("run {}: the head has not moved to version {}", next.run, next.version));
  }
  return Lost(current, next);
}

Status Board::PublishAlias(const Head& head) const {
  const std::string alias = ManifestKey(head.run, head.version);
  const Result<Object> there = store_->Get(alias, kMaxManifestBytes);
  if (there) {
    const Digest found = Sha256::Of(there->bytes);
    if (found == head.manifest.sha256) return {};
    return Fail(Code::kConflict, "{} holds a manifest with SHA-256 {}, but the head named {}", alias, found.Hex(),
                head.manifest.sha256.Hex());
  }
  if (there.error().code != Code::kNotFound) return tl::unexpected<Error>(there.error());
  SKERRY_ASSIGN(const Bytes bytes, ReadManifestBytes(head.manifest));
  return store_->PutIfAbsent(alias, MemorySource(bytes));
}

}  // namespace skerry
