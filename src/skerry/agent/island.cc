#include "skerry/agent/island.h"

#include <algorithm>

#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/log.h"

namespace skerry {

// The engine and the call it is in stay together: a call that never returns must not outlive what it uses.
struct Island::Member {
  std::unique_ptr<Engine> engine;
  std::string name;
  EngineFacts facts;       // of the last Probe that succeeded
  bool reachable = false;  // the last Probe succeeded, and it may be switched
  bool checked = false;    // Engine::Check said yes for this instance
  WeightUpdate update;
  size_t place = 0;                          // in the island
  std::future<Result<EngineFacts>> pending;  // a call that had not returned when the others went on
  EngineView view;                           // guarded by mutex_
};

// Requests are kept from engines that are being switched for as long as this lives.
class Island::TrafficSwitch {
 public:
  TrafficSwitch(Traffic* traffic, const std::vector<Member*>& members, const std::string& label,
                const IslandOptions& options)
      : traffic_(traffic), places_(PlacesOf(members)) {
    if (traffic_ != nullptr) traffic_->BeginSwitch(places_, label, options.pause, options.drain);
  }
  ~TrafficSwitch() {
    if (traffic_ != nullptr) traffic_->EndSwitch(places_);
  }
  TrafficSwitch(const TrafficSwitch&) = delete;
  TrafficSwitch& operator=(const TrafficSwitch&) = delete;

  static std::vector<size_t> PlacesOf(const std::vector<Member*>& members) {
    std::vector<size_t> places;
    for (const Member* member : members) places.push_back(member->place);
    return places;
  }

 private:
  Traffic* const traffic_;
  const std::vector<size_t> places_;
};

Island::Island(std::vector<std::unique_ptr<Engine>> engines, IslandOptions options, const Path& directory,
               Traffic* traffic)
    : options_(options), records_(directory), traffic_(traffic) {
  for (auto& engine : engines) {
    auto member = std::make_unique<Member>();
    member->name = engine->Describe();
    member->place = members_.size();
    // Commands are described by their first word alone.
    const auto alike = std::count_if(members_.begin(), members_.end(),
                                     [&](const auto& other) { return other->engine->Describe() == member->name; });
    if (alike > 0) member->name += fmt::format(" #{}", alike + 1);
    member->view.name = member->name;
    member->view.problem = "not asked yet";
    member->engine = std::move(engine);
    members_.push_back(std::move(member));
  }
}

Island::~Island() = default;

void Island::Show(Member& member, const std::function<void(EngineView&)>& change) {
  const EngineView& view = member.view;  // only this thread changes it
  const bool was_in = view.in_rotation;
  const std::string label = view.label;
  {
    const std::lock_guard lock(mutex_);
    change(member.view);
  }
  if (traffic_ != nullptr && (view.in_rotation != was_in || view.label != label)) {
    view.in_rotation ? traffic_->SetIn(member.place, view.label)
                     : traffic_->SetOut(member.place, /*certain=*/!view.label.empty());
  }
  if (on_change_) on_change_();
}

void Island::SetOut(Member& member, const Error& error, bool keep_record) {
  if (!keep_record) records_.Forget(member.name);
  member.reachable = false;
  Show(member, [&](EngineView& view) {
    view.in_rotation = false;
    view.problem = error.message;
    if (!keep_record) view.label.clear();
    ++view.failures;
  });
}

void Island::LookAt(Member& member, const Result<EngineFacts>& facts) {
  if (!facts) {
    // It may be only the way to it. If it comes back as it was, it still serves what it served.
    SetOut(member, facts.error(), /*keep_record=*/true);
    return;
  }
  if (facts->instance != member.facts.instance) member.checked = false;
  member.facts = *facts;
  member.reachable = !facts->asleep;
  const EngineRecord* record = records_.Find(member.name);
  std::string problem;
  bool restarted = false;
  if (facts->asleep) {
    problem = "asleep: it gets the whole model when it wakes";
  } else if (record == nullptr) {
    problem = "serves weights that nobody vouches for: it gets the whole model";
  } else if (facts->instance != record->instance) {
    restarted = true;
    problem = fmt::format("was restarted and is back on the weights that it boots with, not {}", record->label);
  } else if (facts->label.empty() && facts->instance.empty()) {
    problem = "can't say what it serves: it gets the whole model";
  } else if (!facts->label.empty() && facts->label != record->label) {
    problem = fmt::format("says that it serves \"{}\", not {}", facts->label, record->label);
  }
  const bool uncertain = !problem.empty();
  if (!uncertain && facts->paused) problem = "is paused, and not by this agent";
  if (uncertain) records_.Forget(member.name);
  Show(member, [&](EngineView& view) {
    view.version = facts->version;
    view.paused = facts->paused;
    view.asleep = facts->asleep;
    view.label = uncertain ? "" : record->label;
    view.in_rotation = problem.empty();
    view.problem = problem;
    if (restarted) ++view.restarts;
  });
}

void Island::Look() {
  using std::chrono::milliseconds;
  for (auto& member : members_) {
    if (member->pending.valid()) continue;
    member->pending = std::async(std::launch::async, [engine = member->engine.get()] { return engine->Probe(); });
  }
  for (auto& member : members_) {
    // A Probe ends within its own limit. What a straggler is still in may take longer: it is left alone.
    const bool straggles = !member->view.busy.empty();
    if (straggles && member->pending.wait_for(milliseconds(0)) != std::future_status::ready) continue;
    const auto facts = member->pending.get();
    if (straggles) {
      Show(*member, [](EngineView& view) { view.busy.clear(); });
      continue;  // whatever it answered came too late; the next look asks anew
    }
    LookAt(*member, facts);
  }
}

bool Island::NeedsSwitch(const std::string& label) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& member) {
    const EngineRecord* record = records_.Find(member->name);
    return member->reachable && (record == nullptr || record->label != label);
  });
}

