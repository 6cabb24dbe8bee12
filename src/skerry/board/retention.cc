#include "skerry/board/retention.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <tuple>

#include "skerry/board/keys.h"

namespace skerry {
namespace {

struct Wanted {
  RunId run;
  Version version;
  std::string why;
  bool must = false;  // the run is left alone when no way leads here
};

// The way to a version for a reader that has nothing, newest first.
struct Way {
  std::vector<Version> versions;
  std::optional<ForkPoint> fork;  // where it goes on in another run
};

std::string Until(uint64_t milliseconds) {
  return FormatTime(std::chrono::system_clock::time_point(std::chrono::milliseconds(milliseconds)));
}

class Decision {
 public:
  Decision(const StoredBoard& board, const RetentionPolicy& policy, uint64_t now)
      : board_(board), policy_(policy), now_(now) {}

  std::map<RunId, Retention> Make();

 private:
  void AskForEach(const RunId& id, const StoredRun& run);
  void Keep(const Wanted& wanted);
  static std::optional<Way> FindWay(const StoredRun& run, Version target);
  void LeaveAlone(const RunId& id, const StoredRun& run);
  void KeepAnchors(const RunId& id, const StoredRun& run);
  void NameKeys(const RunId& id, const StoredRun& run);
  void Sort(const RunId& id, const StoredRun& run);
  std::optional<std::string> WhyNot(const RunId& id, const StoredRun& run, const std::string& key) const;

