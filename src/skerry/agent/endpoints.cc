#include "skerry/agent/endpoints.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "skerry/http/bearer.h"
#include "skerry/proxy/own_answer.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

ServerResponse JsonAnswer(int status, const Json& json) {
  ServerResponse response{.status = status, .content_type = "application/json"};
  response.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

ServerResponse AnswerOf(const Error& error) {
  return ErrorAnswer(error.code == Code::kInvalid       ? 400
                     : error.code == Code::kUnavailable ? 503
                                                        : 500,
                     CodeName(error.code), error.message, /*retry=*/false);
}

// The body as a JSON object that has no other fields than these; the error names what is wrong.
Result<Json> ObjectWith(const std::string& body, std::initializer_list<std::string_view> fields) {
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Fail(Code::kInvalid, "the body is not a JSON object");
  for (const auto& [name, value] : json.items()) {
    if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
      return Fail(Code::kInvalid, "unknown field \"{}\"", name);
    }
  }
  return json;
}

Json PolicyJson(const Policy& policy) { return {{"run", policy.run.str()}, {"follow", policy.Follow()}}; }

ServerResponse NotAllowed(std::string_view allowed) {
  ServerResponse response = ErrorAnswer(405, "invalid", fmt::format("allowed here: {}", allowed), /*retry=*/false);
  response.headers.Add("Allow", std::string(allowed));
  return response;
}

}  // namespace

std::optional<ServerResponse> Endpoints::Refusal(const ServerRequest& request, bool admin_only) const {
  const auto token = BearerTokenOf(request.headers);
  if (token && SameSecret(*token, tokens_.admin)) return std::nullopt;
  const bool is_user = token && SameSecret(*token, tokens_.user);
  if (is_user && !admin_only) return std::nullopt;
  if (is_user) return ErrorAnswer(403, "forbidden", "this needs the admin token", /*retry=*/false);
  ServerResponse response =
      ErrorAnswer(401, "unauthorized", "this needs a token: Authorization: Bearer TOKEN", /*retry=*/false);
  response.headers.Add("WWW-Authenticate", "Bearer");
  return response;
}

ServerResponse Endpoints::Ready() const {
  const AgentStatus status = status_.Read();
  const std::string problem = status.NotReadyBecause();
  if (!problem.empty()) return JsonAnswer(503, {{"ready", false}, {"because", problem}});
  return JsonAnswer(200, {{"ready", true}});
}

ServerResponse Endpoints::ShowPolicy() const {
  const auto policy = reconciler_.CurrentPolicy();
  return policy ? JsonAnswer(200, PolicyJson(*policy)) : AnswerOf(policy.error());
}

ServerResponse Endpoints::SetPolicy(const ServerRequest& request) {
  const auto policy = [&]() -> Result<Policy> {
    SKERRY_ASSIGN(const Json json, ObjectWith(request.body, {"run", "follow"}));
    SKERRY_ASSIGN(const Policy current, reconciler_.CurrentPolicy());
    const auto text = [&](const char* field, const std::string& otherwise) -> Result<std::string> {
      if (!json.contains(field)) return otherwise;
      if (!json[field].is_string()) return Fail(Code::kInvalid, "\"{}\" is not a string", field);
      return json[field].get<std::string>();
    };
    SKERRY_ASSIGN(const std::string name, text("run", current.run.str()));
    SKERRY_ASSIGN(const RunId run, RunId::Parse(name));
    SKERRY_ASSIGN(const std::string follow, text("follow", run == current.run ? current.Follow() : "head"));
    return Policy::Parse(run, follow);
  }();
  if (!policy) return AnswerOf(policy.error());
  if (const Status set = reconciler_.SetPolicy(*policy); !set) return AnswerOf(set.error());
  return JsonAnswer(200, PolicyJson(*policy));
}

ServerResponse Endpoints::RollBack(const ServerRequest& request) {
  const auto policy = [&]() -> Result<Policy> {
    SKERRY_ASSIGN(const Json json, ObjectWith(request.body, {"version", "steps"}));
    if (json.size() != 1 || !json.begin()->is_number_unsigned()) {
      return Fail(Code::kInvalid, "the body is {{\"version\": N}} or {{\"steps\": K}}, with a whole number");
    }
    const uint64_t number = json.begin()->get<uint64_t>();
    const std::optional<Version> present = status_.Read().checkpoint;
    if (!present) return Fail(Code::kUnavailable, "there is no checkpoint yet");
    const bool is_steps = json.contains("steps");
    if (number > present->number()) {
      return Fail(Code::kInvalid, "the checkpoint is at version {}: it can't go back {} {}", *present,
                  is_steps ? "by" : "to", number);
    }
    SKERRY_ASSIGN(Policy back, reconciler_.CurrentPolicy());
    back.behind = 0;
    back.pinned = Version(is_steps ? present->number() - number : number);
    return back;
  }();
  if (!policy) return AnswerOf(policy.error());
  if (const Status set = reconciler_.SetPolicy(*policy); !set) return AnswerOf(set.error());
  return JsonAnswer(202, PolicyJson(*policy));
}

bool Endpoints::Has(std::string_view path) {
  constexpr std::string_view kOwn = "/v1/skerry";
  if (path == "/healthz" || path == "/readyz" || path == "/metrics") return true;
  return path.substr(0, kOwn.size()) == kOwn && (path.size() == kOwn.size() || path[kOwn.size()] == '/');
}

ServerResponse Endpoints::Answer(const ServerRequest& request) {
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  const std::string& path = request.path();
  if (path == "/healthz") return is_get ? ServerResponse{.body = "ok\n"} : NotAllowed("GET");
  if (path == "/readyz") return is_get ? Ready() : NotAllowed("GET");
  if (path == "/metrics") {
    if (!is_get) return NotAllowed("GET");
    return {.content_type = MetricRegistry::kContentType, .body = metrics_.Text()};
  }
  if (path == "/v1/skerry/status") {
    if (!is_get) return NotAllowed("GET");
    return {.content_type = "application/json", .body = ToJson(status_.Read())};
  }
  if (path == "/v1/skerry/island") {
    if (!is_get) return NotAllowed("GET");
    return {.content_type = "application/json", .body = ToJson(report_())};
  }
  if (path == "/v1/skerry/wake") {
    if (request.method != "POST") return NotAllowed("POST");
    if (auto refusal = Refusal(request, /*admin_only=*/false)) return *std::move(refusal);
    reconciler_.Wake();
    return JsonAnswer(202, {{"woken", true}});
  }
  if (path == "/v1/skerry/policy") {
    if (is_get) return ShowPolicy();
    if (request.method != "PUT" && request.method != "DELETE") return NotAllowed("GET, PUT, DELETE");
    if (auto refusal = Refusal(request, /*admin_only=*/true)) return *std::move(refusal);
    if (request.method == "PUT") return SetPolicy(request);
    if (const Status reset = reconciler_.ResetPolicy(); !reset) return AnswerOf(reset.error());
    return ShowPolicy();
  }
  if (path == "/v1/skerry/rollback") {
    if (request.method != "POST") return NotAllowed("POST");
    if (auto refusal = Refusal(request, /*admin_only=*/true)) return *std::move(refusal);
    return RollBack(request);
  }
  return ErrorAnswer(404, "not_found", fmt::format("nothing is at {}", path), /*retry=*/false);
}

}  // namespace skerry
