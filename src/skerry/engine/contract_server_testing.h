// What the stand-ins for real engines share: an HTTP server on loopback whose routes a test can make fail in every way
// that an engine, or the network to it, fails.
#ifndef SKERRY_ENGINE_CONTRACT_SERVER_TESTING_H_
#define SKERRY_ENGINE_CONTRACT_SERVER_TESTING_H_

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testing/http_server.h"

namespace skerry {

enum class WireFault { kStatus500, kStatus503, kNoRoute, kHang, kReset, kEmpty, kNotJson, kSuccessFalse };
inline constexpr WireFault kAnsweringFaults[] = {WireFault::kStatus500, WireFault::kStatus503,
                                                 WireFault::kReset,     WireFault::kEmpty,
                                                 WireFault::kNotJson,   WireFault::kSuccessFalse};

inline WireAnswer JsonAnswer(const nlohmann::json& body, int status = 200) {
  return Answer(status, body.dump(), {{"Content-Type", "application/json"}});
}

inline WireAnswer FaultyAnswer(WireFault fault) {
  switch (fault) {
    case WireFault::kStatus503: return Answer(503, "overloaded");
    case WireFault::kNoRoute: return JsonAnswer({{"detail", "Not Found"}}, 404);
    case WireFault::kHang: return {"", WireAnswer::Then::kHang};
    case WireFault::kReset: return {"HTTP/1.1 200 OK\r\nContent-", WireAnswer::Then::kReset};
    case WireFault::kEmpty: return Answer(200);
    case WireFault::kNotJson: return Answer(200, "<html>a proxy's page</html>");
    case WireFault::kSuccessFalse: return JsonAnswer({{"success", false}, {"message", "a scripted failure"}});
    default: return JsonAnswer({{"error", "a scripted failure"}}, 500);
  }
}

// Thread-safe. A subclass answers one request at a time.
class ContractServer {
 public:
  virtual ~ContractServer() = default;

  std::string url() const { return server_->url(); }
  // Requests of this path ("/pause", or "/collective_rpc skerry_commit") fail `times` times; negative: always.
  void Fail(const std::string& route, WireFault fault, int times = 1) {
    const std::lock_guard lock(mutex_);
    faults_[route] = {fault, times};
  }
  // "POST /pause?mode=keep", with the method behind "/collective_rpc".
  std::vector<std::string> trace() const {
    const std::lock_guard lock(mutex_);
    return trace_;
  }
  // Of the last request of this path.
  nlohmann::json LastBody(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = bodies_.find(path);
    return found == bodies_.end() ? nlohmann::json() : found->second;
  }
  std::string LastAuthorization() const { return server_->requests().back().Header("Authorization"); }
  // No connection is accepted any more.
  void Stop() { server_.reset(); }

 protected:
  // At the end of the subclass's constructor.
  void Start() {
    server_ = std::make_unique<HttpServer>([this](const ReceivedRequest& request) { return Serve(request); });
  }
  virtual WireAnswer Route(const std::string& method, const std::string& path, const std::string& query,
                           const nlohmann::json& body) = 0;

  mutable std::mutex mutex_;  // guards everything here and in the subclass

 private:
  struct Scripted {
    WireFault fault;
    int times;
  };

  WireAnswer Serve(const ReceivedRequest& request) {
    const std::lock_guard lock(mutex_);
    const size_t question = request.target.find('?');
    const std::string path = request.target.substr(0, question);
    const std::string query = question == std::string::npos ? "" : request.target.substr(question + 1);
    const nlohmann::json body = nlohmann::json::parse(request.body, nullptr, false);
    const std::string rpc = body.is_object() ? body.value("method", "") : "";
    const std::string route = path + (rpc.empty() ? "" : " " + rpc);
    trace_.push_back(request.method + " " + request.target + (rpc.empty() ? "" : " " + rpc));
    bodies_[path] = body;
    if (const auto found = faults_.find(route); found != faults_.end() && found->second.times != 0) {
      if (found->second.times > 0) --found->second.times;
      return FaultyAnswer(found->second.fault);
    }
    return Route(request.method, path, query, body);
  }

  std::map<std::string, Scripted> faults_;
  std::vector<std::string> trace_;
  std::map<std::string, nlohmann::json> bodies_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_CONTRACT_SERVER_TESTING_H_
