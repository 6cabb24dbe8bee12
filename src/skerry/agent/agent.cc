#include "skerry/agent/agent.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "skerry/agent/head_watch.h"
#include "skerry/agent/instance_lock.h"
#include "skerry/agent/scrub_loop.h"
#include "skerry/base/end_signals.h"
#include "skerry/base/log.h"
#include "skerry/http/connection_limit.h"
#include "skerry/metrics/proxy_metrics.h"
#include "skerry/proxy/proxy.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;

// Of a client that takes nothing of its answer.
constexpr milliseconds kClientPatience{60'000};
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

Result<std::vector<std::unique_ptr<Engine>>> MakeEngines(const AgentOptions& options) {
  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t i = 0; i < options.engines.size(); ++i) {
    const auto before = options.engines.begin() + static_cast<ptrdiff_t>(i);
    SKERRY_ASSIGN(auto engine, MakeEngine(*before, options.engine));
    const auto same = [&](const std::string& other) { return EngineIdentity(other) == EngineIdentity(*before); };
    if (std::find_if(options.engines.begin(), before, same) != before) {
      return Fail(Code::kInvalid, "{} is named twice", engine->Describe());
    }
    engines.push_back(std::move(engine));
  }
  return engines;
}

// Where each engine's requests go.
Result<std::vector<ProxyEngine>> ProxyEngines(const AgentOptions& options,
                                              const std::vector<std::unique_ptr<Engine>>& engines) {
  std::vector<ProxyEngine> all;
  auto upstream = options.upstreams.begin();
  for (size_t i = 0; i < engines.size(); ++i) {
    const std::string& specification = options.engines[i];
    const size_t mark = std::min(specification.find('='), specification.size());
    ProxyEngine engine{.name = engines[i]->Describe(), .kind = specification.substr(0, mark), .address = {}};
    const bool has_own = engine.kind == "vllm" || engine.kind == "sglang";
    if (has_own) {
      auto address = ParseUpstreamUrl(specification.substr(mark + 1));
      if (address) {
        engine.address = *std::move(address);
      } else {
        LogWarning("no request is forwarded to {}: {}", engine.name, address.error().message);
      }
    } else if (upstream != options.upstreams.end()) {
      SKERRY_ASSIGN(engine.address, ParseUpstreamUrl(*upstream++));
    }
    if (engine.address) engine.address->silence_timeout = options.engine_timeout;
    all.push_back(std::move(engine));
  }
  if (upstream == options.upstreams.end()) return all;
  return Fail(Code::kInvalid, "--upstream {} belongs to no engine: only none, exec and webhook take one", *upstream);
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
  ProxyMetrics proxy_metrics(registry);
  SharedStatus status;
  EventLoop event_loop;
  std::function<void()> wake;             // once there is something to wake
  std::function<void()> changed = [] {};  // of what the proxy takes; to be told to gateways, once that is done
  ProxyOptions proxy_options{.namespaces = options.namespaces,
                             .max_body = options.max_body,
                             .wake = [&wake] { wake(); },
                             .changed = [&changed] { changed(); },
                             .access_log = options.access_log};
  SKERRY_ASSIGN(proxy_options.engines, ProxyEngines(options, engines));
  SKERRY_ASSIGN(const auto proxy, Proxy::Make(event_loop, std::move(proxy_options), proxy_metrics));
  Island island(std::move(engines), options.island, state.Agent(name), proxy->forwards() ? proxy.get() : nullptr);
  Reconciler reconciler(options.reconciler, open_board, island, status, metrics);
  wake = [&reconciler] { reconciler.Wake(); };
  Endpoints endpoints(options.tokens, reconciler, status, registry);
  ListenAddress listen = options.listen;
  const std::string instance_id = RandomToken();
  const auto report = [&] { return ReportOf(options.identity, instance_id, listen, status.Read(), proxy->Load()); };
  endpoints.ShowIsland(report);
  WebServerOptions web{.address = options.listen, .loop = &event_loop, .write_timeout = kClientPatience};
  web.max_connections = ConnectionLimit(options.max_connections);
  web.on_connections = [&](size_t open) { proxy_metrics.ShowConnections(open); };
  if (proxy->forwards()) {
    web.begin_exchange = [&](ServerRequest& head, const RequestFraming& framing, ClientPort& port, uint64_t& max_body) {
      return Endpoints::Has(head.path()) ? nullptr : proxy->Begin(head, framing, port, max_body);
    };
  }
  SKERRY_ASSIGN(const auto server, WebServer::Listen(std::move(web), [&](const ServerRequest& request) {
                  return endpoints.Answer(request);
                }));
  listen = server->address();
  SKERRY_TRY(WriteContact(state, name, {server->url(), options.tokens.admin}));
  LogInfo("agent {} listens on {} for run {} with {} engines", name, server->url(), options.reconciler.policy.run,
          options.engines.size());

  std::optional<ScrubLoop> scrub;
  if (options.scrub_bytes_per_second > 0) {
    scrub.emplace(state, options.scrub_bytes_per_second, reconciler, status, metrics);
  }
  Registration registration(options.registration, report);
  event_loop.Do([&] { changed = [&registration] { registration.Changed(); }; });
  std::optional<HeadWatch> watch;
  watch.emplace(open_board, reconciler);
  auto loop = std::async(std::launch::async, [&] { reconciler.Run(); });
  signals.Wait();

  status.Change([](AgentStatus& now) { now.stopping = true; });
  registration.Tell();
  reconciler.Stop();
  watch.reset();
  scrub.reset();
  proxy->Stop();
  (void)server->Stop(options.grace);
  event_loop.Do([&] { changed = [] {}; });
  registration.Leave();
  if (!WaitForTheLoop(loop, status)) {
    LogInfo("left a stage where it was: the next agent finishes it or begins it again");
    std::_Exit(0);
  }
  LogInfo("stopped");
  return {};
}

}  // namespace skerry
