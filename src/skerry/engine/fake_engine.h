// An engine in memory for tests: it really holds the tensors, so that a test can ask which weights it serves, and it
// fails where the test wants it to.
#ifndef SKERRY_ENGINE_FAKE_ENGINE_H_
#define SKERRY_ENGINE_FAKE_ENGINE_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "skerry/engine/engine.h"
#include "skerry/engine/engine_call.h"

namespace skerry {

// What goes wrong at a call.
struct FakeFault {
  enum class Kind {
    kFails,    // the engine says that it failed (kIo)
    kHangs,    // no answer within the time (kUnavailable; nobody really waits)
    kRefuses,  // it can't do that (kUnsupported)
    kDies,     // the connection breaks, the process is gone until Restart() (kUnavailable)
    kPartly,   // Load only: half of each tensor is new, then it fails (kIo)
    kStale,    // Load only: success is said and nothing done
  };
  Kind kind = Kind::kFails;
  int times = 1;       // negative: for ever
  bool works = false;  // kFails, kHangs, kDies: the call has taken its effect before its answer was lost
};

// The server process: outlives the FakeEngine objects that speak to it. Thread-safe.
class FakeServer {
 public:
  // Of one call, in the order in which they began.
  struct Entry {
    EngineCall call;
    std::string label;  // of the update; the policy of a pause
    Code code = Code::kIo;
    bool ok = false;
    std::chrono::steady_clock::time_point begin, end;
  };
  // What a request is answered with.
  struct Answer {
    std::string weights;  // ServedModel() when it was computed
    std::string prefix;   // the weights that computed the part of the prompt that came from the cache; empty: none did
  };

  // Boots with the weights of `boot`, a checkpoint directory; an empty path: with no tensors.
  explicit FakeServer(Path boot = {}, std::string name = "fake");

  void Script(EngineCall call, FakeFault fault);
  // Called at the begin of each call, before anything is done, without a lock: may block, script, restart.
  void OnCall(std::function<void(EngineCall)> hook);

  // A new process: boot weights, no label of ours, not paused, awake, empty cache.
  Status Restart();
  void Stop();  // nobody answers until Restart
  void Sleep();
  // `weights_kept` false: deep sleep had dropped them, and boot weights are what is there now.
  Status Wake(bool weights_kept);
  // Requests that run until Pause drains or aborts them. While there are any, ResetCache fails unless Pause has put
  // them back or ended them (the flush of some engines is refused then).
  void StartRequests(int count);
  int running() const;
  void RefuseFlushWhileRunning(bool on);
  // Whether Load takes WeightUpdate::changes.
  void TakeChanges(bool on);
  // A load of a path that was loaded before takes what it found there the first time.
  void CacheFilesByPath(bool on);

  // The model digest of the tensors in memory, in hexadecimal: equal to WeightUpdate::model after a good switch.
  std::string ServedModel() const;
  std::string label() const;
  bool paused() const;
  std::string instance() const;
  std::vector<Entry> trace() const;
  // "probe pause load", for tests that look at the order alone.
  std::string TraceText() const;
  void ClearTrace();

  // Answers a prompt; the prefix cache is keyed by prompt and salt. kUnavailable while paused, asleep or stopped.
  Result<Answer> Generate(const std::string& prompt, const std::string& salt = "");

 private:
  friend class FakeEngine;
  struct State;

  std::shared_ptr<State> state_;
};

// Not thread-safe, as all engines; several may share a server, one after another.
class FakeEngine : public Engine {
 public:
  explicit FakeEngine(FakeServer& server, EngineOptions options = {});

  std::string Describe() const override;
  Result<EngineFacts> Probe() override;
  Status Check(const Checkpoint& checkpoint) override;
  bool TakesChanges() const override;
  Status Prepare(const WeightUpdate& update) override;
  Status Pause(PausePolicy policy) override;
  Status Load(const WeightUpdate& update) override;
  Status ResetCache() override;
  Status Verify(const WeightUpdate& update) override;
  Status Resume() override;

 private:
  // What a call does; the fault is the one that happens to it, nullptr where all is well.
  using Work = std::function<Status(const FakeFault* fault)>;
  // Runs a call's work between the scripted faults and the trace.
  Status Do(EngineCall call, const std::string& about, const Work& work);

  std::shared_ptr<FakeServer::State> state_;
  EngineOptions options_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_FAKE_ENGINE_H_
