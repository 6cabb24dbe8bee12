#include "skerry/relay/documents.h"

#include <utility>

#include "skerry/base/log.h"
#include "skerry/board/board.h"
#include "skerry/board/keys.h"
#include "skerry/board/layout_codec.h"
#include "skerry/board/run_info.h"
#include "skerry/relay/fetcher.h"

namespace skerry {
namespace {

Status CheckIdentity(const BoardObject& object, const RunId& run, Version version) {
  if (run == object.run && version == object.version) return {};
  return Fail(Code::kCorrupt, "it is of version {} of run {}, not of version {} of run {}", version, run,
              object.version, object.run);
}

}  // namespace

Documents::Documents(Upstreams& upstreams, DiskCache& disk, RelayMetrics& metrics)
    : upstreams_(upstreams),
      disk_(disk),
      metrics_(metrics),
      kept_(disk.directory() / "digests", [&](const std::string& key) { return disk.Has(key); }) {
  // Which board the cache belongs to.
  [[maybe_unused]] const auto kept = OnDisk(BoardKey(), {.kind = ObjectKind::kBoardInfo});
}

SharedDocument Documents::InMemory(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = documents_.find(key);
  return found == documents_.end() ? nullptr : found->second;
}

Result<SharedDocument> Documents::Get(const std::string& key, const BoardObject& object) {
  std::promise<Result<SharedDocument>> promise;
  Pending pending;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = documents_.find(key);
        found != documents_.end() && found->second->expires > std::chrono::steady_clock::now()) {
      return found->second;
    }
    const auto [at, is_new] = pending_.try_emplace(key);
    first = is_new;
    if (first) at->second = promise.get_future().share();
    pending = at->second;
  }
  if (first) {
    auto found = Look(key, object);
    const std::lock_guard lock(mutex_);
    pending_.erase(key);
    if (found && (*found)->bytes.size() <= kLargestInMemory) {
      const bool is_new = documents_.insert_or_assign(key, *found).second;
      if (is_new) order_.push_back(key);
      if (order_.size() > kMostInMemory) {
        documents_.erase(order_.front());
        order_.pop_front();
      }
    }
    promise.set_value(std::move(found));
  }
  return pending.get();
}

Result<SharedDocument> Documents::Look(const std::string& key, const BoardObject& object) {
  auto kept = OnDisk(key, object);
  if (kept && (*kept)->expires == Document::Time::max()) {
    metrics_.LookedUp(Whereabouts::kHere);
    return kept;
  }
  metrics_.LookedUp(Whereabouts::kUpstream);
  auto fetched = Fetch(key, object);
  if (fetched || fetched.error().code == Code::kNotFound) return fetched;
  // Stale, but better than nothing.
  if (SharedDocument old = InMemory(key)) return old;
  if (kept) return kept;
  return fetched;
}

Result<SharedDocument> Documents::OnDisk(const std::string& key, const BoardObject& object) {
  SKERRY_ASSIGN(const DiskCache::Found found, disk_.Find(key));
  const uint64_t limit = MostBytesOf(object.kind);
  auto document = [&]() -> Result<SharedDocument> {
    if (found.size > limit) return Fail(Code::kCorrupt, "it has {} bytes, more than {}", found.size, limit);
    Bytes bytes(found.size);
    SKERRY_TRY(found.file.ReadAt(bytes, 0));
    if (object.digits.empty()) {
      const auto kept = kept_.Find(key);
      const Digest digest = Sha256::Of(bytes);
      if (kept != digest)
        return Fail(Code::kCorrupt, "its bytes have SHA-256 {}, not that of what was kept", digest.Hex());
    }
    return Read(key, object, std::move(bytes));
  }();
  if (!document) {
    LogWarning("{} in the cache is not right and is dropped: {}", key, document.error().message);
    disk_.Drop(key);
  }
  return document;
}

Result<SharedDocument> Documents::Fetch(const std::string& key, const BoardObject& object) {
  SharedDocument document;
  const Stopwatch watch;
  SKERRY_TRY(upstreams_.Try(key, [&](size_t upstream) -> Status {
    SKERRY_ASSIGN(Object got, upstreams_.store(upstream).Get(key, MostBytesOf(object.kind)));
    metrics_.FetchedBytes(upstreams_.name(upstream), got.bytes.size());
    SKERRY_ASSIGN(document, Read(key, object, std::move(got.bytes)));
    return {};
  }));
  metrics_.TookToFetch(watch.Seconds());
  Keep(key, !object.digits.empty(), *document);
  return document;
}

void Documents::Keep(const std::string& key, bool named_by_content, const Document& document) {
  const Status kept = [&]() -> Status {
    SKERRY_ASSIGN(const DiskCache::Place place, disk_.MakeRoom(document.bytes.size()));
    SKERRY_TRY(place.file.WriteAt(document.bytes, 0));
    if (!named_by_content) kept_.Add(key, document.sha256);
    return disk_.Keep(*place.room, key, document.sha256);
  }();
  // Served all the same; the cache's state shows it.
  if (!kept && kept.error().code != Code::kNoSpace) LogWarning("{} is not kept: {}", key, kept.error().message);
}

