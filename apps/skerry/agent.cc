#include "skerry/agent/agent.h"

#include "agent_client.h"
#include "commands.h"
#include "open_board.h"
#include "skerry/base/log.h"
#include "skerry/http/bearer.h"
#include "terminal.h"
#include "version.h"
#include "views.h"

namespace skerry {
namespace {

constexpr uint64_t kMega = 1'000'000;

struct Arguments {
  std::string board, run, view, state, base;
  std::string follow = "head", name = "agent", listen = "127.0.0.1:8089", pause = "in-place", kv = "flush",
              log = "text";
  std::string admin_token_file, user_token_file, engine_token_file, access_log;
  std::string advertise, region, gateway_token_file, gateway_ca;
  std::vector<std::string> engines, upstreams, trust_keys, gateways;
  std::optional<uint64_t> poll = 1000, undo = 8, cache = 1000, stage_rate = 0, scrub_rate = 20, load_timeout = 600,
                          drain_timeout = 60, max_body = 64, max_connections = 20'000, engine_timeout = 3600,
                          grace = 10, capacity = 0;
};

std::string Missing(const Arguments& args) {
  if (args.board.empty()) return "--board is required";
  if (args.run.empty()) return "--run is required";
  if (args.state.empty()) return "--state is required";
  if (!args.gateways.empty() && args.gateway_token_file.empty()) return "--gateway needs --gateway-token-file";
  return "";
}

PausePolicy PausePolicyOf(const std::string& name) {
  if (name == "drain") return PausePolicy::kDrain;
  return name == "abort" ? PausePolicy::kAbort : PausePolicy::kInPlace;
}

Status Run(const Arguments& args, const CommonOptions& common) {
  if (args.log == "json") SetLogFormat(LogFormat::kJson);
  AgentOptions options;
  options.version = kProgramVersion;
  SKERRY_ASSIGN(const RunId run, RunOf(args.run, args.view));
  SKERRY_ASSIGN(options.reconciler.policy, Policy::Parse(run, args.follow));
  SKERRY_ASSIGN(options.listen, ParseListenAddress(args.listen));
  options.reconciler.state.root = std::filesystem::absolute(args.state).lexically_normal();
  options.reconciler.name = args.name;
  options.reconciler.base = args.base;
  options.reconciler.poll = std::chrono::milliseconds(*args.poll);
  options.reconciler.stage_bytes_per_second = *args.stage_rate * kMega;
  CatchUpOptions& stage = options.reconciler.stage;
  stage.threads = common.threads;
  stage.canonical.undo.versions = *args.undo;
  // What is not on the board yet is looked for again at the next pass; until then the status says what is missing.
  stage.patience.limit = std::chrono::seconds(10);
  // Engines are switched within it, else it is tried again at the next pass.
  stage.canonical.content_patience = std::chrono::seconds(30);
  stage.cache = {.bytes = *args.cache * kMega, .directory = options.reconciler.state.Objects()};
  options.engines = args.engines.empty() ? std::vector<std::string>{"none"} : args.engines;
  options.engine.timeouts.load = std::chrono::seconds(*args.load_timeout);
  options.engine.timeouts.drain = std::chrono::seconds(*args.drain_timeout);
  options.island.pause = PausePolicyOf(args.pause);
  options.island.drain = options.engine.timeouts.drain;
  options.island.cache = args.kv == "flush" ? CachePolicy::kFlush : CachePolicy::kKeep;
  options.namespaces = args.kv == "namespace";
  options.upstreams = args.upstreams;
  options.max_body = *args.max_body * kMega;
  options.max_connections = *args.max_connections;
  options.engine_timeout = std::chrono::seconds(*args.engine_timeout);
  options.grace = std::chrono::seconds(*args.grace);
  options.access_log = args.access_log;
  options.scrub_bytes_per_second = *args.scrub_rate * kMega;
  if (!args.advertise.empty()) {
    SKERRY_ASSIGN(options.identity.advertised, CanonicalUrl(args.advertise));
  }
  options.identity.region = args.region;
  options.identity.capacity = *args.capacity;
  options.registration.gateways = args.gateways;
  options.registration.ca_file = args.gateway_ca;
  if (!args.gateway_token_file.empty()) {
    SKERRY_ASSIGN(options.registration.token, ReadTokenFile(args.gateway_token_file));
  }
  if (!args.admin_token_file.empty()) {
    SKERRY_ASSIGN(options.tokens.admin, ReadTokenFile(args.admin_token_file));
  }
  if (!args.user_token_file.empty()) {
    SKERRY_ASSIGN(options.tokens.user, ReadTokenFile(args.user_token_file));
  }
  if (!args.engine_token_file.empty()) {
    SKERRY_ASSIGN(options.engine.bearer_token, ReadTokenFile(args.engine_token_file));
  }
  return RunAgent(std::move(options), [&args] { return OpenBoard(args.board, args.trust_keys); });
}

// Commands to a running agent.
struct Order {
  AgentAddress address;
  std::optional<uint64_t> version, steps;
  std::string follow, run;
  bool reset = false;
};

void Report(const CommonOptions& common, const nlohmann::ordered_json& answer, const std::string& text) {
  if (common.json) {
    PrintJson(answer);
  } else {
    fmt::print("{}\n", text);
  }
}

Status RollBack(const Order& order, const CommonOptions& common) {
  const nlohmann::ordered_json body = order.version ? nlohmann::ordered_json{{"version", *order.version}}
                                                    : nlohmann::ordered_json{{"steps", order.steps.value_or(1)}};
  SKERRY_ASSIGN(const auto answer, AskAgent(order.address, "POST", "/v1/skerry/rollback", body));
  Report(common, answer,
         fmt::format("going back to version {} of run {}, and staying there until `skerry agent follow` says otherwise",
                     answer.value("follow", ""), answer.value("run", "")));
  return {};
}

Status Follow(const Order& order, const CommonOptions& common) {
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  if (!order.follow.empty()) body["follow"] = order.follow;
  if (!order.run.empty()) body["run"] = order.run;
  SKERRY_ASSIGN(const auto answer, order.reset ? AskAgent(order.address, "DELETE", "/v1/skerry/policy")
                                               : AskAgent(order.address, "PUT", "/v1/skerry/policy", body));
  Report(common, answer, fmt::format("following {} of run {}", answer.value("follow", ""), answer.value("run", "")));
  return {};
}

Status Wake(const Order& order, const CommonOptions& common) {
  SKERRY_ASSIGN(const auto answer, AskAgent(order.address, "POST", "/v1/skerry/wake"));
  Report(common, answer, "woken");
  return {};
}

Command AddOrder(CommandLine& program, const std::string& name, const std::string& summary,
                 const std::shared_ptr<Order>& order, Status (*run)(const Order&, const CommonOptions&)) {
  Command command =
      program.Add(name, summary, [order, run](const CommonOptions& common) { return run(*order, common); });
  order->address.Describe(command);
  return command;
}

void AddOrders(CommandLine& program) {
  const auto back = std::make_shared<Order>();
  AddOrder(program, "agent rollback", "Take an island back to an older version and keep it there", back, RollBack)
      .Option("--to", back->version, "Version")
      .Option("--steps", back->steps, "How many versions back (default 1)")
      .Check([back] {
        if (back->version && back->steps) return std::string("--to and --steps exclude each other");
        return back->address.Problem();
      })
      .Example("skerry agent rollback --state /var/lib/skerry --to 41");
  const auto follow = std::make_shared<Order>();
  AddOrder(program, "agent follow", "Tell an island what to follow, until it is told otherwise", follow, Follow)
      .OptionalPositional("WHAT", follow->follow, "head, head~K (at most K behind) or a version")
      .Option("--run", follow->run, "Another run of the board")
      .Flag("--reset", follow->reset, "Back to what the agent's command line says")
      .Check([follow] {
        if (follow->reset == (!follow->follow.empty() || !follow->run.empty())) {
          return std::string("say what to follow, another --run, or --reset");
        }
        return follow->address.Problem();
      })
      .Example("skerry agent follow head --state /var/lib/skerry");
  const auto wake = std::make_shared<Order>();
  AddOrder(program, "agent wake", "Tell an agent that the board has news", wake, Wake)
      .Check([wake] { return wake->address.Problem(); })
      .Example("skerry agent wake --state /var/lib/skerry");
}

}  // namespace

void AddAgent(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("agent", "Keep the engines of an island at the versions of a run",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Option("--board", args->board, kBoardHelp)
      .Option("--run", args->run, "Name of the run")
      .Option("--view", args->view, kViewHelp)
      .Option("--state", args->state,
              "State directory on tmpfs or NVMe: checkpoint/ for the engines, and what the agent must remember")
      .Option("--engine", args->engines,
              "vllm=URL, sglang=URL, exec=COMMAND, webhook=URL or none (default); several are switched together")
      .Option("--follow", args->follow, "head (default), head~K (at most K versions behind) or a version")
      .Option("--listen", args->listen,
              "Address for requests, which are forwarded to the engines, status, metrics and orders (default "
              "127.0.0.1:8089)")
      .Option("--upstream", args->upstreams,
              "http://HOST:PORT where the requests for an engine of kind none, exec or webhook go, in their order")
      .Option("--name", args->name, "Name among the agents that share a state directory (default: agent)")
      .Option("--base", args->base, "Checkpoint on this disk that is version 0: spares fetching it")
      .Choice("--pause", args->pause, {"in-place", "drain", "abort"}, "What becomes of running requests at a switch")
      .Choice("--kv", args->kv, {"flush", "namespace", "keep"},
              "What becomes of caches that older weights filled: flush at each switch (default), namespace: divided by "
              "version, for engines that are reached through the agent only")
      .Option("--poll", args->poll, "Milliseconds between looks at the board (default 1000)")
      .Option("--keep-undo", args->undo, "Versions to be able to go back without the board (default 8)")
      .Option("--cache", args->cache, "MB of fetched patches to keep (default 1000)")
      .Option("--stage-rate", args->stage_rate, "MB of the model a second while staging (default 0: no limit)")
      .Option("--scrub-rate", args->scrub_rate, "MB a second to re-read and verify (default 20; 0: never)")
      .Option("--load-timeout", args->load_timeout, "Seconds that an engine may take to load (default 600)")
      .Option("--drain-timeout", args->drain_timeout,
              "Seconds that a switch waits for requests that are pinned to a version, with --pause drain for all "
              "(default 60)")
      .Option("--admin-token-file", args->admin_token_file,
              "File with the token for orders (default: one is made, in the state directory)")
      .Option("--user-token-file", args->user_token_file, "File with a token that may only wake the agent")
      .Option("--engine-token-file", args->engine_token_file, "File with the token that the engines want")
      .Option("--max-body", args->max_body, "MB that the body of a request may have (default 64)")
      .Option("--max-connections", args->max_connections, "Connections of clients (default 20000)")
      .Option("--engine-timeout", args->engine_timeout,
              "Seconds that an engine may send nothing of an answer (default 3600)")
      .Option("--grace", args->grace, "Seconds that running requests get when the agent is stopped (default 10)")
      .Option("--access-log", args->access_log, "File for a line of JSON about each request")
      .Option("--gateway", args->gateways, "http(s)://HOST:PORT of a gateway to be registered at; several times")
      .Option("--gateway-token-file", args->gateway_token_file, "File with the token that gateways want")
      .Option("--gateway-ca", args->gateway_ca,
              "PEM file with the authorities to trust for gateways (default: the system's)")
      .Option(
          "--advertise", args->advertise,
          "http://HOST:PORT where gateways reach this agent (default: --listen; where that is all addresses, the one "
          "that its reports come from)")
      .Option("--region", args->region, "Where the island is, for gateways that prefer their own region")
      .Option("--capacity", args->capacity,
              "Requests that the island can run at once, for gateways (default: 256 for each engine)")
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Choice("--log", args->log, {"text", "json"}, "Form of the log on standard error")
      .Check([args] { return Missing(*args); })
      .Example(
          "skerry agent --board s3://rl-runs/board --run grpo-1 --state /dev/shm/skerry --engine "
          "vllm=http://127.0.0.1:8000");
  AddOrders(program);
}

}  // namespace skerry
