#include "skerry/engine/control_api.h"

#include "skerry/base/text.h"

namespace skerry {
namespace {

std::string Shown(std::string_view body) {
  if (body.empty()) return "with an empty body";
  const bool cut = body.size() > ControlApi::kShownBody;
  return fmt::format("with: {}{}", Printable(body.substr(0, ControlApi::kShownBody)), cut ? " …" : "");
}

Code CodeOfStatus(int status) {
  if (status == 404 || status == 405) return Code::kUnsupported;
  if (status >= 502 && status <= 504) return Code::kUnavailable;
  return Code::kIo;
}

bool SaysFailure(const nlohmann::json& reply) { return BoolField(reply, "success") == false; }

}  // namespace

std::string TextField(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<bool> BoolField(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

ControlApi::ControlApi(std::string kind, std::string url, const EngineOptions& options)
    : url_(std::move(url)),
      name_(fmt::format("{} {}", kind, UrlForMessages(url_))),
      timeouts_(options.timeouts),
      bearer_token_(options.bearer_token) {}

tl::unexpected<Error> ControlApi::Complain(Code code, const std::string& method, const std::string& route,
                                           std::string_view what) const {
  return Fail(code, "{}: {} {}: {}", name_, method, route.empty() ? "" : route.substr(0, route.find('?')), what);
}

Result<std::string> ControlApi::Send(const std::string& method, const std::string& route, const Json& body,
                                     std::optional<Milliseconds> time, bool any_success) {
  const Milliseconds limit = time.value_or(timeouts_.control);
  HttpRequest request;
  request.method = method;
  request.url = url_ + route;
  request.body_limit = kMaxBody;
  request.connect_timeout = std::min(limit, timeouts_.control);
  request.total_timeout = limit;
  request.stall_timeout = std::chrono::ceil<std::chrono::seconds>(limit) + std::chrono::seconds(1);
  request.fresh_connection = true;
  request.no_proxy = true;
  if (!bearer_token_.empty()) request.headers.Add("Authorization", "Bearer " + bearer_token_);
  std::string text;
  if (!body.is_null()) {
    text = body.dump(-1, ' ', false, Json::error_handler_t::ignore);
    if (Json::parse(text, nullptr, false) != body) {
      return Complain(Code::kInvalid, method, route, "a name that is not UTF-8 can't be sent");
    }
    request.headers.Add("Content-Type", "application/json");
    request.body = AsBytes(text);
  }
  Result<HttpResponse> response = client_.Send(request);
  if (!response) return Complain(response.error().code, method, route, response.error().message);
  std::string reply = ToString(response->body);
  if (response->status != 200 && !(any_success && response->ok())) {
    return Complain(CodeOfStatus(response->status), method, route,
                    fmt::format("answered {} {}", response->status, Shown(reply)));
  }
  return reply;
}

Result<ControlApi::Json> ControlApi::Judge(const std::string& method, const std::string& route,
                                           Result<std::string> text) const {
  if (!text) return tl::unexpected<Error>(std::move(text).error());
  Json reply = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) {
    return Complain(Code::kIo, method, route, fmt::format("answered 200 without a JSON object, {}", Shown(*text)));
  }
  if (SaysFailure(reply)) {
    return Complain(Code::kIo, method, route, fmt::format("says that it failed, {}", Shown(*text)));
  }
  return reply;
}

Result<ControlApi::Json> ControlApi::Get(const std::string& route, std::optional<Milliseconds> time) {
  return Judge("GET", route, Send("GET", route, nullptr, time));
}

Result<ControlApi::Json> ControlApi::Post(const std::string& route, const Json& body,
                                          std::optional<Milliseconds> time) {
  return Judge("POST", route, Send("POST", route, body, time));
}

Result<std::optional<ControlApi::Json>> ControlApi::GetIfThere(const std::string& route,
                                                               std::optional<Milliseconds> time) {
  Result<Json> reply = Get(route, time);
  if (reply) return std::optional<Json>(*std::move(reply));
  if (reply.error().code == Code::kUnsupported) return std::optional<Json>();
  return tl::unexpected<Error>(std::move(reply).error());
}

Result<std::string> ControlApi::GetText(const std::string& route) { return Send("GET", route, nullptr, std::nullopt); }

Status ControlApi::PostForStatus(const std::string& route, const Json& body, std::optional<Milliseconds> time) {
  SKERRY_ASSIGN(const std::string text, Send("POST", route, body, time, /*any_success=*/true));
  if (SaysFailure(Json::parse(text, nullptr, /*allow_exceptions=*/false))) {
    return Complain(Code::kIo, "POST", route, fmt::format("says that it failed, {}", Shown(text)));
  }
  return {};
}

Result<std::string> StartTimeFromMetrics(ControlApi& api) {
  constexpr std::string_view kName = "process_start_time_seconds";
  Result<std::string> text = api.GetText("/metrics");
  // A moment's failure must not look like another engine.
  if (!text && text.error().code != Code::kUnsupported) return tl::unexpected<Error>(std::move(text).error());
  if (!text) return std::string();
  for (size_t line = 0; line < text->size();) {
    const size_t end = std::min(text->find('\n', line), text->size());
    const std::string_view entry = std::string_view(*text).substr(line, end - line);
    if (entry.starts_with(kName) && entry.size() > kName.size() &&
        (entry[kName.size()] == ' ' || entry[kName.size()] == '{')) {
      const size_t space = entry.rfind(' ');
      return Printable(entry.substr(space + 1, 40));
    }
    line = end + 1;
  }
  return std::string();
}

}  // namespace skerry
