#include "skerry/board/inventory.h"

#include <algorithm>

#include "skerry/board/keys.h"

namespace skerry {
namespace {

// The manifest at `key`; nullopt when it vanished since it was listed. Signatures are not looked at: what an unsigned
// version names stays too.
Result<std::optional<StoredManifest>> ReadStored(const Board& board, const RunId& run, Version version,
                                                 const std::string& key) {
  const Result<Object> object = board.store().Get(key, kMaxManifestBytes);
  if (!object && object.error().code == Code::kNotFound) return std::nullopt;
  SKERRY_TRY(object);
  Result<Manifest> manifest = ParseManifest(object->bytes);
  if (!manifest) return Annotate(std::move(manifest).error(), key);
  if (manifest->run != run || manifest->version != version) {
    return Fail(Code::kMismatch, "{} is the manifest of run {} version {}", key, manifest->run, manifest->version);
  }
  return StoredManifest{.manifest = *std::move(manifest), .sha256 = Sha256::Of(object->bytes)};
}

Status ReadManifests(const Board& board, const RunId& id, StoredRun& run) {
  const Head& head = run.head;
  SKERRY_ASSIGN(std::optional<StoredManifest> newest, ReadStored(board, id, head.version, head.manifest.key));
  if (!newest || newest->sha256 != head.manifest.sha256) {
    return Fail(Code::kCorrupt, "the head is at version {}, but its manifest {} {}", head.version, head.manifest.key,
                newest ? "has SHA-256 " + newest->sha256.Hex() : "is not there");
  }
  run.manifests.emplace(head.version, *std::move(newest));
  for (const std::string& key : run.keys) {
    const std::optional<KeyPlace> place = PlaceOf(id, key);
    if (!place || place->is_anchor || place->name != "manifest.json" || place->version >= head.version) continue;
    SKERRY_ASSIGN(std::optional<StoredManifest> stored, ReadStored(board, id, place->version, key));
    if (stored) run.manifests.emplace(place->version, *std::move(stored));
  }
  return {};
}

Result<std::string> FirstMissing(const Board& board, const StoredRun& run, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (std::binary_search(run.keys.begin(), run.keys.end(), key)) continue;
    const Result<ObjectInfo> info = board.store().Stat(key);  // of another run, perhaps
    if (info) continue;
    if (info.error().code == Code::kNotFound) return key;
    return tl::unexpected<Error>(info.error());
  }
  return std::string();
}

Status ReadAnchors(const Board& board, const RunId& id, StoredRun& run) {
  for (const auto& [version, stored] : run.manifests) {
    for (const AnchorRef& ref : stored.manifest.anchors) {
      if (ref.object.key.empty() || run.anchors.contains(ref.object.key)) continue;
      const Result<Anchor> anchor = board.ReadAnchor(id, ref);
      if (!anchor && anchor.error().code == Code::kNotFound) continue;
      SKERRY_TRY(anchor);
      StoredAnchor found{.keys = {ref.object.key}, .bytes = ref.object.size, .missing = {}};
      const auto add = [&](const ObjectRef& object) {
        if (object.key.empty()) return;
        found.keys.push_back(object.key);
        found.bytes += object.size;
      };
      for (const AnchorFile& file : anchor->files) add(file.object);
      for (const PatchPart& part : anchor->parts) add(part.object);
      SKERRY_ASSIGN(found.missing, FirstMissing(board, run, found.keys));
      run.anchors.emplace(ref.object.key, std::move(found));
    }
  }
  return {};
}

Status ReadLeases(const Board& board, const RunId& id, const std::vector<std::string>& keys, StoredRun& run) {
  for (const std::string& key : keys) {
    const Result<Object> object = board.store().Get(key, kMaxLeaseBytes);
    if (!object && object.error().code == Code::kNotFound) continue;
    if (!object && object.error().code != Code::kCorrupt) return tl::unexpected<Error>(object.error());
    const Result<Lease> lease = object ? ParseLease(object->bytes) : tl::unexpected<Error>(object.error());
    if (lease && lease->run == id && LeaseKey(id, lease->reader) == key) {
      run.leases.push_back(*lease);
    } else {
      run.notes.push_back(
          fmt::format("{} is no lease: {}", key, lease ? "it is of another reader" : lease.error().message));
    }
  }
  return {};
}

Result<StoredRun> ReadRun(const Board& board, const RunId& id) {
  SKERRY_ASSIGN(HeadAt at, board.ReadHead(id));
  StoredRun run{.head = std::move(at.head)};
  SKERRY_ASSIGN(const std::vector<std::string> keys, board.store().List(RunPrefix(id)));
  std::vector<std::string> leases;
  for (const std::string& key : keys) {
    if (PlaceOf(id, key)) run.keys.push_back(key);
    if (key.starts_with(LeasePrefix(id))) leases.push_back(key);
  }
  SKERRY_TRY(ReadManifests(board, id, run));
  SKERRY_TRY(ReadAnchors(board, id, run));
  SKERRY_TRY(ReadLeases(board, id, leases, run));
  return run;
}

}  // namespace

Result<StoredBoard> TakeInventory(const Board& board) {
  StoredBoard stored;
  SKERRY_ASSIGN(const std::vector<RunId> runs, board.Runs());
  for (const RunId& whole : runs) {
    std::vector<RunId> ids = {whole};
    for (size_t i = 0; i < ids.size(); ++i) {
      Result<StoredRun> run = ReadRun(board, ids[i]);
      if (!run) return Annotate(std::move(run).error(), fmt::format("gc must know all of run {}", ids[i]));
      for (const ViewHead& view : run->head.views) {
        SKERRY_ASSIGN(ids.emplace_back(), whole.View(view.view));
      }
      stored.emplace(ids[i], *std::move(run));
    }
  }
  return stored;
}

}  // namespace skerry
