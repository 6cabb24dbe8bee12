#include "skerry/agent/reconciler.h"

#include <algorithm>
#include <random>
#include <utility>

#include "skerry/agent/background.h"
#include "skerry/agent/records.h"
#include "skerry/apply/changed_positions.h"
#include "skerry/apply/content_lock.h"
#include "skerry/apply/journal.h"
#include "skerry/apply/roll_back.h"
#include "skerry/apply/seed.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/log.h"
#include "skerry/engine/weight_label.h"

namespace skerry {
namespace {

// How long the engines' calls wait for an agent that is writing to the same checkpoint.
constexpr std::chrono::milliseconds kPatienceWithWriters{600'000};
// After a stage that failed: what it left unfinished is finished by the next pass, not by waiting.
constexpr std::chrono::milliseconds kPatienceAfterAFailure{1'000};
// After passes that failed the pause doubles up to this; a wake ends it.
constexpr std::chrono::milliseconds kLongestPause{30'000};

// After a pass that went well, but for an engine that could not be asked and is behind; it doubles up to the poll.
constexpr std::chrono::milliseconds kFirstPauseWhileBehind{1'000};

constexpr size_t kLongRoute = 64;  // patches; a publisher's skips and anchors keep routes far below that

// Between 90 and 110 %, so that agents that began together don't ask together for ever.
std::chrono::milliseconds Jittered(std::chrono::milliseconds time) {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::chrono::milliseconds(
      static_cast<int64_t>(static_cast<double>(time.count()) * std::uniform_real_distribution<>(0.9, 1.1)(random)));
}

uint64_t BytesIn(const Path& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const uint64_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

}  // namespace

Reconciler::Reconciler(ReconcilerOptions options, OpenBoard open_board, Island& island, SharedStatus& status,
                       AgentMetrics& metrics, const Clock& clock)
    : options_(std::move(options)),
      open_board_(std::move(open_board)),
      island_(island),
      status_(status),
      metrics_(metrics),
      clock_(clock) {
  island_.OnChange([this] { ShowIsland(); });
  ShowIsland();
  status_.Change([&](AgentStatus& now) {
    now.name = options_.name;
    now.run = options_.policy.run.str();
    now.follow = options_.policy.Follow();
    now.state_directory = options_.state.root.string();
    now.started = FormatTime(clock_.Now());
  });
}

void Reconciler::Wake() {
  metrics_.Woken();
  const std::lock_guard lock(mutex_);
  wake_ = true;
  woken_.notify_all();
}

void Reconciler::Stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  woken_.notify_all();
}

void Reconciler::NoteDamage(const Error& error) {
  if (damaged_.exchange(true)) return;
  NoteFailure(AgentStage::kScrub, error);
  Wake();
}

void Reconciler::Run() {
  std::chrono::milliseconds pause = options_.poll, behind = kFirstPauseWhileBehind;
  while (true) {
    {
      // Taken before the pass: a wake during it leads to another one.
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      wake_ = false;
    }
    if (!Pass()) {
      pause = std::min(std::max(pause * 2, options_.poll), std::max(kLongestPause, options_.poll));
    } else if (caught_up_) {
      pause = options_.poll;
      behind = kFirstPauseWhileBehind;
    } else {
      pause = std::min(options_.poll, std::exchange(behind, behind * 2));
    }
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, Jittered(pause), [&] { return wake_ || stop_; });
  }
}

Result<Policy> Reconciler::CurrentPolicy() const {
  SKERRY_ASSIGN(const std::optional<Policy> set, ReadPolicy(options_.state.root));
  return set.value_or(options_.policy);
}

Status Reconciler::SetPolicy(const Policy& policy) {
  SKERRY_TRY(WritePolicy(options_.state.root, policy));
  Wake();
  return {};
}

Status Reconciler::ResetPolicy() {
  SKERRY_TRY(RemovePolicy(options_.state.root));
  Wake();
  return {};
}

Result<std::optional<CheckpointState>> Reconciler::Present() const {
  return ReadState(DefaultStateDirectory(options_.state.Checkpoint()));
}

Result<Reconciler::Target> Reconciler::Look() {
  const Stopwatch watch;
  SKERRY_ASSIGN(Policy policy, CurrentPolicy());
  status_.Change([&](AgentStatus& now) {
    if (now.run != policy.run.str()) now.head.reset();
    now.run = policy.run.str();
    now.follow = policy.Follow();
  });
  metrics_.SetRun(policy.run);
  auto head = [&]() -> Result<HeadAt> {
    if (!board_) {
      SKERRY_ASSIGN(board_, open_board_());
      status_.Change([&](AgentStatus& now) { now.board = board_->Describe(); });
    }
    return board_->ReadHead(policy.run);
  }();
  metrics_.Took(AgentStage::kLookup, watch.Seconds());
  metrics_.LookedUp(head ? Status() : Status(tl::unexpected<Error>(head.error())), clock_.Now());
  if (!head) {
    if (head.error().code != Code::kNotFound) return tl::unexpected<Error>(std::move(head).error());
    return Fail(Code::kUnavailable, "not there yet: {}", head.error().message);
  }
  const Version at = head->head.version;
  status_.Change([&](AgentStatus& now) { now.head = at; });
  SKERRY_ASSIGN(const std::optional<CheckpointState> present, Present());
  std::optional<Version> live;
  if (present && present->label.run == policy.run.str()) live = present->label.version;
  SKERRY_ASSIGN(const Version version, WantedVersion(policy, at, live));
  return Target{std::move(policy), version, std::move(head->head)};
}

// Back over what the undo log holds, which needs no board. False where it does not lead there.
Result<bool> Reconciler::StageFromUndoLog(const Target& target, const CheckpointState& present, UpdateView& update) {
  const VersionLabel label{target.policy.run.str(), target.version};
  if (present.label.run != label.run || present.label.version <= label.version) return false;
  PacedProgress progress(options_.stage_bytes_per_second);
  Result<ApplyReceipt> back = Fail(Code::kInvalid, "not tried");
  const Stopwatch watch;
  RunInBackground([&] {
    back = RollBackCheckpoint(options_.state.Checkpoint(), label, options_.stage.canonical, options_.stage.threads,
                              progress);
  });
  // A log that was damaged is no reason not to go through the board.
  if (!back && (back.error().code == Code::kNotFound || back.error().code == Code::kCorrupt)) {
    LogWarning("the undo log does not lead to {}: {}", label.Describe(), back.error().message);
    return false;
  }
  if (!back) return tl::unexpected<Error>(std::move(back).error());
  update.how = "undo";
  update.from = present.label.version;
  update.changed = back->changed;
  update.decode = back->decode_seconds;
  update.stage = watch.Seconds() - back->decode_seconds;
  metrics_.Took(AgentStage::kRollback, watch.Seconds());
  metrics_.RolledBack();
  return true;
}

Status Reconciler::StageFromBoard(const Target& target, UpdateView& update) {
  CatchUpOptions options = options_.stage;
  options.version = target.version;
  options.head = target.head;
  options.replace_other_run = true;
  options.rebuild = damaged_;
  options.on_route = [this](const Route& route) {
    const bool is_long = route.hops.size() > kLongRoute;
    if (is_long && !long_route_told_) {
      LogWarning("{} patches lead to version {} of run {}: newer anchors or skips would make joining quicker",
                 route.hops.size(), route.target.version, route.target.run);
    }
    long_route_told_ = is_long;  // passes that fail on one plan it again and again
  };
  PacedProgress progress(options_.stage_bytes_per_second);
  Result<CatchUpReceipt> caught = Fail(Code::kInvalid, "not tried");
  if (refused_base_ && refused_base_->run == target.policy.run) return tl::unexpected<Error>(refused_base_->error);
  RunInBackground([&] {
    if (!options_.base.empty()) {
      const Status seeded = SeedCheckpoint(*board_, target.policy.run, options_.base, options_.state.Checkpoint(),
                                           options.threads, progress);
      if (!seeded) {
        if (seeded.error().code == Code::kMismatch) refused_base_ = {target.policy.run, seeded.error()};
        caught = tl::unexpected<Error>(seeded.error());
        return;
      }
    }
    caught = CatchUp(*board_, target.policy.run, options_.state.Checkpoint(), options, progress);
  });
  if (!caught) return tl::unexpected<Error>(std::move(caught).error());
  if (!caught->healed.empty()) LogWarning("the checkpoint was damaged and has been rebuilt: {}", caught->healed);
  if (!caught->replaced.empty()) LogWarning("the checkpoint was {} and has been replaced", caught->replaced);
  if (options.rebuild) damaged_ = false;
  update.how = caught->anchor ? "anchor" : "patches";
  update.from = caught->from;
  update.patches = caught->patches;
  update.bytes_fetched = caught->bytes_fetched;
  update.changed = caught->changed;
  update.elements = caught->elements;
  update.plan = caught->plan_seconds;
  update.fetch = caught->fetch_seconds;
  update.decode = caught->decode_seconds;
  update.stage = caught->apply_seconds - caught->decode_seconds;
  metrics_.SetObjectCache(BytesIn(options_.stage.cache.directory), options_.stage.cache.bytes);
  metrics_.Took(AgentStage::kFetch, update.fetch);
  metrics_.Took(AgentStage::kDecode, update.decode);
  metrics_.Took(AgentStage::kStage, update.stage);
  KeepSideFiles({{target.policy.run.str(), target.version}, caught->model, std::move(caught->side_files)});
  return {};
}

Status Reconciler::Stage(const Target& target, UpdateView& update) {
  SKERRY_ASSIGN(const std::optional<CheckpointState> present, Present());
  const VersionLabel wanted{target.policy.run.str(), target.version};
  // A journal that a killed agent left has to be finished, even where there is nowhere else to go.
  if (!damaged_ && present && present->label == wanted &&
      !JournalExists(DefaultStateDirectory(options_.state.Checkpoint()))) {
    return {};
  }
  ShowPhase(Phase::kStaging);
  bool done = false;
  if (present && !damaged_) {
    SKERRY_ASSIGN(done, StageFromUndoLog(target, *present, update));
  }
  if (!done) SKERRY_TRY(StageFromBoard(target, update));
  return Failpoint("agent.staged");
}

Status Reconciler::SwitchEngines(UpdateView& update, std::chrono::milliseconds patience) {
  const Stopwatch watch;
  island_.Look();
  update.probe = watch.Seconds();
  metrics_.Took(AgentStage::kProbe, update.probe);
  const Path directory = options_.state.Checkpoint();
  SKERRY_ASSIGN(std::optional<CheckpointState> present, Present());
  if (!present) return {};
  // Nobody moves the checkpoint from here on. Another agent may have done so just before.
  SKERRY_ASSIGN(const ContentLock lock, ContentLock::Shared(directory, patience));
  SKERRY_ASSIGN(present, Present());
  if (!present || !present->label.version) return {};
  SKERRY_ASSIGN(const RunId run, RunId::Parse(present->label.run));
  const std::string label = WeightLabel(run, *present->label.version);
  status_.Change([&](AgentStatus& now) {
    now.checkpoint = present->label.version;
    now.model = present->model.Hex();
  });
  if (!island_.NeedsSwitch(label)) return {};

  ShowPhase(Phase::kSwitching);
  SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  const Path own = options_.state.Agent(options_.name);
  const auto changes = [&](const std::string& from) -> Result<std::optional<ChangedElements>> {
    const auto version = ParseWeightLabel(from);
    if (!version) return std::optional<ChangedElements>();
    const Path positions = own / fmt::format("changes-from-{}.positions", *version->version);
    SKERRY_ASSIGN(const std::optional<ChangedPositions> found,
                  CollectChanges(DefaultStateDirectory(directory), checkpoint.layout(), *version, positions));
    if (!found) return std::optional<ChangedElements>();
    update.tensors = std::max(update.tensors, found->tensors);
    return std::optional(ChangedElements{from, positions, found->tensors, found->elements});
  };
  const WeightUpdate weights{.label = label,
                             .version = *present->label.version,
                             .model = present->model,
                             .checkpoint = directory,
                             .changes = std::nullopt};
  auto switched = island_.Switch(weights, checkpoint, changes);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(own, error)) {
    if (entry.path().extension() == ".positions") std::filesystem::remove(entry.path(), error);
  }
  if (!switched) return tl::unexpected<Error>(std::move(switched).error());
  update.engines = *switched;
  update.label = label;
  update.elements = checkpoint.layout().total_units();
  metrics_.Took(AgentStage::kPrepare, switched->prepare_seconds);
  metrics_.Took(AgentStage::kPause, switched->pause_seconds);
  metrics_.Took(AgentStage::kCommit, switched->load_seconds + switched->reset_seconds);
  metrics_.Took(AgentStage::kVerify, switched->verify_seconds);
  metrics_.Took(AgentStage::kResume, switched->resume_seconds);
  return {};
}

Status Reconciler::Pass() {
  const Stopwatch watch;
  UpdateView update;
  std::optional<Error> first;
  // What fails after it is often its consequence, and must not hide it.
  const auto note = [&](AgentStage stage, const Error& error) {
    if (first) return metrics_.Failed(stage, error.code);
    NoteFailure(stage, error);
    first = error;
  };
  ShowPhase(Phase::kPlanning);
  const auto target = Look();
  if (!target) {
    note(AgentStage::kLookup, target.error());
  } else if (const Status staged = Stage(*target, update); !staged) {
    note(AgentStage::kStage, staged.error());
  }
  const Status switched = SwitchEngines(update, first ? kPatienceAfterAFailure : kPatienceWithWriters);
  if (!switched) note(AgentStage::kCommit, switched.error());
  if (update.engines.engines > 0) NoteUpdate(update, watch.Seconds());
  if (!first) LearnSideFiles();
  ShowIsland();
  status_.Change([&](AgentStatus& now) {
    now.phase = Phase::kWaiting;
    const bool all_in = std::all_of(now.engines.begin(), now.engines.end(),
                                    [](const EngineView& engine) { return engine.in_rotation; });
    now.degraded = first.has_value() || !all_in;
    caught_up_ = !first && target && all_in && now.served == WeightLabel(target->policy.run, target->version);
    if (caught_up_) now.caught_up = true;
    metrics_.SetDegraded(now.degraded);
    metrics_.SetReady(now.Ready());
    metrics_.SetVersions({now.version, now.checkpoint, now.head});
  });
  if (first) return tl::unexpected<Error>(*std::move(first));
  return {};
}

std::shared_ptr<const VersionSideFiles> Reconciler::SideFiles() const {
  const std::lock_guard lock(mutex_);
  return side_files_;
}

// Once for each version, when its engines have it. For whoever looks whether the files are still right: what can't be
// learned (a version whose manifest is gone, a board that is away) is no failure, and side files are then compared with
// what they were.
void Reconciler::LearnSideFiles() {
  const auto present = Present();
  if (!present || !*present || !(*present)->label.version) return;
  const CheckpointState& state = **present;
  const auto known = SideFiles();
  if (known && known->label == state.label && known->model == state.model) return;
  VersionSideFiles learned{state.label, state.model, std::nullopt};
  const auto run = RunId::Parse(state.label.run);
  if (!run) return;
  const auto manifest = board_->ReadSettledManifest(*run, *state.label.version);
  if (!manifest && manifest.error().code != Code::kNotFound) return;  // the next pass asks again
  if (manifest && manifest->model == state.model) learned.files = manifest->side_files;
  KeepSideFiles(std::move(learned));
}

void Reconciler::KeepSideFiles(VersionSideFiles files) {
  auto kept = std::make_shared<const VersionSideFiles>(std::move(files));
  const std::lock_guard lock(mutex_);
  side_files_ = std::move(kept);
}

void Reconciler::NoteFailure(AgentStage stage, const Error& error) {
  metrics_.Failed(stage, error.code);
  bool is_new = false;
  status_.Change([&](AgentStatus& now) {
    ++now.failures;
    FailureView failure{FormatTime(clock_.Now()), std::string(AgentStageName(stage)), std::string(CodeName(error.code)),
                        error.message};
    is_new = !now.failure || now.failure->message != failure.message;
    if (!is_new) failure.count = now.failure->count + 1;
    now.failure = std::move(failure);
  });
  // The same again and again is told once.
  if (is_new) LogWarning("{}: {}", AgentStageName(stage), error.message);
}

void Reconciler::NoteUpdate(UpdateView update, double seconds) {
  update.time = FormatTime(clock_.Now());
  if (update.how.empty()) update.how = "engines";
  const auto label = ParseWeightLabel(update.label);
  const Version version = *label->version;
  const uint64_t moved = live_ && *live_ < version ? version.number() - live_->number() : 0;
  live_ = version;
  metrics_.Updated({.total_seconds = seconds,
                    .paused_seconds = update.engines.paused_seconds,
                    .versions = moved,
                    .fetched_bytes = update.bytes_fetched,
                    .changed_elements = update.changed,
                    .model_elements = update.elements},
                   clock_.Now());
  LogInfo("{} is live on {} of {} engines ({}): {} elements changed, {} bytes fetched, {:.2f} s, paused for {:.0f} ms",
          update.label, update.engines.engines, island_.Views().size(), update.how, update.changed,
          update.bytes_fetched, seconds, update.engines.paused_seconds * 1000);
  status_.Change([&](AgentStatus& now) {
    ++now.updates;
    now.last_update = std::move(update);
  });
}

void Reconciler::ShowIsland() {
  const auto views = island_.Views();
  const auto served = island_.ServedLabel();
  for (const EngineView& engine : views) {
    const auto label = ParseWeightLabel(engine.label);
    metrics_.SetEngine(engine.name, engine.in_rotation, label ? label->version : std::nullopt);
    for (uint64_t& known = restarts_[engine.name]; known < engine.restarts; ++known) {
      metrics_.EngineRestarted(engine.name);
    }
  }
  status_.Change([&](AgentStatus& now) {
    now.engines = views;
    now.served = served;
    now.version.reset();
    const auto label = served ? ParseWeightLabel(*served) : std::nullopt;
    if (label && label->run == now.run) now.version = label->version;
  });
}

void Reconciler::ShowPhase(Phase phase) {
  status_.Change([&](AgentStatus& now) { now.phase = phase; });
}

}  // namespace skerry
