// An engine's control routes: JSON over HTTP, where every reply is read and judged. Engines answer 200 and mean
// failure: with "success": false, with an empty body, with a page that some proxy made.
#ifndef SKERRY_ENGINE_CONTROL_API_H_
#define SKERRY_ENGINE_CONTROL_API_H_

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "skerry/base/result.h"
#include "skerry/engine/engine.h"
#include "skerry/http/client.h"

namespace skerry {

// Not thread-safe. Every call ends within its time and reaches the engine at most once. Errors name the engine, the
// route, the status and the start of the body:
//   kUnavailable  no answer in time, a lost connection, 502, 503, 504
//   kUnsupported  404, 405: this engine has no such route
//   kIo           any other status, and a 200 that says that it failed or says nothing
class ControlApi {
 public:
  static constexpr uint64_t kMaxBody = 16 << 20;
  static constexpr size_t kShownBody = 300;  // bytes of a body in a message

  using Milliseconds = std::chrono::milliseconds;
  using Json = nlohmann::json;

  ControlApi(std::string kind, std::string url, const EngineOptions& options);

  // "vllm http://127.0.0.1:8000", without secrets.
  const std::string& name() const { return name_; }
  const EngineTimeouts& timeouts() const { return timeouts_; }

  // The JSON object of a 200. Without a time: within timeouts().control.
  Result<Json> Get(const std::string& route, std::optional<Milliseconds> time = {});
  Result<Json> Post(const std::string& route, const Json& body = nullptr, std::optional<Milliseconds> time = {});
  // The same for what older engines lack: nullopt where there is no such route.
  Result<std::optional<Json>> GetIfThere(const std::string& route, std::optional<Milliseconds> time = {});
  // The body of a 200 as it is.
  Result<std::string> GetText(const std::string& route);
  // For routes that answer with any text, or none: a 2xx is success unless it is JSON that says otherwise.
  Status PostForStatus(const std::string& route, const Json& body = nullptr, std::optional<Milliseconds> time = {});

  // "vllm http://…: POST /pause: <what>".
  tl::unexpected<Error> Complain(Code code, const std::string& method, const std::string& route,
                                 std::string_view what) const;

 private:
  Result<std::string> Send(const std::string& method, const std::string& route, const Json& body,
                           std::optional<Milliseconds> time, bool any_success = false);
  Result<Json> Judge(const std::string& method, const std::string& route, Result<std::string> text) const;

  std::string url_, name_;
  EngineTimeouts timeouts_;
  std::string bearer_token_;
  HttpClient client_;
};

// A field of a reply; nothing where it is missing or of another type.
std::string TextField(const nlohmann::json& object, const char* name);
std::optional<bool> BoolField(const nlohmann::json& object, const char* name);

// The start of the process that serves the engine's metrics, as they give it (`process_start_time_seconds` of the
// Prometheus client libraries): another one after a restart. Empty where the engine has none to give.
Result<std::string> StartTimeFromMetrics(ControlApi& api);

}  // namespace skerry

#endif  // SKERRY_ENGINE_CONTROL_API_H_
