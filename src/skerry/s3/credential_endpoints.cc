#include "skerry/s3/credential_endpoints.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

#include "skerry/base/file.h"
#include "skerry/base/text.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxAnswer = 64 << 10;
constexpr std::string_view kContainerHost = "http://169.254.170.2";
constexpr std::string_view kInstanceHost = "http://169.254.169.254";

// A small answer of a service on the host; anything but 200 is an error.
Result<std::string> Ask(HttpClient& http, std::string method, std::string url, HttpHeaders headers) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.headers = std::move(headers);
  request.body_limit = kMaxAnswer;
  request.connect_timeout = std::chrono::milliseconds(1000);
  request.total_timeout = std::chrono::milliseconds(5000);
  request.no_proxy = true;
  Result<HttpResponse> response = http.Send(request);
  if (!response && response.error().code == Code::kUnavailable) response = http.Send(request);
  if (!response) return tl::unexpected<Error>(std::move(response).error());
  if (response->status != 200) {
    return Fail(Code::kUnavailable, "{} answered {}", UrlForMessages(request.url), response->status);
  }
  return ToString(response->body);
}

Result<Credentials> AskForKeys(HttpClient& http, const std::string& url, HttpHeaders headers) {
  SKERRY_ASSIGN(const std::string text, Ask(http, "GET", url, std::move(headers)));
  Result<Credentials> credentials = ParseCredentialJson(text);
  if (!credentials) return Annotate(std::move(credentials).error(), UrlForMessages(url));
  credentials->origin = UrlForMessages(url);
  return credentials;
}

// A line break at its end is no part of a token.
std::string FirstLine(std::string text) { return text.substr(0, text.find_first_of("\r\n")); }

}  // namespace

std::optional<std::chrono::system_clock::time_point> ParseIsoTime(std::string_view text) {
  std::tm utc{};
  int read = 0;
  const std::string copy(text.substr(0, 40));
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday, &utc.tm_hour,
                  &utc.tm_min, &utc.tm_sec, &read) != 6 ||
      !copy.ends_with('Z') || copy.find_first_not_of(".0123456789Z", static_cast<size_t>(read)) != std::string::npos) {
    return std::nullopt;
  }
  if (utc.tm_year < 1970 || utc.tm_year > 2200) return std::nullopt;  // beyond what a time_point holds
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return std::chrono::system_clock::from_time_t(::timegm(&utc));
}

Result<Credentials> ParseCredentialJson(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Fail(Code::kUnavailable, "the answer is no JSON object");
  const auto field = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Credentials credentials{.access_key_id = field("AccessKeyId"),
                          .secret_access_key = Secret(field("SecretAccessKey")),
                          .session_token = Secret(field("Token")),
                          .expires = ParseIsoTime(field("Expiration")),
                          .origin = {}};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    return Fail(Code::kUnavailable, "the answer has no AccessKeyId and SecretAccessKey (its code: \"{}\")",
                Printable(field("Code").substr(0, 100)));
  }
  return credentials;
}

Result<std::optional<Credentials>> FromContainer(const Environment& environment, HttpClient& http) {
  std::string url;
  if (const auto relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    url = std::string(kContainerHost) + *relative;
  } else if (const auto full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
    url = *full;
  } else {
    return std::nullopt;
  }
  HttpHeaders headers;
  if (const auto file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    SKERRY_ASSIGN(const Bytes token, ReadFile(*file, kMaxAnswer));
    headers.Add("Authorization", FirstLine(ToString(token)));
  } else if (const auto token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
    headers.Add("Authorization", *token);
  }
  SKERRY_ASSIGN(Credentials credentials, AskForKeys(http, url, std::move(headers)));
  return credentials;
}

Result<std::optional<Credentials>> FromInstance(const Environment& environment, HttpClient& http) {
  const std::string disabled = environment("AWS_EC2_METADATA_DISABLED").value_or("");
  if (disabled == "true" || disabled == "True" || disabled == "TRUE") return std::nullopt;
  std::string host = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(std::string(kInstanceHost));
  while (host.ends_with('/')) host.pop_back();
  SKERRY_ASSIGN(const std::string token,
                Ask(http, "PUT", host + "/latest/api/token", {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}));
  const HttpHeaders headers = {{"X-aws-ec2-metadata-token", FirstLine(token)}};
  const std::string folder = host + "/latest/meta-data/iam/security-credentials/";
  SKERRY_ASSIGN(const std::string roles, Ask(http, "GET", folder, headers));
  const std::string role = FirstLine(roles);
  if (role.empty()) return Fail(Code::kUnavailable, "{} names no role of this instance", folder);
  SKERRY_ASSIGN(Credentials credentials, AskForKeys(http, folder + role, headers));
  return credentials;
}

}  // namespace skerry
