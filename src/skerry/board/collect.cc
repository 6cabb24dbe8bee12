#include "skerry/board/collect.h"

#include <algorithm>
#include <set>

#include "skerry/base/failpoint.h"
#include "skerry/board/collect_mark.h"
#include "skerry/board/inventory.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

using State = CollectedKey::State;

class RunCollector {
 public:
  RunCollector(const Board& board, const CollectOptions& options, const StoredRun& stored, uint64_t now,
               CollectedRun& out)
      : board_(board), options_(options), stored_(stored), now_(now), out_(out) {}

  Status Run();

 private:
  Status Condemn();
  Status Measure();
  Status WriteMark();
  Status RemoveDue();
  Status RemoveEmptyFolders();
  Status RemoveExpiredLeases();
  bool Stays(const KeyPlace& folder) const;
  Store& store() const { return board_.store(); }

  const Board& board_;
  const CollectOptions& options_;
  const StoredRun& stored_;
  const uint64_t now_;
  CollectedRun& out_;
  CollectMark mark_;
  std::optional<Generation> generation_;
};

// Keys that were condemned before keep their time, as many new ones as there is room for get this one.
Status RunCollector::Condemn() {
  SKERRY_ASSIGN(CollectMarkAt at, ReadCollectMark(board_, out_.run));
  generation_ = std::move(at.generation);
  mark_.run = out_.run;
  const auto grace = static_cast<uint64_t>(std::chrono::milliseconds(options_.grace).count());
  uint64_t room = kMaxCollectMarkBytes - kCollectMarkEntryBytes - 2 * RunId::kMaxSize;
  for (GoingKey& going : out_.retention.goes) {
    CollectedKey key{.key = going.key, .why = std::move(going.why)};
    const uint64_t takes = key.key.size() + kCollectMarkEntryBytes;
    if (takes > room || mark_.condemned.size() == kMaxCondemned) {
      key.state = State::kWaiting;
    } else {
      room -= takes;
      const auto before = at.mark.condemned.find(key.key);
      key.since = before == at.mark.condemned.end() ? now_ : before->second;
      if (key.since + grace <= now_) key.state = State::kRemoved;
      mark_.condemned.emplace(key.key, key.since);
    }
    out_.keys.push_back(std::move(key));
  }
  out_.retention.goes.clear();
  return {};
}

Status RunCollector::Measure() {
  for (CollectedKey& key : out_.keys) {
    const Result<ObjectInfo> info = store().Stat(key.key);
    if (info) key.bytes = info->size;
    if (!info && info.error().code != Code::kNotFound) return tl::unexpected<Error>(info.error());
  }
  return {};
}

Status RunCollector::WriteMark() {
  if (!generation_ && mark_.condemned.empty()) return {};
  SKERRY_ASSIGN(const Bytes bytes, SerializeCollectMark(mark_));
  Result<Generation> written = store().CompareAndSwap(CollectMarkKey(out_.run), generation_, bytes);
  if (!written && written.error().code == Code::kConflict) {
    return Fail(Code::kConflict, "another gc is at work on run {}: {}", out_.run, written.error().message);
  }
  SKERRY_TRY(written);
  generation_ = *std::move(written);
  return {};
}

Status RunCollector::RemoveDue() {
  bool manifests = true;
  for (const CollectedKey& key : out_.keys) {
    if (key.state != State::kRemoved) continue;
    const bool is_manifest = key.key.ends_with(".json");
    if (manifests && !is_manifest) SKERRY_TRY(Failpoint("gc.manifests_deleted"));
    manifests = manifests && is_manifest;
    SKERRY_TRY(store().Delete(key.key));
    mark_.condemned.erase(key.key);
    SKERRY_TRY(Failpoint("gc.deleted_some"));
  }
  return {};
}

