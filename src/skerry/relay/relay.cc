#include "skerry/relay/relay.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "skerry/base/end_signals.h"
#include "skerry/base/log.h"
#include "skerry/base/text.h"
#include "skerry/board/keys.h"
#include "skerry/http/bearer.h"
#include "skerry/http/connection_limit.h"
#include "skerry/relay/answers.h"
#include "skerry/relay/relay_status.h"
#include "skerry/relay/route_keys.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;

// Of a client that takes nothing of its answer.
constexpr milliseconds kClientPatience{60'000};
constexpr milliseconds kShowEvery{1'000};
// Views whose manifests nobody has asked for within this time are not kept ready.
constexpr std::chrono::seconds kViewsAskedFor{3'600};

bool IsOwn(std::string_view path) {
  return path == "/healthz" || path == "/readyz" || path == "/metrics" || path.starts_with("/v1/skerry/");
}

// An answer that is known at once.
class RefusedAnswer : public KeyAnswer {
 public:
  RefusedAnswer(RelayParts& parts, ServerRequest request, const RequestFraming& framing, ClientPort& port, int status,
                std::string why)
      : KeyAnswer(parts, std::move(request), framing, port), status_(status), why_(std::move(why)) {}
  void Start() override { Refuse(status_, why_); }

 private:
  const int status_;
  const std::string why_;
};

}  // namespace

class Relay::Core {
 public:
  explicit Core(RelayOptions options) : options_(std::move(options)), metrics_(registry_, options_.version) {}

  Status Start();
  void Stop();
  std::string url() const { return server_->url(); }

 private:
  std::shared_ptr<Exchange> Begin(ServerRequest& head, const RequestFraming& framing, ClientPort& port);
  ServerResponse AnswerOwn(const ServerRequest& request);
  void OnMove(const Head& head);
  void PinRoutes();
  void AskForBoard();
  void Show();

  const RelayOptions options_;
  MetricRegistry registry_;
  RelayMetrics metrics_;
  EventLoop loop_;
  std::optional<Upstreams> upstreams_;
  std::unique_ptr<DiskCache> disk_;
  std::optional<Library> library_;
  std::optional<Heads> heads_;
  std::optional<RelayParts> parts_;
  std::unique_ptr<WebServer> server_;
  std::shared_ptr<void> showing_;
  const std::string started_ = FormatTime(Clock::System().Now());
  std::atomic<bool> board_seen_ = false, asking_for_board_ = false, stopped_ = false;

  std::mutex mutex_;
  std::map<RunId, Head> heads_of_runs_;  // guarded by mutex_, like all below
  bool pinning_ = false, pin_again_ = false;
};

Status Relay::Core::Start() {
  SKERRY_ASSIGN(disk_, DiskCache::Open(options_.cache, options_.cache_bytes));
  upstreams_.emplace(options_.upstreams, metrics_);
  library_.emplace(loop_, *upstreams_, *disk_, metrics_,
                   LibraryOptions{.memory = options_.memory_bytes, .fetch_threads = options_.fetch_threads});
  heads_.emplace(*upstreams_, metrics_,
                 HeadsOptions{.directory = options_.cache / "heads",
                              .fresh = options_.head_fresh,
                              .on_move = [this](const Head& head) { OnMove(head); }});
  parts_.emplace(RelayParts{loop_, *library_, *heads_, metrics_});
  WebServerOptions web{
      .address = options_.listen, .tls = options_.tls, .loop = &loop_, .write_timeout = kClientPatience};
  web.max_connections = ConnectionLimit(options_.max_connections);
  web.on_connections = [this](size_t open) { metrics_.ShowConnections(open); };
  web.begin_exchange = [this](ServerRequest& head, const RequestFraming& framing, ClientPort& port, uint64_t&) {
    return IsOwn(head.path()) ? nullptr : Begin(head, framing, port);
  };
  SKERRY_ASSIGN(server_,
                WebServer::Listen(std::move(web), [this](const ServerRequest& request) { return AnswerOwn(request); }));
  showing_ = loop_.Every(kShowEvery, [this] { Show(); });
  AskForBoard();
  PinRoutes();
  return {};
}

void Relay::Core::Stop() {
  if (!server_ || stopped_.exchange(true)) return;
  loop_.Do([this] { parts_->stopping = true; });
  heads_->Stop();  // answers who waits
  (void)server_->Stop(options_.grace);
  showing_.reset();
  library_->Stop();
  loop_.Do([] {});  // what was posted meanwhile has run
}

// Whose board it is: until that is known, the relay is not ready.
void Relay::Core::AskForBoard() {
  if (board_seen_ || asking_for_board_.exchange(true)) return;
  const bool taken = library_->Run([this] {
    board_seen_ = library_->documents().Get(BoardKey(), {.kind = ObjectKind::kBoardInfo}).has_value();
    asking_for_board_ = false;
  });
  if (!taken) asking_for_board_ = false;
}

void Relay::Core::Show() {
  const DiskCache::Counts counts = disk_->Look();
  metrics_.ShowCache(counts.bytes, counts.bound, counts.pinned_bytes, counts.objects, counts.evicted_bytes);
  metrics_.ShowMemory(library_->memory_used());
  metrics_.ShowWaiting(heads_->waiting());
  AskForBoard();
}

void Relay::Core::OnMove(const Head& head) {
  library_->documents().Learn(head);
  {
    const std::lock_guard lock(mutex_);
    heads_of_runs_[head.run] = head;
  }
  PinRoutes();
}

// One at a time, over the newest heads.
void Relay::Core::PinRoutes() {
  {
    const std::lock_guard lock(mutex_);
    pin_again_ = pinning_;
    if (pinning_ || heads_of_runs_.empty()) return;
    pinning_ = true;
  }
  const bool taken = library_->Run([this] {
    for (bool again = true; again;) {
      std::map<RunId, Head> heads;
      {
        const std::lock_guard lock(mutex_);
        pin_again_ = false;
        heads = heads_of_runs_;
      }
      std::vector<std::string> keys;
      for (const auto& [run, head] : heads) {
        std::set<RunId> views{run};
        for (const RunId& asked : library_->AskedFor(kViewsAskedFor)) {
          if (asked.Whole() == run) views.insert(asked);
        }
        for (const RunId& view : views) {
          std::vector<std::string> more = RouteKeys(library_->documents(), head, view);
          keys.insert(keys.end(), more.begin(), more.end());
        }
      }
      disk_->Pin(keys);
      const std::lock_guard lock(mutex_);
      again = pin_again_ && !stopped_;
      if (!again) pinning_ = false;
    }
  });
  if (taken) return;
  const std::lock_guard lock(mutex_);
  pinning_ = false;
}

std::shared_ptr<Exchange> Relay::Core::Begin(ServerRequest& head, const RequestFraming& framing, ClientPort& port) {
  std::shared_ptr<KeyAnswer> answer;
  const auto refuse = [&](int status, std::string why) {
    answer = std::make_shared<RefusedAnswer>(*parts_, std::move(head), framing, port, status, std::move(why));
  };
  const std::string key = head.path().empty() ? "" : head.path().substr(1);
  const auto object = ReadBoardKey(key);
  const auto token = BearerTokenOf(head.headers);
  if (!options_.token.empty() && !(token && SameSecret(*token, options_.token))) {
    refuse(401, "this board needs a token: Authorization: Bearer TOKEN");
  } else if (head.method != "GET" && head.method != "HEAD") {
    refuse(405, "a relay is a board for reading: GET and HEAD");
  } else if (!object) {
    refuse(404, fmt::format("{} is no object that readers of a board ask for", Printable(key.substr(0, 200))));
  } else if (object->kind == ObjectKind::kHead) {
    answer = std::make_shared<HeadAnswer>(*parts_, std::move(head), framing, port, object->run);
  } else {
    answer = std::make_shared<ObjectAnswer>(*parts_, std::move(head), framing, port, key, *object);
  }
  answer->Start();
  return answer;
}

ServerResponse Relay::Core::AnswerOwn(const ServerRequest& request) {
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  const std::string& path = request.path();
  const auto not_allowed = [](const char* allowed) {
    ServerResponse response = ErrorJson(405, "invalid", fmt::format("allowed here: {}", allowed));
    response.headers.Add("Allow", allowed);
    return response;
  };
  if (path == "/v1/skerry/wake") {
    if (request.method != "POST") return not_allowed("POST");
    const auto token = BearerTokenOf(request.headers);
    if (!options_.token.empty() && !(token && SameSecret(*token, options_.token))) {
      ServerResponse response = ErrorJson(401, "unauthorized", "this needs a token: Authorization: Bearer TOKEN");
      response.headers.Add("WWW-Authenticate", "Bearer");
      return response;
    }
    heads_->Wake();
    return {.status = 202, .content_type = "application/json", .body = "{\"woken\": true}\n"};
  }
  const bool known = path == "/healthz" || path == "/readyz" || path == "/metrics" || path == "/v1/skerry/status";
  if (!known) return ErrorJson(404, "not_found", fmt::format("nothing is at {}", path));
  if (!is_get) return not_allowed("GET");
  if (path == "/healthz") return {.body = "ok\n"};
  const std::string problem = stopped_      ? "it is being stopped"
                              : board_seen_ ? ""
                                            : "no upstream has shown the board yet";
  if (path == "/readyz") return ReadyJson(problem);
  Show();
  if (path == "/metrics") return {.content_type = MetricRegistry::kContentType, .body = registry_.Text()};
  return StatusJson({.version = options_.version,
                     .started = started_,
                     .not_ready_because = problem,
                     .upstreams = upstreams_->Look(),
                     .heads = heads_->Look(),
                     .cache = disk_->Look(),
                     .cache_directory = disk_->directory().string(),
                     .memory_bytes = library_->memory_used(),
                     .memory_limit = options_.memory_bytes,
                     .coming = library_->coming(),
                     .connections = server_->connections()});
}

Relay::Relay(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Relay::~Relay() { Stop(); }
std::string Relay::url() const { return core_->url(); }
void Relay::Stop() { core_->Stop(); }

Result<std::unique_ptr<Relay>> Relay::Start(RelayOptions options) {
  if (options.upstreams.empty()) return Fail(Code::kInvalid, "a relay needs a board to read from");
  auto core = std::make_unique<Core>(std::move(options));
  SKERRY_TRY(core->Start());
  return std::unique_ptr<Relay>(new Relay(std::move(core)));
}

Status RunRelay(RelayOptions options) {
  const EndSignals signals;
  const bool open_to_all = options.token.empty() && !options.listen.IsLoopback();
  SKERRY_ASSIGN(const auto relay, Relay::Start(std::move(options)));
  LogInfo("the relay listens on {}", relay->url());
  if (open_to_all) LogWarning("whoever reaches this address can read the board: --token-file asks for a token");
  signals.Wait();
  relay->Stop();
  LogInfo("stopped");
  return {};
}

}  // namespace skerry
