#include "agent_client.h"

#include "skerry/agent/agent.h"
#include "skerry/http/bearer.h"
#include "skerry/http/client.h"

namespace skerry {
namespace {

constexpr std::chrono::milliseconds kAnswerWithin{30'000};

Result<AgentContact> Contact(const AgentAddress& address) {
  AgentContact contact;
  if (!address.state.empty()) {
    SKERRY_ASSIGN(contact, ReadContact(StateDirectory{address.state}, address.name));
  }
  if (!address.url.empty()) contact.url = address.url;
  if (!address.token_file.empty()) {
    SKERRY_ASSIGN(contact.admin_token, ReadTokenFile(address.token_file));
  }
  while (contact.url.ends_with('/')) contact.url.pop_back();
  return contact;
}

}  // namespace

void AgentAddress::Describe(Command& command) {
  command.Option("--state", state, "State directory of an agent on this host")
      .Option("--name", name, "The agent's name, where several share the state directory (default: agent)")
      .Option("--agent", url, "URL of an agent elsewhere, http://HOST:PORT")
      .Option("--token-file", token_file, "File with a token for it (default: what the state directory says)");
}

std::string AgentAddress::Problem() const {
  return given() ? "" : "which agent? give its --state directory or its address as --agent http://HOST:PORT";
}

Result<nlohmann::ordered_json> AskAgent(const AgentAddress& address, const std::string& method, const std::string& path,
                                        const nlohmann::ordered_json& body) {
  SKERRY_ASSIGN(const AgentContact contact, Contact(address));
  HttpRequest request{.method = method, .url = contact.url + path};
  request.total_timeout = kAnswerWithin;
  if (!contact.admin_token.empty()) request.headers.Add("Authorization", "Bearer " + contact.admin_token);
  std::string text;
  if (!body.is_null()) {
    text = body.dump();
    request.headers.Add("Content-Type", "application/json");
    request.body = AsBytes(text);
  }
  HttpClient client;
  auto answer = client.Send(request);
  if (!answer) return Annotate(std::move(answer).error(), "no agent answers");
  const auto json = nlohmann::ordered_json::parse(AsText(answer->body), nullptr, /*allow_exceptions=*/false);
  if (answer->ok() && json.is_object()) return json;
  std::string message = fmt::format("HTTP status {}", answer->status);
  if (json.is_object() && json.contains("error") && json["error"].is_object() && json["error"].contains("message") &&
      json["error"]["message"].is_string()) {
    message = json["error"]["message"].get<std::string>();
  }
  return Fail(answer->status == 503 ? Code::kUnavailable : Code::kInvalid, "{}{}: {}", UrlForMessages(contact.url),
              path, message);
}

}  // namespace skerry
