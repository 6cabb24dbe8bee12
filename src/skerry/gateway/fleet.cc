#include "skerry/gateway/fleet.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "skerry/base/hash.h"
#include "skerry/proxy/stamped_run.h"

namespace skerry {
namespace {

// Finalizer of splitmix64 (Steele, Lea, Flood 2014): mixes two hashes into one.
uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t z = a ^ (b + 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Weighted rendezvous hashing (Schindelhauer and Schomaker 2005, logarithmic method): the island with the least value
// has the session, each in proportion to its capacity, and no session moves but those of an island that comes or goes.
double Distance(uint64_t session, const Island& island) {
  const double uniform = (static_cast<double>(Mixed(session, island.hash) >> 11) + 1) * 0x1p-53;  // in (0, 1]
  return -std::log(uniform) / static_cast<double>(island.report.capacity);
}

// Lower is better. Full islands come behind others, of whatever region: a request is not queued in one region while it
// could run in another.
int TierOf(const Island& island, const std::string& region) {
  const bool full = island.running + island.others >= island.report.capacity;
  const bool elsewhere = !region.empty() && island.report.region != region;
  return (full ? 2 : 0) + (elsewhere ? 1 : 0);
}
constexpr int kTierOfFailing = 4;

}  // namespace

uint64_t StableHash(std::string_view text) { return Xxh3(AsBytes(text)); }

std::string_view IslandStateName(IslandState state) {
  switch (state) {
    case IslandState::kIn: return "in";
    case IslandState::kOut: return "out";
    case IslandState::kDraining: return "draining";
    case IslandState::kFailing: return "failing";
    case IslandState::kSilent: return "silent";
    case IslandState::kForeign: return "foreign";
  }
  return "";
}

Result<bool> Fleet::Report(IslandReport report, Time now) {
  auto found = islands_.find(report.url);
  if (found == islands_.end()) {
    if (islands_.size() >= options_.most) {
      return Fail(Code::kNoSpace, "{} islands are known already: no room for {}", islands_.size(), report.url);
    }
    auto island = std::make_shared<Island>();
    island->url = report.url;
    island->hash = StableHash(report.url);
    found = islands_.emplace(report.url, std::move(island)).first;
  }
  Island& island = *found->second;
  const bool was_silent = StateOf(island, now) == IslandState::kSilent;
  const bool changed = !island.heard || was_silent || report.DiffersFrom(island.report);
  if (island.heard && report.instance != island.report.instance) {
    island.failing_until = {};
    island.failures_in_a_row = 0;
    island.lied = false;
  }
  island.others = report.running > island.running ? report.running - island.running : 0;
  island.report = std::move(report);
  island.heard = true;
  island.seen = now;
  if (StateOf(island, now) == IslandState::kIn) last_ = island.report.version;
  return changed;
}

void Fleet::List(const std::vector<std::string>& urls, Time now) {
  for (auto& [url, island] : islands_) island->listed = false;
  for (const std::string& url : urls) {
    auto& island = islands_[url];
    if (!island) {
      island = std::make_shared<Island>();
      island->url = url;
      island->hash = StableHash(url);
      island->seen = now;
    }
    island->listed = true;
  }
}

void Fleet::Leave(const std::string& url) {
  const auto found = islands_.find(url);
  if (found == islands_.end()) return;
  if (!found->second->listed) {
    islands_.erase(found);
    return;
  }
  found->second->heard = false;  // until it answers again
}

std::vector<std::shared_ptr<Island>> Fleet::Forget(Time now) {
  std::vector<std::shared_ptr<Island>> gone;
  for (auto i = islands_.begin(); i != islands_.end();) {
    const bool silent = now - i->second->seen > options_.forget;
    if (silent) gone.push_back(i->second);
    i = silent && !i->second->listed ? islands_.erase(i) : std::next(i);
  }
  return gone;
}

void Fleet::Failed(Island& island, const std::string& why, Time now) {
  const int doublings = std::min(island.failures_in_a_row++, 10);
  island.failing_until = now + std::min(kFirstPause * (1 << doublings), kLongestPause);
  island.problem = why;
  ++island.failures;
}

void Fleet::Lied(Island& island, const std::string& why, Time now) {
  Failed(island, why, now);
  island.lied = true;
  island.failing_until = now + kDistrust;
}

void Fleet::Answered(Island& island) {
  ++island.answers;
  island.failures_in_a_row = 0;
  if (!island.lied) island.failing_until = {};
}

void Fleet::Serves(Island& island, Version version) { island.report.version = version; }

IslandState Fleet::StateOf(const Island& island, Time now) const {
  if (!island.heard || now - island.seen > options_.silence) return IslandState::kSilent;
  if (StampedRun(island.report.run) != options_.run) return IslandState::kForeign;
  if (island.report.draining) return IslandState::kDraining;
  if (!island.report.ready || !island.report.version) return IslandState::kOut;
  return island.failing_until > now ? IslandState::kFailing : IslandState::kIn;
}

std::optional<Version> Fleet::Newest(Time now) const {
  std::optional<Version> newest;
  for (const auto& [url, island] : islands_) {
    if (StateOf(*island, now) == IslandState::kIn) newest = std::max(newest, island->report.version);
  }
  return newest;
}

std::optional<Version> Fleet::Head() const {
  std::optional<Version> head;
  for (const auto& [url, island] : islands_) {
    if (island->heard && StampedRun(island->report.run) == options_.run) head = std::max(head, island->report.head);
  }
  return head;
}

Fleet::Choice Fleet::Choose(const IslandWish& wish, Time now) const {
  const std::string& region = wish.region.empty() ? options_.region : wish.region;
  const std::shared_ptr<Island>* best = nullptr;
  std::tuple<int, double, uint64_t> best_place;
  for (const auto& [url, island] : islands_) {
    const IslandState state = StateOf(*island, now);
    const bool may = state == IslandState::kIn || (state == IslandState::kFailing && !island->lied);
    if (!may || !wish.constraint.MetBy(*island->report.version)) continue;
    if (wish.tried && std::find(wish.tried->begin(), wish.tried->end(), island.get()) != wish.tried->end()) continue;
    const int tier = state == IslandState::kFailing ? kTierOfFailing : TierOf(*island, region);
    const double distance = wish.session ? Distance(*wish.session, *island) : island->Load();
    const std::tuple place(tier, distance, Mixed(wish.ticket, island->hash));
    if (best != nullptr && place >= best_place) continue;
    best = &island;
    best_place = place;
  }
  if (best != nullptr) return *best;
  return Refusal(wish, now);
}

Admission::Refused Fleet::Refusal(const IslandWish& wish, Time now) const {
  const VersionConstraint& constraint = wish.constraint;
  const std::optional<Version> newest = Newest(now), applied = newest ? newest : last_;
  Admission::Refused refused{.applied = {}, .leaving_for = {}};
  if (applied) refused.applied = VersionLabel{options_.run, applied};
  if (constraint.pinned()) refused.not_ready = newest || !applied || !constraint.MetBy(*applied);
  refused.worth_waiting = !refused.not_ready || !applied || constraint.IsAhead(*applied);
  for (const auto& [url, island] : islands_) {
    // An exact version that the newest have passed may still come to one that is behind.
    const bool in = StateOf(*island, now) == IslandState::kIn;
    refused.worth_waiting = refused.worth_waiting || (in && constraint.IsAhead(*island->report.version));
  }
  return refused;
}

}  // namespace skerry