double Island::Together(std::vector<Member*>& members, std::string_view name, const std::function<Call(Member&)>& call,
                        bool harmless) {
  const Stopwatch watch;
  for (Member* member : members) {
    Show(*member, [&](EngineView& view) { view.busy = name; });
    member->pending = std::async(std::launch::async, [engine = member->engine.get(), call = call(*member)]() {
      const Status done = call(*engine);
      return done ? Result<EngineFacts>(EngineFacts()) : tl::unexpected<Error>(done.error());
    });
  }
  // Once one is done, the others have `straggler` to follow.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::vector<Member*> open = members;
  members.clear();
  while (!open.empty()) {
    for (size_t i = 0; i < open.size();) {
      Member& member = *open[i];
      if (member.pending.wait_for(std::chrono::milliseconds(open.size() > 1 ? 1 : 20)) != std::future_status::ready) {
        ++i;
        continue;
      }
      const auto done = member.pending.get();
      Show(member, [](EngineView& view) { view.busy.clear(); });
      if (done) {
        members.push_back(&member);
      } else {
        SetOut(member, done.error(), harmless);
      }
      open.erase(open.begin() + static_cast<ptrdiff_t>(i));
      if (!deadline) deadline = std::chrono::steady_clock::now() + options_.straggler;
    }
    if (!deadline || std::chrono::steady_clock::now() < *deadline) continue;
    for (Member* member : open) {
      SetOut(*member,
             Error{Code::kUnavailable, fmt::format("{}: {} has not returned {} s after the island's other engines",
                                                   member->name, name, options_.straggler.count() / 1000.0)},
             harmless);
    }
    break;
  }
  return watch.Seconds();
}

// What can be done while the engines serve. An engine that can't use the changes gets the whole model.
void Island::Prepare(std::vector<Member*>& members, const WeightUpdate& update, const Checkpoint& checkpoint,
                     const Changes& changes) {
  const auto check = [&](Member& member) -> Call {
    return [this, &member, &checkpoint](Engine& engine) -> Status {
      if (member.checked) return {};
      SKERRY_TRY(engine.Check(checkpoint));
      if (!engine.CanPause(options_.pause)) {
        return Fail(Code::kUnsupported, "{}: does not know this way to pause (--pause in-place, drain, abort)",
                    engine.Describe());
      }
      member.checked = true;
      return {};
    };
  };
  (void)Together(members, "check", check, /*harmless=*/true);
  for (Member* member : members) {
    member->update = update;
    member->update.changes.reset();
    const EngineRecord* record = records_.Find(member->name);
    if (record == nullptr || !member->engine->TakesChanges()) continue;
    if (auto found = changes(record->label); found) member->update.changes = *std::move(found);
  }
  const auto prepare = [](Member& member) -> Call {
    return [&member](Engine& engine) -> Status {
      const Status prepared = engine.Prepare(member.update);
      if (prepared || !member.update.changes) return prepared;
      LogWarning("{} gets the whole model: what changed could not be prepared: {}", member.name,
                 prepared.error().message);
      member.update.changes.reset();
      return engine.Prepare(member.update);
    };
  };
  (void)Together(members, "prepare", prepare, /*harmless=*/true);
}