  const StoredBoard& board_;
  const RetentionPolicy& policy_;
  const uint64_t now_;
  std::deque<Wanted> asked_for_;
  std::set<std::string> named_;  // keys that stay, of all runs
  std::map<RunId, Retention> decided_;
};

void Decision::AskForEach(const RunId& id, const StoredRun& run) {
  const Version head = run.head.version;
  asked_for_.push_back({id, head, "the head", true});
  const uint64_t keep = std::max<uint64_t>(1, policy_.keep_versions);
  const Version oldest(head.number() >= keep ? head.number() - keep + 1 : 0);
  for (auto at = run.manifests.lower_bound(oldest); at != run.manifests.end(); ++at) {
    asked_for_.push_back({id, at->first, fmt::format("among the last {}", keep), false});
  }
  for (const Lease& lease : run.leases) {
    if (lease.expires <= now_) continue;
    for (auto at = run.manifests.lower_bound(lease.needs_from);
         at != run.manifests.end() && at->first <= lease.needs_to; ++at) {
      asked_for_.push_back(
          {id, at->first, fmt::format("leased to reader {} until {}", lease.reader, Until(lease.expires)), false});
    }
  }
}

// Back over the newest edges first, so that a reader from any version between finds its way too; depth first, since an
// edge may lead to where nothing goes on.
std::optional<Way> Decision::FindWay(const StoredRun& run, Version target) {
  const std::vector<AnchorRef>& anchors = run.manifests.at(target).manifest.anchors;
  const auto begins_at = [&](Version version) {
    return std::any_of(anchors.begin(), anchors.end(), [&](const AnchorRef& anchor) {
      const auto stored = run.anchors.find(anchor.object.key);
      return anchor.version == version && stored != run.anchors.end() && stored->second.missing.empty();
    });
  };
  const auto steps_from = [&](Version version) {
    std::vector<Version> steps;  // the newest last, which is taken first
    for (const Edge& edge : run.manifests.at(version).manifest.edges) {
      const bool known = edge.kind == "delta" || edge.kind == "skip";
      if (known && run.manifests.contains(edge.from)) steps.push_back(edge.from);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  };
  std::set<Version> seen;
  Way way;
  std::vector<std::vector<Version>> open = {{target}};
  while (!open.empty()) {
    if (open.back().empty()) {  // nothing goes on from the version before
      open.pop_back();
      if (!way.versions.empty()) way.versions.pop_back();
      continue;
    }
    const Version version = open.back().back();
    open.back().pop_back();
    if (!seen.insert(version).second) continue;
    way.versions.push_back(version);
    if (begins_at(version)) return way;
    if (const Manifest& manifest = run.manifests.at(version).manifest; manifest.fork) {
      way.fork = manifest.fork;
      return way;
    }
    open.push_back(steps_from(version));
  }
  return std::nullopt;
}

void Decision::Keep(const Wanted& wanted) {
  const auto found = board_.find(wanted.run);
  if (found == board_.end()) return;  // the origin of a fork that somebody removed whole
  Retention& retention = decided_[wanted.run];
  if (!found->second.manifests.contains(wanted.version)) {
    if (wanted.must && retention.problem.empty()) {
      retention.problem = fmt::format("version {} is {}, but its manifest is not there", wanted.version, wanted.why);
    }
    return;
  }
  retention.versions.try_emplace(wanted.version, wanted.why);
  const std::optional<Way> way = FindWay(found->second, wanted.version);
  if (!way) {
    if (wanted.must && retention.problem.empty()) {
      retention.problem = fmt::format("no complete anchor leads to version {} ({})", wanted.version, wanted.why);
    }
    return;
  }
  for (const Version version : way->versions) {
    retention.versions.try_emplace(version, fmt::format("on the way to version {}", wanted.version));
  }
  if (way->fork) {
    asked_for_.push_back(
        {way->fork->run, way->fork->version, fmt::format("run {} was forked from it", wanted.run), true});
  } else {
    retention.anchors.try_emplace(way->versions.back(),
                                  fmt::format("the way to version {} begins there", wanted.version));
  }
}

// An anchor whose manifest stays must stay too: a planner that finds both takes it for a way.
void Decision::KeepAnchors(const RunId& id, const StoredRun& run) {
  Retention& retention = decided_[id];
  for (const auto& [version, why] : retention.versions) {
    for (const AnchorRef& anchor : run.manifests.at(version).manifest.anchors) {
      const auto stored = run.anchors.find(anchor.object.key);
      if (stored == run.anchors.end() || !retention.versions.contains(anchor.version)) continue;
      retention.anchors.try_emplace(anchor.version, fmt::format("version {} names it", version));
      if (!stored->second.missing.empty()) {
        retention.notes.push_back(
            fmt::format("anchor {} is not complete: {} is not there", anchor.version, stored->second.missing));
      }
    }
  }
  retention.notes.insert(retention.notes.end(), run.notes.begin(), run.notes.end());
  std::sort(retention.notes.begin(), retention.notes.end());
  retention.notes.erase(std::unique(retention.notes.begin(), retention.notes.end()), retention.notes.end());
}

void Decision::NameKeys(const RunId& id, const StoredRun& run) {
  Retention& retention = decided_[id];
  const auto name = [&](const std::string& key, uint64_t bytes) {
    if (key.empty() || !named_.insert(key).second) return;
    retention.kept_bytes += bytes;
  };
  name(run.head.manifest.key, 0);
  for (const auto& [version, why] : retention.versions) {
    const StoredManifest& stored = run.manifests.at(version);
    name(ManifestKey(id, version), 0);
    name(StagedManifestKey(id, version, stored.sha256), 0);
    name(stored.manifest.tensor_digests.key, stored.manifest.tensor_digests.size);
    for (const Edge& edge : stored.manifest.edges) {
      for (const PatchPart& part : edge.parts) name(part.object.key, part.object.size);
    }
    for (const AnchorRef& anchor : stored.manifest.anchors) {
      const auto found = run.anchors.find(anchor.object.key);
      if (found == run.anchors.end() || !retention.anchors.contains(anchor.version)) continue;
      uint64_t bytes = found->second.bytes;
      for (const std::string& key : found->second.keys) name(key, std::exchange(bytes, 0));
    }
  }
}

// Why a key that no kept manifest or anchor names goes; nullopt when it stays all the same.
std::optional<std::string> Decision::WhyNot(const RunId& id, const StoredRun& run, const std::string& key) const {
  const std::optional<KeyPlace> place = PlaceOf(id, key);
  if (!place) return std::nullopt;
  const Retention& retention = decided_.at(id);
  const auto head_manifest = run.manifests.find(run.head.version);
  if (place->is_anchor) {
    if (head_manifest == run.manifests.end()) return std::nullopt;
    const std::vector<AnchorRef>& anchors = head_manifest->second.manifest.anchors;
    if (anchors.empty() || place->version > anchors[0].version) return std::nullopt;
    if (retention.anchors.contains(place->version)) return fmt::format("anchor {} does not name it", place->version);
    return fmt::format("no kept version needs anchor {}", place->version);
  }
  if (place->version > run.head.version) return std::nullopt;
  if (!retention.versions.contains(place->version)) {
    if (!run.manifests.contains(place->version)) return fmt::format("left over from version {}", place->version);
    return fmt::format("version {} is not among the last {}, and nothing needs it", place->version,
                       policy_.keep_versions);
  }
  // What else lies beside a version, somebody put there on purpose.
  const std::string_view name = place->name;
  if (name.starts_with("manifest-") && name.ends_with(".json")) {
    return fmt::format("a version {} that was not published", place->version);
  }
  const bool is_data = name.starts_with("delta-") || name.starts_with("skip-") || name.starts_with("digests-");
  if (is_data) return fmt::format("version {} does not name it", place->version);
  // Writers of parts may still ask what became of the head's.
  if (name.starts_with("parts/") && place->version < run.head.version) {
    return fmt::format("version {} is published: nobody waits for its parts", place->version);
  }
  return std::nullopt;
}

void Decision::Sort(const RunId& id, const StoredRun& run) {
  Retention& retention = decided_[id];
  if (!retention.problem.empty()) return;
  const auto is_document = [](const KeyPlace& place, std::string_view prefix) {
    return place.name.starts_with(prefix) && place.name.ends_with(".json");
  };
  std::vector<std::tuple<int, Version, GoingKey>> going;
  for (const std::string& key : run.keys) {
    if (named_.contains(key)) continue;
    std::optional<std::string> why = WhyNot(id, run, key);
    if (!why) continue;
    const KeyPlace place = *PlaceOf(id, key);
    const int rank =
        place.is_anchor ? (is_document(place, "anchor-") ? 1 : 2) : (is_document(place, "manifest") ? 0 : 2);
    going.emplace_back(rank, place.version, GoingKey{key, *std::move(why)});
  }
  std::sort(going.begin(), going.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a).key) <
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b).key);
  });
  for (auto& [rank, version, key] : going) retention.goes.push_back(std::move(key));
}

