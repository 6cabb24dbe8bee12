// Speaking to a running agent.
#ifndef SKERRY_APPS_SKERRY_AGENT_CLIENT_H_
#define SKERRY_APPS_SKERRY_AGENT_CLIENT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "command_line.h"
#include "skerry/base/result.h"

namespace skerry {

// Which agent is meant: the one of a state directory on this host, which is found with its token, or one at a URL.
struct AgentAddress {
  std::string state;
  std::string name = "agent";
  std::string url;
  std::string token_file;

  // Adds --state, --name, --agent and --token-file.
  void Describe(Command& command);
  bool given() const { return !state.empty() || !url.empty(); }
  // What is wrong with it, or "".
  std::string Problem() const;
};

// The JSON that it answers. An answer that is no success is an error with its message: kInvalid for 4xx, kUnavailable
// for 503 and where nobody answers.
Result<nlohmann::ordered_json> AskAgent(const AgentAddress& address, const std::string& method, const std::string& path,
                                        const nlohmann::ordered_json& body = nullptr);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_AGENT_CLIENT_H_