// An engine that has to be brought back gets the whole model, which takes longer: those that serve don't wait for it.
Result<SwitchReceipt> Island::Switch(const WeightUpdate& update, const Checkpoint& checkpoint, const Changes& changes) {
  std::vector<Member*> serving, others;
  for (auto& member : members_) {
    const EngineRecord* record = records_.Find(member->name);
    if (!member->reachable || (record != nullptr && record->label == update.label)) continue;
    (record != nullptr ? serving : others).push_back(member.get());
  }
  SwitchReceipt receipt;
  for (const std::vector<Member*>& group : {serving, others}) {
    if (!group.empty()) SKERRY_TRY(SwitchTogether(group, update, checkpoint, changes, receipt));
  }
  if (receipt.engines > 0 || (serving.empty() && others.empty())) return receipt;
  const std::lock_guard lock(mutex_);
  const Member& first = serving.empty() ? *others.front() : *serving.front();
  return Fail(Code::kUnavailable, "no engine took {}: {}", update.label, first.view.problem);
}

Status Island::SwitchTogether(std::vector<Member*> members, const WeightUpdate& update, const Checkpoint& checkpoint,
                              const Changes& changes, SwitchReceipt& receipt) {
  Stopwatch watch;
  Prepare(members, update, checkpoint, changes);
  receipt.prepare_seconds += watch.Lap();
  SKERRY_TRY(Failpoint("agent.prepared"));
  if (members.empty()) return {};

  const EngineRecords before = records_;
  for (Member* member : members) records_.Forget(member->name);
  if (const Status noted = records_.Save(); !noted) {
    records_ = before;  // no engine has been touched
    return noted;
  }
  std::optional<TrafficSwitch> traffic(std::in_place, traffic_, members, update.label, options_);
  SKERRY_TRY(Failpoint("agent.uncertain_noted"));
  SKERRY_TRY(SwitchPaused(members, receipt));
  SKERRY_TRY(Failpoint("agent.resumed"));

  for (Member* member : members) {
    records_.Set(member->name, {update.label, member->facts.instance});
    ++receipt.engines;
    if (member->update.changes) ++receipt.by_changes;
    Show(*member, [&](EngineView& view) {
      view.label = update.label;
      view.in_rotation = true;
      view.paused = false;
      view.problem.clear();
    });
  }
  traffic.reset();
  SKERRY_TRY(records_.Save());
  return Failpoint("agent.certain_noted");
}

// Pause to resume. Nothing is done here that could be done before or after.
Status Island::SwitchPaused(std::vector<Member*>& members, SwitchReceipt& receipt) {
  const auto all = [&](std::string_view name, auto method) {
    return Together(
        members, name,
        [method](Member& member) -> Call {
          return [&member, method](Engine& engine) { return method(engine, member.update); };
        },
        /*harmless=*/false);
  };
  const Stopwatch paused;
  receipt.pause_seconds +=
      all("pause", [this](Engine& engine, const WeightUpdate&) { return engine.Pause(options_.pause); });
  SKERRY_TRY(Failpoint("agent.paused"));
  receipt.load_seconds += all("load", [](Engine& engine, const WeightUpdate& update) { return engine.Load(update); });
  SKERRY_TRY(Failpoint("agent.loaded"));
  if (options_.cache == CachePolicy::kFlush) {
    receipt.reset_seconds +=
        all("reset of caches", [](Engine& engine, const WeightUpdate&) { return engine.ResetCache(); });
  }
  receipt.verify_seconds +=
      all("verify", [](Engine& engine, const WeightUpdate& update) { return engine.Verify(update); });
  SKERRY_TRY(Failpoint("agent.verified"));
  if (traffic_ != nullptr) traffic_->Flip(TrafficSwitch::PlacesOf(members));
  receipt.resume_seconds += all("resume", [](Engine& engine, const WeightUpdate&) { return engine.Resume(); });
  receipt.paused_seconds += paused.Seconds();
  return {};
}

std::vector<EngineView> Island::Views() const {
  const std::lock_guard lock(mutex_);
  std::vector<EngineView> views;
  for (const auto& member : members_) views.push_back(member->view);
  return views;
}

std::optional<std::string> Island::ServedLabel() const {
  std::optional<std::string> label;
  for (const EngineView& view : Views()) {
    if (!view.in_rotation) continue;
    if (label && *label != view.label) return std::nullopt;
    label = view.label;
  }
  return label;
}

}  // namespace skerry
