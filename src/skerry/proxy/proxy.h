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
#include "skerry/proxy/access_log.h"
#include "skerry/proxy/admission.h"
#include "skerry/proxy/traffic.h"

namespace skerry {

class Forwarding;

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
  Path access_log;  // empty: none
};

class Proxy : public Traffic {
 public:
  // Requests that may be held at once, and bytes of bodies that may be kept for all requests together.
  static constexpr size_t kMaxHeld = 4096;
  static constexpr uint64_t kMaxKept = 1 << 30;
  // What may wait for a client, or for an engine, before the other side is left unread.
  static constexpr size_t kMaxUnsent = 256 << 10;
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

  // Traffic
  void SetIn(size_t engine, const std::string& label) override;
  void SetOut(size_t engine, bool certain) override;
  void BeginSwitch(const std::vector<size_t>& engines, const std::string& label, PausePolicy policy,
                   std::chrono::milliseconds patience) override;
  void Flip(const std::vector<size_t>& engines) override;
  void EndSwitch(const std::vector<size_t>& engines) override;

  // Of forwardings, on the loop.
  const ProxyOptions& options() const { return options_; }
  Admission& admission() { return admission_; }
  ProxyMetrics& metrics() { return metrics_; }
  AccessLog& log() { return log_; }
  Upstream& upstream(size_t engine) { return *upstreams_[engine]; }
  const std::string& stay(size_t engine) const { return stays_[engine]; }
  bool stopping() const { return stopping_; }
  void Wake();
  // Room for a request's body; false: there is none. What was taken is given back with Release.
  bool Keep(uint64_t bytes);
  void Release(uint64_t bytes) { kept_ -= bytes; }
  // Held: Retry is called when something has changed, and at its deadline. False: too many are.
  bool Hold(const std::shared_ptr<Forwarding>& forwarding);
  void NoLongerHeld(const std::shared_ptr<Forwarding>& forwarding);
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
  AccessLog log_;
  Admission admission_;
  std::vector<std::unique_ptr<Upstream>> upstreams_;
  std::vector<std::string> stays_;  // of each engine at its version (cache_salt.h)
  std::unordered_set<std::shared_ptr<Forwarding>> held_;
  std::unordered_set<Forwarding*> running_;
  uint64_t kept_ = 0;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point last_wake_;
  std::shared_ptr<void> tick_;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_PROXY_H_
