#include "skerry/proxy/proxy.h"

#include <algorithm>
#include <future>
#include <utility>

#include "skerry/base/clock.h"
#include "skerry/engine/weight_label.h"
#include "skerry/proxy/forwarding.h"

namespace skerry {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};
// How often a switch looks whether the requests that it waits for have ended.
constexpr std::chrono::milliseconds kLook{2};
// How long a flip lets the streams catch up with what has come. An engine is paused all the while.
constexpr std::chrono::milliseconds kCatchUp{50};

std::string NewStay() { return RandomToken().substr(0, 8); }

std::vector<std::pair<std::string, std::string>> NamesAndKinds(const std::vector<ProxyEngine>& engines) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const ProxyEngine& engine : engines) all.emplace_back(engine.name, engine.kind);
  return all;
}

}  // namespace

Result<std::unique_ptr<Proxy>> Proxy::Make(EventLoop& loop, ProxyOptions options, ProxyMetrics& metrics) {
  SKERRY_ASSIGN(AccessLog log, AccessLog::Open(options.access_log));
  return std::unique_ptr<Proxy>(new Proxy(loop, std::move(options), metrics, std::move(log)));
}

Proxy::Proxy(EventLoop& loop, ProxyOptions options, ProxyMetrics& metrics, AccessLog log)
    : loop_(loop),
      options_(std::move(options)),
      metrics_(metrics),
      hall_({.max_body = options_.max_body}, metrics, std::move(log)),
      admission_(NamesAndKinds(options_.engines)) {
  for (const ProxyEngine& engine : options_.engines) {
    stays_.push_back(NewStay());
    upstreams_.push_back(engine.address ? std::make_unique<Upstream>(loop_, *engine.address) : nullptr);
  }
  tick_ = loop_.Every(kTick, [this] { Tick(); });
}

Proxy::~Proxy() {
  tick_.reset();
  upstreams_.clear();
}

bool Proxy::forwards() const {
  return std::any_of(options_.engines.begin(), options_.engines.end(),
                     [](const ProxyEngine& engine) { return engine.address.has_value(); });
}

std::shared_ptr<Exchange> Proxy::Begin(ServerRequest& head, const RequestFraming& framing, ClientPort& port,
                                       uint64_t& max_body) {
  const auto forwarding = std::make_shared<Forwarding>(*this, std::move(head), framing, port);
  forwarding->Begin(max_body);
  return forwarding;
}

void Proxy::Stop() {
  loop_.Do([this] { hall_.Stop(); });
}

void Proxy::SetIn(size_t engine, const std::string& label) {
  const auto live = ParseWeightLabel(label);
  if (!live || !options_.engines[engine].address) return;
  loop_.Do([&] {
    admission_.SetIn(engine, *live);
    Changed();
  });
}

void Proxy::SetOut(size_t engine, bool certain) {
  loop_.Do([&] {
    admission_.SetOut(engine, certain);
    if (!certain) CutOff({engine});
    Changed();
  });
}

std::vector<Forwarding*> Proxy::RunningOn(const std::vector<size_t>& engines) const {
  std::vector<Forwarding*> all;
  for (Forwarding* forwarding : running_) {
    if (std::find(engines.begin(), engines.end(), forwarding->engine()) != engines.end()) all.push_back(forwarding);
  }
  return all;
}

void Proxy::CutOff(const std::vector<size_t>& engines) {
  for (Forwarding* forwarding : RunningOn(engines)) {
    forwarding->CutOff("the engine's weights are not certain any more");
  }
}

void Proxy::BeginSwitch(const std::vector<size_t>& engines, const std::string& label, PausePolicy policy,
                        std::chrono::milliseconds patience) {
  const auto target = ParseWeightLabel(label);
  if (!target) return;
  const Stopwatch watch;
  loop_.Do([&] {
    for (const size_t engine : engines) admission_.BeginSwitch(engine, *target, policy);
    Changed();
  });
  const auto deadline = steady_clock::now() + patience;
  std::promise<void> ended;
  std::shared_ptr<void> look;
  bool done = false;
  // Checked and paused in one step, so that nothing comes in between.
  look = loop_.Every(kLook, [&] {
    if (done) return;
    const bool over = steady_clock::now() >= deadline;
    const bool any =
        std::any_of(engines.begin(), engines.end(), [&](size_t engine) { return admission_.ToWaitFor(engine) > 0; });
    if (any && !over) return;
    if (any) {
      for (Forwarding* forwarding : RunningOn(engines)) {
        if (policy == PausePolicy::kInPlace && !forwarding->is_exact()) continue;
        forwarding->CutOff("it did not end before the switch to another version");
      }
    }
    for (const size_t engine : engines) admission_.Paused(engine);
    Changed();
    done = true;
    ended.set_value();
  });
  ended.get_future().wait();
  metrics_.WaitedForRequests(watch.Seconds());
}

void Proxy::Flip(const std::vector<size_t>& engines) {
  const auto deadline = steady_clock::now() + kCatchUp;
  // What the engines sent before their pause is here by now. It is told, as the old version's, before the new one's
  // begins: once no socket has bytes, all of it is told or stands in the loop's queue before what is posted next.
  bool caught_up = false;
  while (!caught_up) {
    loop_.Do([&] {
      const std::vector<Forwarding*> running = RunningOn(engines);
      caught_up = steady_clock::now() >= deadline ||
                  std::none_of(running.begin(), running.end(), [](Forwarding* one) { return one->HasUnread(); });
    });
  }
  loop_.Do([&] {
    for (Forwarding* forwarding : RunningOn(engines)) forwarding->OnFlip();
    for (const size_t engine : engines) {
      admission_.Flip(engine);
      stays_[engine] = NewStay();
    }
  });
}

void Proxy::EndSwitch(const std::vector<size_t>& engines) {
  loop_.Do([&] {
    for (const size_t engine : engines) admission_.EndSwitch(engine);
    Changed();
  });
}

void Proxy::Wake() {
  const auto now = steady_clock::now();
  if (!options_.wake || now - last_wake_ < kWakePause) return;
  last_wake_ = now;
  options_.wake();
}

void Proxy::Changed() {
  hall_.RetryAll();
  if (options_.changed) options_.changed();
}

ProxyLoad Proxy::Load() {
  ProxyLoad load;
  loop_.Do([&] {
    load.live = admission_.Newest();
    for (const Admission::EngineState& engine : admission_.engines()) {
      if (engine.phase != Admission::Phase::kOut && engine.live) ++load.engines;
    }
    load.running = running_.size();
    load.held = hall_.held().size();
  });
  return load;
}

void Proxy::Tick() {
  hall_.RetryDue(steady_clock::now());
  metrics_.Show(running_.size(), hall_.held().size());
  hall_.log().Flush();
}

}  // namespace skerry
