// Where the requests of a process wait, and what all of them together may take up.
#ifndef SKERRY_PROXY_HALL_H_
#define SKERRY_PROXY_HALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_set>

#include "skerry/metrics/request_metrics.h"
#include "skerry/proxy/access_log.h"

namespace skerry {

class Passage;

struct HallOptions {
  uint64_t max_body = 64'000'000;  // bytes of a request's body
  size_t max_held = 4096;          // requests that may be held at once
  uint64_t max_kept = 1 << 30;     // bytes of bodies that may be kept for all requests together
};

// All on the loop's thread.
class Hall {
 public:
  // The metrics outlive this.
  Hall(const HallOptions& options, RequestMetrics& metrics, AccessLog log);
  ~Hall();

  const HallOptions& options() const { return options_; }
  RequestMetrics& metrics() { return metrics_; }
  AccessLog& log() { return log_; }

  // Room for a request's body; false: there is none. What was taken is given back with Release.
  bool Keep(uint64_t bytes);
  void Release(uint64_t bytes) { kept_ -= bytes; }

  // Held: Retry is called when something has changed, and at its deadline. False: too many are.
  bool Hold(const std::shared_ptr<Passage>& passage);
  void NoLongerHeld(const std::shared_ptr<Passage>& passage) { held_.erase(passage); }
  const std::unordered_set<std::shared_ptr<Passage>>& held() const { return held_; }
  // Looks again at what is held: at all of it, or at what is due.
  void RetryAll();
  void RetryDue(std::chrono::steady_clock::time_point now);

  // Nothing is held and no new request is taken from here on.
  void Stop();
  bool stopping() const { return stopping_; }

 private:
  const HallOptions options_;
  RequestMetrics& metrics_;
  AccessLog log_;
  std::unordered_set<std::shared_ptr<Passage>> held_;
  uint64_t kept_ = 0;
  bool stopping_ = false;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_HALL_H_
