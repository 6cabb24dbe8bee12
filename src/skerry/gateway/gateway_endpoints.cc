#include "skerry/gateway/gateway_endpoints.h"

#include <nlohmann/json.hpp>

#include "skerry/http/bearer.h"
#include "skerry/http/listen_address.h"
#include "skerry/proxy/own_answer.h"

namespace skerry {
namespace {

ServerResponse JsonAnswer(int status, const nlohmann::ordered_json& json) {
  ServerResponse response{.status = status, .content_type = "application/json"};
  response.body = json.dump() + "\n";
  return response;
}

ServerResponse NotAllowed(std::string_view allowed) {
  ServerResponse response = ErrorAnswer(405, "invalid", fmt::format("allowed here: {}", allowed), /*retry=*/false);
  response.headers.Add("Allow", std::string(allowed));
  return response;
}

// An island that does not know its address is where its report comes from.
Result<std::string> UrlOf(const std::string& url, uint16_t port, const std::string& peer) {
  if (!url.empty()) return url;
  const size_t colon = peer.rfind(':');
  return CanonicalUrl(fmt::format("http://{}:{}", peer.substr(0, colon), port));
}

int StatusOf(Code code) { return code == Code::kNoSpace ? 503 : 400; }

}  // namespace

bool GatewayEndpoints::Has(std::string_view path) {
  constexpr std::string_view kOwn = "/v1/skerry";
  if (path == "/healthz" || path == "/readyz" || path == "/metrics") return true;
  return path.substr(0, kOwn.size()) == kOwn && (path.size() == kOwn.size() || path[kOwn.size()] == '/');
}

std::optional<ServerResponse> GatewayEndpoints::Refusal(const ServerRequest& request) {
  if (token_.empty()) {
    return ErrorAnswer(403, "forbidden", "this gateway takes no registrations: it has no --token-file",
                       /*retry=*/false);
  }
  const auto token = BearerTokenOf(request.headers);
  if (token && SameSecret(*token, token_)) return std::nullopt;
  ServerResponse response =
      ErrorAnswer(401, "unauthorized", "this needs a token: Authorization: Bearer TOKEN", /*retry=*/false);
  response.headers.Add("WWW-Authenticate", "Bearer");
  return response;
}

ServerResponse GatewayEndpoints::TakeReport(const ServerRequest& request) {
  const auto taken = [&]() -> Status {
    SKERRY_ASSIGN(IslandReport report, ParseIslandReport(request.body));
    SKERRY_ASSIGN(report.url, UrlOf(report.url, report.port, request.peer));
    return gateway_.Report(std::move(report));
  }();
  if (taken) return JsonAnswer(200, {{"taken", true}});
  own_.Reported(false);
  return ErrorAnswer(StatusOf(taken.error().code), CodeName(taken.error().code), taken.error().message,
                     /*retry=*/false);
}

ServerResponse GatewayEndpoints::TakeLeave(const ServerRequest& request) {
  const auto url = [&]() -> Result<std::string> {
    const auto json = nlohmann::json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("url") && json["url"].is_string()) {
      return CanonicalUrl(json["url"].get<std::string>());
    }
    if (!json.is_object() || !json.contains("port") || !json["port"].is_number_unsigned() ||
        json["port"].get<uint64_t>() > UINT16_MAX) {
      return Fail(Code::kInvalid, "the body is {{\"url\": \"http://HOST:PORT\"}} or {{\"port\": PORT}}");
    }
    return UrlOf("", json["port"].get<uint16_t>(), request.peer);
  }();
  if (!url) return ErrorAnswer(400, CodeName(url.error().code), url.error().message, /*retry=*/false);
  gateway_.Leave(*url);
  return JsonAnswer(200, {{"left", *url}});
}

ServerResponse GatewayEndpoints::Answer(const ServerRequest& request) {
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  const std::string& path = request.path();
  if (path == "/healthz") return is_get ? ServerResponse{.body = "ok\n"} : NotAllowed("GET");
  if (path == "/readyz") {
    if (!is_get) return NotAllowed("GET");
    const std::string problem = gateway_.NotReadyBecause();
    if (problem.empty()) return JsonAnswer(200, {{"ready", true}});
    return JsonAnswer(503, {{"ready", false}, {"because", problem}});
  }
  if (path == "/metrics") {
    if (!is_get) return NotAllowed("GET");
    return {.content_type = MetricRegistry::kContentType, .body = metrics_.Text()};
  }
  if (path == "/v1/skerry/fleet") {
    if (!is_get) return NotAllowed("GET");
    return {.content_type = "application/json", .body = gateway_.Document()};
  }
  if (path == "/v1/skerry/islands" || path == "/v1/skerry/islands/leave") {
    if (request.method != "POST") return NotAllowed("POST");
    if (auto refusal = Refusal(request)) return *std::move(refusal);
    return path.ends_with("leave") ? TakeLeave(request) : TakeReport(request);
  }
  return ErrorAnswer(404, "not_found", fmt::format("nothing is at {}", path), /*retry=*/false);
}

}  // namespace skerry
