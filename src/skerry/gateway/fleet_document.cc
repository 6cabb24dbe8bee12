#include "skerry/gateway/fleet_document.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "skerry/proxy/passage.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

Json OrNull(const std::optional<Version>& version) { return version ? Json(version->number()) : Json(); }
Json OrNull(const std::optional<uint64_t>& number) { return number ? Json(*number) : Json(); }
Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::optional<uint64_t> Behind(std::optional<Version> version, std::optional<Version> head) {
  if (!version || !head) return std::nullopt;
  return *version < *head ? head->number() - version->number() : 0;
}

double Seconds(Fleet::Time::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 1000.0;
}

Json IslandJson(const Island& island, const Fleet& fleet, Fleet::Time now) {
  const IslandReport& report = island.report;
  const IslandState state = fleet.StateOf(island, now);
  return {{"url", island.url},
          {"name", OrNull(report.name)},
          {"region", OrNull(report.region)},
          {"state", IslandStateName(state)},
          {"because", OrNull(state == IslandState::kFailing ? island.problem : report.because)},
          {"run", OrNull(report.run)},
          {"version", OrNull(report.version)},
          {"head", OrNull(report.head)},
          {"behind", OrNull(Behind(report.version, fleet.Head()))},
          {"engines", report.engines},
          {"running", island.running + island.others},
          {"from_here", island.running},
          {"held", report.held},
          {"capacity", report.capacity},
          {"load", island.Load()},
          {"answers", island.answers},
          {"failures", island.failures},
          {"last_failure", OrNull(island.problem)},
          {"listed", island.listed},
          {"heard_seconds_ago", island.heard ? Json(Seconds(now - island.seen)) : Json()}};
}

// Held requests by what they wait for.
Json WaitingJson(const Hall& hall) {
  std::map<std::pair<std::string, std::optional<Version>>, uint64_t> counts;
  for (const auto& passage : hall.held()) {
    const VersionConstraint& constraint = passage->constraint();
    ++counts[{constraint.exact ? "exact" : constraint.min ? "min" : "any", constraint.wanted()}];
  }
  Json all = Json::array();
  for (const auto& [wanted, requests] : counts) {
    all.push_back({{"constraint", wanted.first}, {"version", OrNull(wanted.second)}, {"requests", requests}});
  }
  return all;
}

}  // namespace

FleetFigures FiguresOf(const Fleet& fleet, const Hall& hall, Fleet::Time now) {
  FleetFigures figures{.newest = fleet.Newest(now), .head = fleet.Head(), .most_behind = {}};
  for (const auto& [url, island] : fleet.islands()) {
    if (fleet.StateOf(*island, now) != IslandState::kIn) continue;
    figures.running += island->running + island->others;
    figures.capacity += island->report.capacity;
    if (const auto behind = Behind(island->report.version, figures.head)) {
      figures.most_behind = std::max(figures.most_behind, behind);
    }
  }
  for (const auto& passage : hall.held()) {
    const auto wanted = passage->constraint().wanted();
    if (!wanted || !figures.newest || *wanted <= *figures.newest) {
      ++figures.waiting_now;
    } else if (wanted->number() == figures.newest->number() + 1) {
      ++figures.waiting_next;
    } else {
      ++figures.waiting_later;
    }
  }
  return figures;
}

std::string FleetDocument(Gateway& gateway, Fleet::Time now) {
  const Fleet& fleet = gateway.fleet();
  const FleetFigures figures = FiguresOf(fleet, gateway.hall(), now);
  Json islands = Json::array(), states = Json::object();
  for (const IslandState state : kIslandStates) states[std::string(IslandStateName(state))] = 0;
  for (const auto& [url, island] : fleet.islands()) {
    islands.push_back(IslandJson(*island, fleet, now));
    Json& count = states[std::string(IslandStateName(fleet.StateOf(*island, now)))];
    count = count.get<int>() + 1;
  }
  const Json json = {
      {"format", kFormat},
      {"run", fleet.options().run},
      {"region", OrNull(fleet.options().region)},
      {"newest", OrNull(figures.newest)},
      {"head", OrNull(figures.head)},
      {"signals",
       {{"queue", gateway.hall().held().size()},
        {"waiting", WaitingJson(gateway.hall())},
        {"running", gateway.running()},
        {"fleet_running", figures.running},
        {"fleet_capacity", figures.capacity},
        {"load", figures.capacity == 0
                     ? Json()
                     : Json(static_cast<double>(figures.running) / static_cast<double>(figures.capacity))},
        {"requests_per_second", gateway.requests().PerSecond(now)},
        {"tokens_per_second", gateway.tokens().PerSecond(now)},
        {"versions_behind", OrNull(figures.most_behind)},
        {"islands", states}}},
      {"islands", islands},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace skerry
