#include "skerry/engine/fake_engine.h"

#include <optional>

#include "skerry/engine/fake_memory.h"

namespace skerry {

struct FakeServer::State {
  mutable std::mutex mutex;  // guards all that follows
  Path boot;
  std::string name;
  FakeMemory memory;
  std::string label = "default";
  uint64_t starts = 0;
  bool up = false, paused = false, asleep = false;
  bool refuses_flush = false, takes_changes = false, caches_files = false;
  int running = 0;
  std::map<std::string, std::string> cache;  // prompt and salt -> the weights that computed it
  std::map<std::string, FakeMemory> files;   // what a path held at its first load
  std::map<EngineCall, FakeFault> faults;
  std::function<void(EngineCall)> hook;
  std::vector<Entry> trace;

  Status Boot() {
    memory = {};
    if (!boot.empty()) SKERRY_TRY(LoadWhole(boot, memory));
    label = "default";
    ++starts;
    up = true;
    paused = asleep = false;
    running = 0;
    cache.clear();
    files.clear();
    return {};
  }
  Status Load(const WeightUpdate& update) {
    label = kUncertainLabel;
    if (update.changes && takes_changes) {
      SKERRY_TRY(LoadElements(update.checkpoint, update.changes->positions, memory));
    } else if (caches_files && files.contains(update.checkpoint.string())) {
      memory = files[update.checkpoint.string()];
    } else {
      SKERRY_TRY(LoadWhole(update.checkpoint, memory));
      files[update.checkpoint.string()] = memory;
    }
    label = update.label;
    return {};
  }
  std::optional<FakeFault> TakeFault(EngineCall call) {
    const auto found = faults.find(call);
    if (found == faults.end() || found->second.times == 0) return std::nullopt;
    if (found->second.times > 0) --found->second.times;
    return found->second;
  }
  std::string Instance() const { return fmt::format("{} {}", name, starts); }
};

FakeServer::FakeServer(Path boot, std::string name) : state_(std::make_shared<State>()) {
  state_->boot = std::move(boot);
  state_->name = std::move(name);
  // A boot checkpoint that can't be read shows as a server that is down.
  state_->up = state_->Boot().has_value();
}

void FakeServer::Script(EngineCall call, FakeFault fault) {
  const std::lock_guard lock(state_->mutex);
  state_->faults[call] = fault;
}
void FakeServer::OnCall(std::function<void(EngineCall)> hook) {
  const std::lock_guard lock(state_->mutex);
  state_->hook = std::move(hook);
}
Status FakeServer::Restart() {
  const std::lock_guard lock(state_->mutex);
  return state_->Boot();
}
void FakeServer::Stop() {
  const std::lock_guard lock(state_->mutex);
  state_->up = false;
}
void FakeServer::Sleep() {
  const std::lock_guard lock(state_->mutex);
  state_->asleep = true;
}
Status FakeServer::Wake(bool weights_kept) {
  const std::lock_guard lock(state_->mutex);
  state_->asleep = false;
  if (weights_kept) return {};
  return state_->boot.empty() ? Status() : LoadWhole(state_->boot, state_->memory);
}
void FakeServer::StartRequests(int count) {
  const std::lock_guard lock(state_->mutex);
  state_->running += count;
}
int FakeServer::running() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running;
}
void FakeServer::RefuseFlushWhileRunning(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->refuses_flush = on;
}
void FakeServer::TakeChanges(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->takes_changes = on;
}
void FakeServer::CacheFilesByPath(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->caches_files = on;
}
std::string FakeServer::ServedModel() const {
  const std::lock_guard lock(state_->mutex);
  return state_->memory.Model();
}
std::string FakeServer::label() const {
  const std::lock_guard lock(state_->mutex);
  return state_->label;
}
bool FakeServer::paused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->paused;
}
std::string FakeServer::instance() const {
  const std::lock_guard lock(state_->mutex);
  return state_->Instance();
}
std::vector<FakeServer::Entry> FakeServer::trace() const {
  const std::lock_guard lock(state_->mutex);
  return state_->trace;
}
std::string FakeServer::TraceText() const {
  std::string text;
  for (const Entry& entry : trace()) text += (text.empty() ? "" : " ") + std::string(EngineCallName(entry.call));
  return text;
}
void FakeServer::ClearTrace() {
  const std::lock_guard lock(state_->mutex);
  state_->trace.clear();
}

Result<FakeServer::Answer> FakeServer::Generate(const std::string& prompt, const std::string& salt) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->up || state_->paused || state_->asleep) {
    return Fail(Code::kUnavailable, "{}: serves nothing now", state_->name);
  }
  Answer answer{.weights = state_->memory.Model()};
  const auto [cached, computed] = state_->cache.try_emplace(salt + '\0' + prompt, answer.weights);
  if (!computed) answer.prefix = cached->second;
  return answer;
}

FakeEngine::FakeEngine(FakeServer& server, EngineOptions options)
    : state_(server.state_), options_(std::move(options)) {}

std::string FakeEngine::Describe() const {
  const std::lock_guard lock(state_->mutex);
  return state_->name;
}

bool FakeEngine::TakesChanges() const {
  const std::lock_guard lock(state_->mutex);
  return state_->takes_changes;
}

