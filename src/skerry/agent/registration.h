// The agent tells gateways that its island is there (docs/gateway.md).
#ifndef SKERRY_AGENT_REGISTRATION_H_
#define SKERRY_AGENT_REGISTRATION_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "skerry/gateway/island_report.h"

namespace skerry {

struct RegistrationOptions {
  std::vector<std::string> gateways;  // "http://HOST:PORT" or https
  std::string token;                  // that they want
  std::string ca_file;                // PEM file with the authorities to trust; empty: the system's
  std::chrono::milliseconds every{1'000};
};

// Heartbeats to each gateway on a thread of its own, so that one that is gone delays no other: every so often, and at
// once when something has changed that decides over requests.
class Registration {
 public:
  // `report` is called on these threads.
  Registration(RegistrationOptions options, std::function<IslandReport()> report);
  // Without a word to the gateways, but for Leave.
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // From any thread, also one that must not wait: the report may be another one now.
  void Changed();
  // Waits until all gateways that answer have had a report that was made after this call, at most kPatience.
  void Tell();
  // Tells them that the island is gone, and nothing after that.
  void Leave();

  static constexpr std::chrono::milliseconds kPatience{1'000};

 private:
  struct Gateway;

  void Run(Gateway& gateway);
  bool Send(Gateway& gateway, const std::string& path, const std::string& body);
  void End();

  const RegistrationOptions options_;
  const std::function<IslandReport()> report_;
  std::mutex mutex_;
  std::condition_variable changed_, told_;
  uint64_t changes_ = 1;   // how often Changed was called; guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::vector<std::unique_ptr<Gateway>> gateways_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_REGISTRATION_H_