// Whether objects may still come to lie there.
bool RunCollector::Stays(const KeyPlace& folder) const {
  if (!folder.is_anchor) {
    return folder.version > stored_.head.version || out_.retention.versions.contains(folder.version);
  }
  const std::vector<AnchorRef>& anchors = stored_.manifests.at(stored_.head.version).manifest.anchors;
  return anchors.empty() || folder.version >= anchors[0].version || out_.retention.anchors.contains(folder.version);
}

Status RunCollector::RemoveEmptyFolders() {
  std::set<std::string, std::less<>> removed;
  for (const CollectedKey& key : out_.keys) {
    if (key.state == State::kRemoved) removed.insert(key.key);
  }
  std::set<std::string> full;  // folders with an object
  for (const std::string& key : stored_.keys) {
    const KeyPlace place = *PlaceOf(out_.run, key);
    if (!removed.contains(key)) full.insert(key.substr(0, key.size() - place.name.size()));
  }
  for (const std::string& kind : {RunPrefix(out_.run) + "versions/", RunPrefix(out_.run) + "anchors/"}) {
    SKERRY_ASSIGN(const std::vector<std::string> names, store().ListNames(kind));
    for (const std::string& name : names) {
      const std::string folder = kind + name + "/";
      const std::optional<KeyPlace> place = PlaceOf(out_.run, folder);
      if (place && !Stays(*place) && !full.contains(folder)) SKERRY_TRY(store().DeleteEmptyFolder(folder));
    }
  }
  return {};
}

Status RunCollector::RemoveExpiredLeases() {
  for (const Lease& lease : stored_.leases) {
    if (lease.expires > now_) continue;
    const std::string key = LeaseKey(out_.run, lease.reader);
    if (!options_.dry_run) SKERRY_TRY(store().Delete(key));
    out_.leases.push_back(key);
  }
  return {};
}

Status RunCollector::Run() {
  SKERRY_TRY(Condemn());
  SKERRY_TRY(Measure());
  if (options_.dry_run) return RemoveExpiredLeases();
  SKERRY_TRY(WriteMark());
  SKERRY_TRY(Failpoint("gc.marked"));
  SKERRY_TRY(RemoveDue());
  if (out_.count(State::kRemoved) > 0) SKERRY_TRY(WriteMark());
  SKERRY_TRY(Failpoint("gc.mark_cleared"));
  SKERRY_TRY(RemoveEmptyFolders());
  return RemoveExpiredLeases();
}

}  // namespace

uint64_t CollectedRun::bytes(State state) const {
  uint64_t sum = 0;
  for (const CollectedKey& key : keys) sum += key.state == state ? key.bytes : 0;
  return sum;
}

size_t CollectedRun::count(State state) const {
  return static_cast<size_t>(
      std::count_if(keys.begin(), keys.end(), [&](const CollectedKey& key) { return key.state == state; }));
}

Result<CollectReceipt> Collect(const Board& board, const CollectOptions& options, const Clock& clock) {
  if (options.policy.keep_versions == 0) {
    return Fail(Code::kInvalid, "gc keeps at least the last version: 0 versions are not a board");
  }
  SKERRY_ASSIGN(const StoredBoard stored, TakeInventory(board));
  if (options.run && !stored.contains(*options.run)) {
    return Fail(Code::kNotFound, "no run {} in {}", *options.run, board.store().Describe());
  }
  const uint64_t now = UnixMilliseconds(clock.Now());
  std::map<RunId, Retention> decided = DecideRetention(stored, options.policy, now);
  CollectReceipt receipt;
  for (const auto& [id, run] : stored) {
    if (options.run && id != *options.run && id.Whole() != *options.run) continue;
    receipt.runs.push_back({.run = id, .retention = std::move(decided.at(id)), .keys = {}, .leases = {}});
    const Status collected = RunCollector(board, options, run, now, receipt.runs.back()).Run();
    if (!collected) return Annotate(collected.error(), fmt::format("gc of run {}", id));
  }
  if (options.dry_run) return receipt;
  SKERRY_ASSIGN(receipt.leftovers, board.store().SweepLeftovers(options.leftovers_after));
  return receipt;
}

}  // namespace skerry
