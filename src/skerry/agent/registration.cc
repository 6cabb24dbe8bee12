#include "skerry/agent/registration.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "skerry/base/log.h"
#include "skerry/http/client.h"

namespace skerry {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAnswerWithin{2'000};
// What changes without a word (readiness of the agent as a whole) is noticed within this.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

struct Registration::Gateway {
  Gateway(std::string address, const std::string& ca_file) : url(std::move(address)), client({.ca_file = ca_file}) {}

  const std::string url;
  HttpClient client;
  std::string problem;        // the last one, so that it is told once
  uint64_t told_changes = 0;  // that a report was sent for, or tried to; guarded by mutex_
  std::thread thread;
};

Registration::Registration(RegistrationOptions options, std::function<IslandReport()> report)
    : options_(std::move(options)), report_(std::move(report)) {
  for (std::string url : options_.gateways) {
    while (url.ends_with('/')) url.pop_back();
    gateways_.push_back(std::make_unique<Gateway>(std::move(url), options_.ca_file));
  }
  for (const auto& gateway : gateways_) {
    gateway->thread = std::thread([this, &one = *gateway] { Run(one); });
  }
}

Registration::~Registration() { End(); }

void Registration::End() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (const auto& gateway : gateways_) {
    if (gateway->thread.joinable()) gateway->thread.join();
  }
}

void Registration::Changed() {
  {
    const std::lock_guard lock(mutex_);
    ++changes_;
  }
  changed_.notify_all();
}

void Registration::Tell() {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++changes_;
  changed_.notify_all();
  told_.wait_for(lock, kPatience, [&] {
    return std::all_of(gateways_.begin(), gateways_.end(),
                       [&](const auto& gateway) { return gateway->told_changes >= wanted; });
  });
}

void Registration::Leave() {
  End();
  const IslandReport report = report_();
  nlohmann::json body;
  if (report.url.empty()) {
    body["port"] = report.port;
  } else {
    body["url"] = report.url;
  }
  std::vector<std::thread> threads;
  for (const auto& gateway : gateways_) {
    threads.emplace_back([&, this] { (void)Send(*gateway, "/v1/skerry/islands/leave", body.dump()); });
  }
  for (std::thread& thread : threads) thread.join();
}

void Registration::Run(Gateway& gateway) {
  std::optional<IslandReport> before;
  steady_clock::time_point next{};
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint64_t changes = changes_;
    lock.unlock();
    IslandReport report = report_();
    const auto now = steady_clock::now();
    if (!before || now >= next || report.DiffersFrom(*before)) {
      (void)Send(gateway, "/v1/skerry/islands", ToJson(report));  // what is not taken is sent again at the next turn
      next = now + options_.every;
      before = std::move(report);
    }
    lock.lock();
    gateway.told_changes = changes;
    told_.notify_all();
    changed_.wait_for(lock, kLook, [&] { return stopping_ || changes_ != changes; });
  }
}

bool Registration::Send(Gateway& gateway, const std::string& path, const std::string& body) {
  HttpRequest request{.method = "POST", .url = gateway.url + path};
  request.headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer " + options_.token}};
  request.body = AsBytes(body);
  request.connect_timeout = kAnswerWithin;
  request.total_timeout = kAnswerWithin;
  const auto answer = gateway.client.Send(request);
  std::string problem;
  if (!answer) {
    problem = answer.error().message;
  } else if (!answer->ok()) {
    problem = fmt::format("status {}: {}", answer->status, AsText(answer->body));
  }
  if (problem != gateway.problem) {
    if (problem.empty()) {
      LogInfo("the gateway {} takes this island's reports again", UrlForMessages(gateway.url));
    } else {
      LogWarning("the gateway {} does not take this island's reports: {}", UrlForMessages(gateway.url), problem);
    }
    gateway.problem = problem;
  }
  return problem.empty();
}

}  // namespace skerry
