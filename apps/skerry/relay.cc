#include "skerry/relay/relay.h"

#include <charconv>

#include "commands.h"
#include "skerry/base/log.h"
#include "skerry/board/store_url.h"
#include "skerry/http/bearer.h"
#include "version.h"

namespace skerry {
namespace {

struct Arguments {
  std::vector<std::string> boards;
  std::string listen = "127.0.0.1:8090", cache, cache_size = "100GiB", memory = "512MiB", token_file, tls_certificate,
              tls_key, log = "text";
  std::optional<uint64_t> head_fresh = 1000, parallel = 8, max_connections = 20'000, grace = 10;
};

// "100GiB", "500MB", "1000000": at least 1.
std::optional<uint64_t> ParseSize(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  constexpr std::string_view kUnits = "KMGT";
  uint64_t factor = 1;
  if (!unit.empty() && unit != "B") {
    const size_t power = kUnits.find(unit.front());
    if (power == std::string_view::npos) return std::nullopt;
    unit.remove_prefix(1);
    if (unit != "B" && unit != "iB") return std::nullopt;
    for (size_t i = 0; i <= power; ++i) factor *= unit == "iB" ? 1024 : 1000;
  }
  if (number == 0 || number > UINT64_MAX / factor) return std::nullopt;
  return number * factor;
}

std::string Problem(const Arguments& args) {
  if (args.boards.empty()) return "--board is required";
  if (args.cache.empty()) return "--cache is required";
  for (const auto& [name, text] : {std::pair("--cache-size", args.cache_size), std::pair("--memory", args.memory)}) {
    if (!ParseSize(text)) return fmt::format("{}: \"{}\" is no size such as 100GiB, 500MB", name, text);
  }
  if (args.tls_certificate.empty() != args.tls_key.empty()) return "--tls-certificate and --tls-key go together";
  if (*args.parallel == 0 || *args.parallel > 64) return fmt::format("--parallel {}: from 1 to 64", *args.parallel);
  if (*args.head_fresh == 0) return "--head-fresh 0: at least 1";
  return "";
}

Status Run(const Arguments& args, const CommonOptions&) {
  if (args.log == "json") SetLogFormat(LogFormat::kJson);
  RelayOptions options;
  options.version = kProgramVersion;
  SKERRY_ASSIGN(options.listen, ParseListenAddress(args.listen));
  // Who waits behind a relay tries again by itself, and another upstream may be quicker than another attempt.
  RetryPolicy retry;
  retry.max_attempts = args.boards.size() > 1 ? 2 : 3;
  retry.cap = std::chrono::milliseconds(1'000);
  for (const std::string& board : args.boards) {
    SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(board, /*create=*/false, retry));
    options.upstreams.push_back(std::move(store));
  }
  if (!args.tls_key.empty()) options.tls = TlsFiles{args.tls_certificate, args.tls_key};
  options.cache = std::filesystem::absolute(args.cache).lexically_normal();
  options.cache_bytes = *ParseSize(args.cache_size);
  options.memory_bytes = *ParseSize(args.memory);
  options.head_fresh = std::chrono::milliseconds(*args.head_fresh);
  options.fetch_threads = static_cast<int>(*args.parallel);
  options.max_connections = *args.max_connections;
  options.grace = std::chrono::seconds(*args.grace);
  if (!args.token_file.empty()) {
    SKERRY_ASSIGN(options.token, ReadTokenFile(args.token_file));
  }
  return RunRelay(std::move(options));
}

}  // namespace

void AddRelay(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("relay", "Serve a board to a region: each object is fetched once",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Option("--board", args->boards,
              fmt::format("{}; several are places of one board, in the order of preference", kBoardHelp))
      .Option("--listen", args->listen, "Address (default 127.0.0.1:8090)")
      .Option("--cache", args->cache, "Directory for objects; made if missing")
      .Option("--cache-size", args->cache_size, "What they may take (default 100GiB); the way to the head stays")
      .Option("--memory", args->memory,
              "Memory for objects that the disk has no room for (default 512MiB); they are served and not kept")
      .Option("--head-fresh", args->head_fresh,
              "Milliseconds for which a head is given without asking, where the upstream does not tell by itself "
              "(default 1000)")
      .Option("--parallel", args->parallel, "Ranges of 4 MiB that are fetched at once (default 8)")
      .Option("--token-file", args->token_file, "File with the token that readers must have (default: none)")
      .Option("--tls-certificate", args->tls_certificate,
              "PEM file with the relay's certificate and those that lead to an authority: it speaks HTTPS")
      .Option("--tls-key", args->tls_key, "PEM file with its key; both are read again when they change")
      .Option("--max-connections", args->max_connections, "Connections of clients (default 20000)")
      .Option("--grace", args->grace, "Seconds that running requests get when the relay is stopped (default 10)")
      .Choice("--log", args->log, {"text", "json"}, "Form of the log on standard error")
      .Check([args] { return Problem(*args); })
      .Example(
          "skerry relay --board s3://rl-runs/board?region=eu-west-1 --listen 0.0.0.0:8090 --cache /var/cache/skerry");
}

}  // namespace skerry