Result<SharedDocument> Documents::Read(const std::string& key, const BoardObject& object, Bytes bytes) {
  auto document = std::make_shared<Document>(Document{.bytes = {}, .sha256 = Sha256::Of(bytes)});
  const bool named_by_content = object.kind == ObjectKind::kManifest || object.kind == ObjectKind::kAnchorDocument;
  bool certain = false;
  if (named_by_content) {
    const auto known = known_.Find(key);
    Expected expected{.sha256 = {}, .digits = object.digits};
    if (known) expected.sha256 = known->sha256;
    if (const std::string flaw = expected.FlawOf(document->sha256); !flaw.empty())
      return Fail(Code::kCorrupt, "{}", flaw);
    certain = known.has_value() || !object.digits.empty();
  }
  const Status read = [&]() -> Status {
    switch (object.kind) {
      case ObjectKind::kBoardInfo: return ReadBoardInfo(bytes);
      case ObjectKind::kRunInfo: {
        SKERRY_ASSIGN(const RunInfo info, ParseRunInfo(bytes));
        return CheckIdentity(object, info.run, object.version);
      }
      case ObjectKind::kManifest: return ReadManifest(object, bytes, certain);
      case ObjectKind::kAnchorDocument: return ReadAnchor(object, bytes, certain);
      case ObjectKind::kLayout: {
        SKERRY_ASSIGN(const Bytes json, UnpackLayout(bytes, kMaxLayoutBytes));
        const std::string found = Sha256::Of(json).Hex();
        certain = true;
        if (found == object.digits) return {};
        return Fail(Code::kCorrupt, "the layout in it has SHA-256 {}, but its key says {}", found, object.digits);
      }
      case ObjectKind::kHead:
      case ObjectKind::kData: break;
    }
    return Fail(Code::kInvalid, "{} is no document", key);
  }();
  if (!read) return Fail(Code::kCorrupt, "{}", read.error().message);
  document->bytes = std::move(bytes);
  if (!certain) document->expires = std::chrono::steady_clock::now() + kShortTime;
  return SharedDocument(std::move(document));
}

Status Documents::ReadManifest(const BoardObject& object, ByteSpan bytes, bool certain) {
  const auto manifest = ParseManifest(bytes);
  if (!manifest && manifest.error().code == Code::kUnsupported && certain)
    return {};  // a reader may be newer than this
  SKERRY_TRY(manifest);
  SKERRY_TRY(CheckIdentity(object, manifest->run, manifest->version));
  if (certain) known_.Learn(*manifest);
  return {};
}

Status Documents::ReadAnchor(const BoardObject& object, ByteSpan bytes, bool certain) {
  const auto anchor = ParseAnchor(bytes);
  if (!anchor && anchor.error().code == Code::kUnsupported && certain) return {};
  SKERRY_TRY(anchor);
  SKERRY_TRY(CheckIdentity(object, anchor->run, anchor->version));
  if (certain) known_.Learn(*anchor);
  return {};
}

Status Documents::ReadBoardInfo(ByteSpan bytes) {
  SKERRY_ASSIGN(const BoardInfo info, ParseBoardInfo(bytes));
  const std::lock_guard lock(mutex_);
  if (board_id_.empty()) board_id_ = info.id;
  if (board_id_ == info.id) return {};
  return Fail(Code::kCorrupt, "it is of board {}, but the cache {} is of board {}: another board needs another --cache",
              info.id, disk_.directory().string(), board_id_);
}

void Documents::Learn(const Head& head) {
  known_.Learn(head);
  const std::lock_guard lock(mutex_);
  heads_[head.run] = head;
}

void Documents::LearnFromOwner(const BoardObject& object) {
  std::optional<Head> head;
  {
    const std::lock_guard lock(mutex_);
    const auto found = heads_.find(object.run.Whole());
    if (found != heads_.end()) head = found->second;
  }
  const auto manifest_of = [&](const std::string& key) -> std::optional<Manifest> {
    const auto named = ReadBoardKey(key);
    if (!named || named->kind != ObjectKind::kManifest) return std::nullopt;
    const auto document = Get(key, *named);
    if (!document) return std::nullopt;
    auto manifest = ParseManifest((*document)->bytes);
    return manifest ? std::optional(*std::move(manifest)) : std::nullopt;
  };
  std::optional<Manifest> newest;
  if (head) {
    const auto seen = head->OfView(object.run.view());
    if (seen) newest = manifest_of(seen->manifest.key);
  }
  if (!object.anchor && (!newest || newest->version != object.version)) {
    (void)manifest_of(ManifestKey(object.run, object.version));
  }
  if (!object.anchor || !newest) return;
  for (const AnchorRef& anchor : newest->anchors) {
    if (anchor.version != object.version) continue;
    const auto named = ReadBoardKey(anchor.object.key);
    if (named && named->kind == ObjectKind::kAnchorDocument) (void)Get(anchor.object.key, *named);
  }
}

std::optional<KnownObject> Documents::WhatIsKnown(const std::string& key, const BoardObject& object) {
  if (auto known = known_.Find(key)) return known;
  if (object.kind != ObjectKind::kData) return std::nullopt;
  LearnFromOwner(object);
  return known_.Find(key);
}

}  // namespace skerry