namespace {

Status FailureOf(const FakeFault& fault, const std::string& who, EngineCall call, std::chrono::milliseconds time) {
  const std::string what = fmt::format("{}: {}", who, EngineCallName(call));
  switch (fault.kind) {
    case FakeFault::Kind::kHangs: return Fail(Code::kUnavailable, "{}: no answer within {} ms", what, time.count());
    case FakeFault::Kind::kRefuses: return Fail(Code::kUnsupported, "{}: this engine can't do that", what);
    case FakeFault::Kind::kDies: return Fail(Code::kUnavailable, "{}: connection reset by peer", what);
    default: return Fail(Code::kIo, "{}: answered 500 with: a scripted failure", what);
  }
}

std::chrono::milliseconds TimeOf(EngineCall call, const std::string& about, const EngineTimeouts& timeouts) {
  if (call == EngineCall::kPause && about == "drain") return timeouts.drain;
  const bool loads = call == EngineCall::kPrepare || call == EngineCall::kLoad || call == EngineCall::kVerify;
  return loads ? timeouts.load : timeouts.control;
}

}  // namespace

Status FakeEngine::Do(EngineCall call, const std::string& about, const Work& work) {
  std::function<void(EngineCall)> hook;
  size_t index = 0;
  {
    const std::lock_guard lock(state_->mutex);
    hook = state_->hook;
    index = state_->trace.size();
    state_->trace.push_back({.call = call, .label = about, .begin = std::chrono::steady_clock::now()});
  }
  if (hook) hook(call);
  const std::lock_guard lock(state_->mutex);
  Status done;
  if (!state_->up) {
    done = Fail(Code::kUnavailable, "{}: {}: connection refused", state_->name, EngineCallName(call));
  } else if (const std::optional<FakeFault> fault = state_->TakeFault(call)) {
    const bool acts = fault->kind == FakeFault::Kind::kPartly || fault->kind == FakeFault::Kind::kStale;
    if (fault->works || acts) done = work(&*fault);
    if (fault->kind != FakeFault::Kind::kStale) {
      done = FailureOf(*fault, state_->name, call, TimeOf(call, about, options_.timeouts));
    }
    if (fault->kind == FakeFault::Kind::kDies) state_->up = false;
  } else {
    done = work(nullptr);
  }
  if (index < state_->trace.size()) {
    FakeServer::Entry& entry = state_->trace[index];
    entry.end = std::chrono::steady_clock::now();
    entry.ok = done.has_value();
    if (!done) entry.code = done.error().code;
  }
  return done;
}

Result<EngineFacts> FakeEngine::Probe() {
  EngineFacts facts{.kind = "fake", .version = "1"};
  SKERRY_TRY(Do(EngineCall::kProbe, "", [&](const FakeFault*) -> Status {
    facts.model = state_->boot.string();
    facts.label = state_->label;
    facts.instance = state_->Instance();
    facts.paused = state_->paused;
    facts.asleep = state_->asleep;
    return {};
  }));
  return facts;
}

Status FakeEngine::Check(const Checkpoint&) {
  return Do(EngineCall::kCheck, "", [](const FakeFault*) { return Status(); });
}

Status FakeEngine::Prepare(const WeightUpdate& update) {
  return Do(EngineCall::kPrepare, update.label, [&](const FakeFault*) -> Status {
    if (state_->asleep) return Fail(Code::kUnavailable, "{}: prepare: the engine is asleep", state_->name);
    if (update.changes && state_->takes_changes && update.changes->from != state_->label) {
      return Fail(Code::kMismatch, "{}: prepare: changes to '{}', but the engine serves '{}'", state_->name,
                  update.changes->from, state_->label);
    }
    return {};
  });
}

Status FakeEngine::Pause(PausePolicy policy) {
  const char* how = policy == PausePolicy::kInPlace ? "in-place" : policy == PausePolicy::kDrain ? "drain" : "abort";
  return Do(EngineCall::kPause, how, [&](const FakeFault*) -> Status {
    state_->paused = true;
    if (policy != PausePolicy::kInPlace) state_->running = 0;
    return {};
  });
}

Status FakeEngine::Load(const WeightUpdate& update) {
  return Do(EngineCall::kLoad, update.label, [&](const FakeFault* fault) -> Status {
    if (state_->asleep) return Fail(Code::kIo, "{}: load: the engine is asleep", state_->name);
    if (fault == nullptr || fault->works) return state_->Load(update);
    state_->label = fault->kind == FakeFault::Kind::kStale ? std::string_view(update.label) : kUncertainLabel;
    if (fault->kind != FakeFault::Kind::kPartly) return {};
    return LoadHalf(update.checkpoint, state_->memory);
  });
}

Status FakeEngine::ResetCache() {
  return Do(EngineCall::kResetCache, "", [&](const FakeFault*) -> Status {
    if (state_->refuses_flush && state_->running > 0) {
      return Fail(Code::kIo, "{}: reset_cache: {} requests are running", state_->name, state_->running);
    }
    state_->cache.clear();
    return {};
  });
}

Status FakeEngine::Verify(const WeightUpdate& update) {
  return Do(EngineCall::kVerify, update.label, [&](const FakeFault*) -> Status {
    if (state_->label != update.label) {
      return Fail(Code::kMismatch, "{}: verify: serves '{}', not '{}'", state_->name, state_->label, update.label);
    }
    if (const std::string model = state_->memory.Model(); model != update.model.Hex()) {
      return Fail(Code::kMismatch, "{}: verify: holds model {}, not {}", state_->name, model.substr(0, 12),
                  update.model.Short());
    }
    return {};
  });
}

Status FakeEngine::Resume() {
  return Do(EngineCall::kResume, "", [&](const FakeFault*) -> Status {
    state_->paused = false;
    return {};
  });
}

}  // namespace skerry
