#include "skerry/proxy/own_answer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include "skerry/proxy/stamped_run.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

// Milliseconds, so that clients that were refused together don't come back together.
int RandomPause() {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::uniform_int_distribution<int>(1000, 3000)(random);
}

ServerResponse Answer(int status, Json error, bool retry) {
  ServerResponse response{.status = status, .content_type = "application/json"};
  if (retry) {
    const int pause = RandomPause();
    error["retry_after_ms"] = pause;
    response.headers.Add("Retry-After", std::to_string((pause + 999) / 1000));
  }
  const Json body = {{"error", std::move(error)}};
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

}  // namespace

ServerResponse NotReadyAnswer(const Admission::Refused& refused, const VersionConstraint& constraint) {
  const std::string_view kind = constraint.exact ? "exact" : "min";
  const Version wanted = *constraint.wanted();
  const auto& applied = refused.applied;
  std::string message = applied ? fmt::format("the engines serve {}, not {} {}", applied->Describe(),
                                              constraint.exact ? "exactly" : "at least", wanted)
                                : fmt::format("no version is live yet; wanted is {} {}", kind, wanted);
  if (refused.leaving_for) message += fmt::format("; they are being switched to {}", refused.leaving_for->Describe());
  return Answer(409,
                {{"type", "WeightVersionNotReady"},
                 {"message", message},
                 {"run", applied ? Json(StampedRun(applied->run)) : Json()},
                 {"applied", applied && applied->version ? Json(applied->version->number()) : Json()},
                 {"wanted", wanted.number()},
                 {"constraint", kind}},
                /*retry=*/true);
}

ServerResponse ErrorAnswer(int status, std::string_view type, std::string_view message, bool retry) {
  return Answer(status, {{"type", type}, {"message", message}}, retry);
}

}  // namespace skerry
