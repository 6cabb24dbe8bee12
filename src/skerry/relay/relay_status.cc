#include "skerry/relay/relay_status.h"

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

ServerResponse Answer(int status, const Json& json) {
  ServerResponse response{.status = status, .content_type = "application/json"};
  response.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

ServerResponse ErrorJson(int status, std::string_view type, std::string_view message) {
  return Answer(status, {{"error", {{"type", type}, {"message", message}}}});
}

ServerResponse ReadyJson(const std::string& problem) {
  if (problem.empty()) return Answer(200, {{"ready", true}});
  return Answer(503, {{"ready", false}, {"because", problem}});
}

ServerResponse StatusJson(const RelayStatus& status) {
  Json upstreams = Json::array(), runs = Json::array();
  bool any_up = false;
  for (const Upstreams::View& upstream : status.upstreams) {
    any_up = any_up || upstream.up;
    upstreams.push_back({{"name", upstream.name},
                         {"up", upstream.up},
                         {"failures", upstream.failures},
                         {"wrong", upstream.wrong},
                         {"wrong_object", TextOrNull(upstream.wrong_object)},
                         {"problem", TextOrNull(upstream.problem)},
                         {"problem_time", TextOrNull(upstream.problem_time)}});
  }
  const auto now = std::chrono::steady_clock::now();
  for (const Heads::View& view : status.heads) {
    const bool told = view.head->upstream != RelayedHead::kNone;
    const double age = std::chrono::duration<double>(now - view.head->told).count();
    runs.push_back({{"run", view.run.str()},
                    {"version", view.head->head.version.number()},
                    {"sequence", view.head->head.sequence},
                    {"upstream", told ? Json(status.upstreams[view.head->upstream].name) : Json()},
                    {"told_seconds_ago", told ? Json(age) : Json()},
                    {"pushed", view.pushed},
                    {"waiting", view.waiting}});
  }
  return Answer(200, {{"format", 1},
                      {"software_version", status.version},
                      {"started", status.started},
                      {"ready", status.not_ready_because.empty()},
                      {"not_ready_because", TextOrNull(status.not_ready_because)},
                      {"degraded", !any_up},
                      {"upstreams", upstreams},
                      {"runs", runs},
                      {"cache",
                       {{"directory", status.cache_directory},
                        {"bytes", status.cache.bytes},
                        {"limit", status.cache.bound},
                        {"objects", status.cache.objects},
                        {"pinned_bytes", status.cache.pinned_bytes},
                        {"evicted_bytes", status.cache.evicted_bytes}}},
                      {"memory", {{"bytes", status.memory_bytes}, {"limit", status.memory_limit}}},
                      {"coming", status.coming},
                      {"connections", status.connections}});
}

}  // namespace skerry