// A run that is left alone: all of it stays, and what it needs of others.
void Decision::LeaveAlone(const RunId& id, const StoredRun& run) {
  for (const auto& [version, stored] : run.manifests) {
    decided_[id].versions.try_emplace(version, "nothing of this run goes");
    if (const auto& fork = stored.manifest.fork) {
      asked_for_.push_back({fork->run, fork->version, fmt::format("run {} was forked from it", id), true});
    }
  }
}

std::map<RunId, Retention> Decision::Make() {
  for (const auto& [id, run] : board_) AskForEach(id, run);
  std::set<std::tuple<RunId, Version, bool>> answered;
  std::set<RunId> left_alone;
  while (!asked_for_.empty()) {
    const Wanted wanted = std::move(asked_for_.front());
    asked_for_.pop_front();
    if (answered.insert({wanted.run, wanted.version, wanted.must}).second) Keep(wanted);
    const auto run = board_.find(wanted.run);
    if (run == board_.end() || decided_[wanted.run].problem.empty()) continue;
    if (left_alone.insert(wanted.run).second) LeaveAlone(wanted.run, run->second);
  }
  for (const auto& [id, run] : board_) {
    KeepAnchors(id, run);
    NameKeys(id, run);
  }
  for (const auto& [id, run] : board_) Sort(id, run);
  return std::move(decided_);
}

}  // namespace

std::optional<KeyPlace> PlaceOf(const RunId& run, std::string_view key) {
  const std::string prefix = RunPrefix(run);
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  KeyPlace place;
  place.is_anchor = key.starts_with("anchors/");
  if (!place.is_anchor && !key.starts_with("versions/")) return std::nullopt;
  key.remove_prefix(key.find('/') + 1);
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const Result<Version> version = Version::Parse(key.substr(0, slash));
  if (!version || fmt::format("{:09}", *version) != key.substr(0, slash)) return std::nullopt;
  place.version = *version;
  place.name = key.substr(slash + 1);
  return place;
}

std::map<RunId, Retention> DecideRetention(const StoredBoard& board, const RetentionPolicy& policy, uint64_t now) {
  return Decision(board, policy, now).Make();
}

}  // namespace skerry
