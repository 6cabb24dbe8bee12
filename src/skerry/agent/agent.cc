#include "skerry/agent/agent.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "skerry/agent/instance_lock.h"
#include "skerry/agent/scrub_loop.h"
#include "skerry/base/log.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGraceOfRequests{2'000};
constexpr uint64_t kMaxContactBytes = 64 << 10;

Path ContactPath(const StateDirectory& state, const std::string& name) { return state.Agent(name) / "contact.json"; }

// The token that an earlier agent of this name made, so that who has it can go on.
std::string AdminToken(const StateDirectory& state, const std::string& name) {
  const auto contact = ReadContact(state, name);
  return contact && !contact->admin_token.empty() ? contact->admin_token : RandomToken();
}

Status WriteContact(const StateDirectory& state, const std::string& name, const AgentContact& contact) {
  const Path path = ContactPath(state, name);
  const nlohmann::ordered_json json = {{"url", contact.url}, {"admin_token", contact.admin_token}};
  const std::string text = json.dump(2) + "\n";
  // Made with its mode before the secret is in it.
  SKERRY_TRY(RemoveTree(path));
  SKERRY_ASSIGN(File file, File::CreateNew(path, 0600));
  SKERRY_TRY(file.Append(AsBytes(text)));
  return file.Sync();
}

// Signals that end the agent, taken by sigwait on the main thread: blocked in all threads from the beginning.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~EndSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  void Wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
    LogInfo("{}: stopping", signal == SIGTERM ? "SIGTERM" : "SIGINT");
  }

 private:
  sigset_t signals_{}, before_{};
};

Result<std::vector<std::unique_ptr<Engine>>> MakeEngines(const AgentOptions& options) {
  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t i = 0; i < options.engines.size(); ++i) {
    const auto before = options.engines.begin() + static_cast<ptrdiff_t>(i);
    SKERRY_ASSIGN(auto engine, MakeEngine(*before, options.engine));
    if (std::find(options.engines.begin(), before, *before) != before) {
      return Fail(Code::kInvalid, "{} is named twice", engine->Describe());
    }
    engines.push_back(std::move(engine));
  }
  return engines;
}

// Waits until the loop is where it may be left: at its end, or in a stage, which may be left anywhere.
bool WaitForTheLoop(std::future<void>& loop, const SharedStatus& status) {
  while (loop.wait_for(milliseconds(20)) != std::future_status::ready) {
    if (status.Read().phase == Phase::kStaging) return false;
  }
  return true;
}

}  // namespace

Result<AgentContact> ReadContact(const StateDirectory& state, const std::string& name) {
  const Path path = ContactPath(state, name);
  const auto bytes = ReadFile(path, kMaxContactBytes);
  if (!bytes) {
    return Fail(Code::kUnavailable, "no agent named {} has run for {}: {}", name, state.root.string(),
                bytes.error().message);
  }
  const auto json = nlohmann::json::parse(AsText(*bytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("url") || !json["url"].is_string() || !json.contains("admin_token") ||
      !json["admin_token"].is_string()) {
    return Fail(Code::kCorrupt, "{} is not what an agent writes", path.string());
  }
  return AgentContact{json["url"], json["admin_token"]};
}

Status RunAgent(AgentOptions options, const Reconciler::OpenBoard& open_board) {
  const StateDirectory& state = options.reconciler.state;
  const std::string name = options.reconciler.name;
  const EndSignals signals;
  SKERRY_ASSIGN(const InstanceLock instance, InstanceLock::Take(state.Agent(name)));
  SKERRY_ASSIGN(auto engines, MakeEngines(options));
  // What can't become right by waiting is told now.
  if (const auto board = open_board(); !board && board.error().code == Code::kInvalid) {
    return tl::unexpected<Error>(board.error());
  }
  if (options.tokens.admin.empty()) options.tokens.admin = AdminToken(state, name);

  MetricRegistry registry;
  AgentMetrics metrics(registry, options.version);
  SharedStatus status;
  Island island(std::move(engines), options.island, state.Agent(name));
  Reconciler reconciler(options.reconciler, open_board, island, status, metrics);
  Endpoints endpoints(options.tokens, reconciler, status, registry);
  SKERRY_ASSIGN(const auto server, WebServer::Listen({.address = options.listen}, [&](const ServerRequest& request) {
                  return endpoints.Answer(request);
                }));
  SKERRY_TRY(WriteContact(state, name, {server->url(), options.tokens.admin}));
  LogInfo("agent {} listens on {} for run {} with {} engines", name, server->url(), options.reconciler.policy.run,
          options.engines.size());

  std::optional<ScrubLoop> scrub;
  if (options.scrub_bytes_per_second > 0) {
    scrub.emplace(state, options.scrub_bytes_per_second, reconciler, status, metrics);
  }
  auto loop = std::async(std::launch::async, [&] { reconciler.Run(); });
  signals.Wait();

  status.Change([](AgentStatus& now) { now.stopping = true; });
  reconciler.Stop();
  scrub.reset();
  (void)server->Stop(kGraceOfRequests);
  if (!WaitForTheLoop(loop, status)) {
    LogInfo("left a stage where it was: the next agent finishes it or begins it again");
    std::_Exit(0);
  }
  LogInfo("stopped");
  return {};
}

}  // namespace skerry
