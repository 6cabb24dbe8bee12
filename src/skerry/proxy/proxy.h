// Forwards requests to the engines of an island, by version (docs/proxy.md is the normative text).
//
// All requests run on one event loop, without a thread of their own; decisions and switches do too, which makes them
// atomic. Traffic's functions are called from other threads and wait for the loop.
#ifndef SKERRY_PROXY_PROXY_H_
#define SKERRY_PROXY_PROXY_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "skerry/http/event_loop.h"
#include "skerry/http/exchange.h"
#include "skerry/http/upstream.h"
#include "skerry/metrics/proxy_metrics.h"
#include "skerry/proxy/admission.h"
#include "skerry/proxy/hall.h"
#include "skerry/proxy/traffic.h"

namespace skerry {

class Forwarding;

// What an island has to do, for who sends it requests.
struct ProxyLoad {
  std::optional<VersionLabel> live;  // the newest that an engine in rotation serves; none: no engine takes requests
  size_t engines = 0;                // that take requests
  uint64_t running = 0, held = 0;    // requests
};

struct ProxyEngine {
  std::string name;                        // Engine::Describe()
  std::string kind;                        // "vllm", "sglang", …
  std::optional<UpstreamOptions> address;  // none: nothing can be forwarded to it
};

struct ProxyOptions {
  std::vector<ProxyEngine> engines;  // in the island's order
  bool namespaces = false;           // --kv namespace
  uint64_t max_body = 64'000'000;    // bytes of a request's body
  // Somebody asks for a version that is still to come, or an engine does not answer: the agent shall look.
  std::function<void()> wake;
  // What the engines serve, or whether they take requests, has changed. On the loop.
  std::function<void()> changed;
  Path access_log;  // empty: none
};

class Proxy : public Traffic {
 public:
  // Of a request that arrives during a switch and names no time of its own.
  static constexpr std::chrono::seconds kSwitchPatience{60};
  static constexpr std::chrono::milliseconds kWakePause{100};

  // The loop and the metrics outlive this. Fails where the access log can't be opened.
  static Result<std::unique_ptr<Proxy>> Make(EventLoop& loop, ProxyOptions options, ProxyMetrics& metrics);
  // No exchange of it is left: the server was stopped.
  ~Proxy() override;

  // Whether there is an engine to forward to.
  bool forwards() const;

  // For WebServerOptions::begin_exchange. On the loop.
  std::shared_ptr<Exchange> Begin(ServerRequest& head, const RequestFraming& framing, ClientPort& port,
                                  uint64_t& max_body);
  // New requests are refused from here on.
  void Stop();
  // From any thread but the loop's.
  ProxyLoad Load();

  // Traffic
  void SetIn(size_t engine, const std::string& label) override;
  void SetOut(size_t engine, bool certain) override;
  void BeginSwitch(const std::vector<size_t>& engines, const std::string& label, PausePolicy policy,
                   std::chrono::milliseconds patience) override;
  void Flip(const std::vector<size_t>& engines) override;
  void EndSwitch(const std::vector<size_t>& engines) override;

  // Of forwardings, on the loop.
  const ProxyOptions& options() const { return options_; }
  Hall& hall() { return hall_; }
  Admission& admission() { return admission_; }
  Upstream& upstream(size_t engine) { return *upstreams_[engine]; }
  const std::string& stay(size_t engine) const { return stays_[engine]; }
  void Wake();
  void AddRunning(Forwarding* forwarding) { running_.insert(forwarding); }
  void RemoveRunning(Forwarding* forwarding) { running_.erase(forwarding); }

 private:
  Proxy(EventLoop& loop, ProxyOptions options, ProxyMetrics& metrics, AccessLog log);

  // Looks again at what is held.
  void Changed();
  void Tick();
  std::vector<Forwarding*> RunningOn(const std::vector<size_t>& engines) const;
  void CutOff(const std::vector<size_t>& engines);

  EventLoop& loop_;
  const ProxyOptions options_;
  ProxyMetrics& metrics_;
  Hall hall_;
  Admission admission_;
  std::vector<std::unique_ptr<Upstream>> upstreams_;
  std::vector<std::string> stays_;  // of each engine at its version (cache_salt.h)
  std::unordered_set<Forwarding*> running_;
  std::chrono::steady_clock::time_point last_wake_;
  std::shared_ptr<void> tick_;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_PROXY_H_
