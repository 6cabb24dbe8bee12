#include <memory>

#include "commands.h"
#include "skerry/base/log.h"
#include "skerry/gateway/run_gateway.h"
#include "skerry/http/bearer.h"

namespace skerry {
namespace {

constexpr uint64_t kMega = 1'000'000;

struct Arguments {
  std::string run, listen = "127.0.0.1:8088", region, token_file, tls_certificate, tls_key, access_log, log = "text";
  std::vector<std::string> agents;
  std::optional<uint64_t> silence = 5, forget = 30, wait = 0, max_held = 4096, max_body = 64, max_connections = 20'000,
                          island_timeout = 3600, grace = 10;
};

std::string Missing(const Arguments& args) {
  if (args.run.empty()) return "--run is required";
  if (args.agents.empty() && args.token_file.empty()) {
    return "where are the islands? give --agents, or --token-file so that they can register";
  }
  if (args.tls_certificate.empty() != args.tls_key.empty()) return "--tls-certificate and --tls-key go together";
  if (*args.forget < *args.silence) {
    return fmt::format("--forget {} is shorter than --silence {}", *args.forget, *args.silence);
  }
  return "";
}

Status Run(const Arguments& args) {
  if (args.log == "json") SetLogFormat(LogFormat::kJson);
  RunGatewayOptions options;
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  GatewayOptions& gateway = options.gateway;
  gateway.fleet.run = run.whole_name();
  gateway.fleet.region = args.region;
  gateway.fleet.silence = std::chrono::seconds(*args.silence);
  gateway.fleet.forget = std::chrono::seconds(*args.forget);
  gateway.hall.max_body = *args.max_body * kMega;
  gateway.hall.max_held = *args.max_held;
  gateway.wait = std::chrono::seconds(*args.wait);
  gateway.island_timeout = std::chrono::seconds(*args.island_timeout);
  gateway.access_log = args.access_log;
  SKERRY_ASSIGN(options.listen, ParseListenAddress(args.listen));
  SKERRY_ASSIGN(options.islands, ParseIslandSources(args.agents));
  if (!args.tls_key.empty()) options.tls = TlsFiles{args.tls_certificate, args.tls_key};
  options.max_connections = *args.max_connections;
  options.grace = std::chrono::seconds(*args.grace);
  if (!args.token_file.empty()) {
    SKERRY_ASSIGN(options.token, ReadTokenFile(args.token_file));
  }
  return RunGateway(std::move(options));
}

}  // namespace

void AddGateway(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program.Add("gateway", "One address for a fleet of islands", [args](const CommonOptions&) { return Run(*args); })
      .Option("--run", args->run, "Name of the run whose versions requests ask for")
      .Option("--listen", args->listen,
              "Address for requests, registrations, fleet document and metrics (default 127.0.0.1:8088)")
      .Option("--agents", args->agents,
              "Islands that are asked, beside those that register: http://HOST:PORT,…, a file with one a line, or "
              "dns://NAME:PORT; several times")
      .Option("--token-file", args->token_file, "File with the token by which islands register (without: none may)")
      .Option("--region", args->region, "Region whose islands are preferred")
      .Option("--silence", args->silence, "Seconds without a report after which an island gets no requests (default 5)")
      .Option("--forget", args->forget, "Seconds after which it is gone, and what it has running with it (default 30)")
      .Option("--wait", args->wait,
              "Seconds that a request which names no time of its own is held until an island serves its version "
              "(default 0)")
      .Option("--max-held", args->max_held, "Requests that may be held at once (default 4096)")
      .Option("--max-body", args->max_body, "MB that the body of a request may have (default 64)")
      .Option("--tls-certificate", args->tls_certificate,
              "PEM file with the gateway's certificate and those that lead to an authority: it speaks HTTPS")
      .Option("--tls-key", args->tls_key, "PEM file with its key; both are read again when they change")
      .Option("--max-connections", args->max_connections, "Connections of clients (default 20000)")
      .Option("--island-timeout", args->island_timeout,
              "Seconds that an island may send nothing of an answer (default 3600)")
      .Option("--grace", args->grace, "Seconds that running requests get when the gateway is stopped (default 10)")
      .Option("--access-log", args->access_log, "File for a line of JSON about each request")
      .Choice("--log", args->log, {"text", "json"}, "Form of the log on standard error")
      .Check([args] { return Missing(*args); })
      .Example(
          "skerry gateway --run grpo-1 --listen 0.0.0.0:8088 --token-file /etc/skerry/fleet-token --region eu-west");
}

}  // namespace skerry
