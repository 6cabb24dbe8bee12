#include "skerry/engine/exec_engine.h"

#include <signal.h>

#include "skerry/engine/child_command.h"
#include "skerry/engine/engine_conformance.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A command that keeps what it serves in files, and fails where a file says so.
constexpr std::string_view kScript = R"(
fault=DIR/fault-$SKERRY_PHASE
echo "$SKERRY_PHASE $SKERRY_LABEL $SKERRY_PAUSE" >> DIR/trace
if [ -f $fault ]; then
  kind=$(cat $fault); rm $fault
  case $kind in
    hang) sleep 600 ;;
    signal) kill -KILL $$ ;;
    *) echo "scripted failure of $SKERRY_PHASE"; exit 3 ;;
  esac
fi
case $SKERRY_PHASE in
  pause) touch DIR/paused ;;
  load) test -f "$SKERRY_CHECKPOINT/config.json" && printf %s "$SKERRY_MODEL" > DIR/serving ;;
  resume) rm -f DIR/paused ;;
esac
)";

struct ExecBackend {
  static constexpr int kWays = 2;
  static constexpr bool kTellsLabel = false, kDrains = true;

  ExecBackend(const Path& boot, const EngineOptions& options) {
    std::string script(kScript);
    for (size_t at; (at = script.find("DIR")) != std::string::npos;) script.replace(at, 3, home.path().string());
    WriteText(home / "serving", ModelOf(boot).Hex());
    adapter = std::make_unique<ExecEngine>(script, options);
  }
  Engine& engine() { return *adapter; }
  std::string ServedModel() { return ReadText(home / "serving"); }
  bool paused() { return std::filesystem::exists(home / "paused"); }
  void Fault(EngineCall call, std::string_view kind) {
    WriteText(home / fmt::format("fault-{}", EngineCallName(call)), kind);
  }
  void Fail(EngineCall call, int way) { Fault(call, way == 0 ? "fail" : "signal"); }
  void Hang(EngineCall call) { Fault(call, "hang"); }
  void Restart() {}
  void Stop() {}

  TempDir home;
  std::unique_ptr<Engine> adapter;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Exec, EngineConformance, ExecBackend);

EngineOptions Within(int milliseconds) {
  const std::chrono::milliseconds time(milliseconds);
  return {.timeouts = {.control = time, .drain = time, .load = time}};
}

TEST(ExecEngine, TellsTheCommandWhatItNeeds) {
  TempDir home;
  MovingModel model;
  const WeightUpdate update = model.Step();
  ExecEngine engine("env | grep '^SKERRY_' | sort > " + (home / "env").string(), Within(60'000));
  ASSERT_THAT(engine.Prepare(update), Succeeds());
  EXPECT_EQ(
      ReadText(home / "env"),
      fmt::format("SKERRY_CHECKPOINT={}\nSKERRY_LABEL=grpo@1\nSKERRY_MODEL={}\nSKERRY_PAUSE=\nSKERRY_PHASE=prepare\n"
                  "SKERRY_RUN=grpo\nSKERRY_VERSION=1\n",
                  update.checkpoint.string(), update.model.Hex()));
  ASSERT_THAT(engine.Pause(PausePolicy::kDrain), Succeeds());
  EXPECT_THAT(ReadText(home / "env"), AllOf(HasSubstr("SKERRY_PAUSE=drain\n"), HasSubstr("SKERRY_PHASE=pause\n")));
}

TEST(ExecEngine, NamesPhaseExitCodeAndTheEndOfTheOutput) {
  ExecEngine engine("echo to stdout; echo a\033[31m bad thing >&2; exit 7", Within(60'000));
  EXPECT_THAT(engine.ResetCache(),
              Fails(Code::kIo, AllOf(HasSubstr("phase reset_cache"), HasSubstr("exit code 7"),
                                     HasSubstr("to stdout\\x0aa\\x1b[31m bad thing"), Not(HasSubstr("\033")))));
}

TEST(ExecEngine, KeepsArgumentsOutOfMessages) {
  ExecEngine engine("false --token SECRET", Within(60'000));
  EXPECT_EQ(engine.Describe(), "exec false");
  EXPECT_THAT(engine.ResetCache(), Fails(Code::kIo, Not(HasSubstr("SECRET"))));
  EXPECT_EQ(ExecEngine("TOKEN=SECRET run", {}).Describe(), "exec");
}

TEST(ChildCommand, KillsTheWholeFamilyOfACommandThatHangs) {
  TempDir home;
  // The grandchild would hold the pipe open for ever.
  const CommandOutcome outcome =
      Must(RunCommand("echo began; sleep 600 & sleep 600", {}, std::chrono::milliseconds(300)));
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(outcome.output, "began\n");
  EXPECT_EQ(outcome.exit_code, 128 + 9);
}

TEST(ChildCommand, DoesNotWaitForWhatTheCommandLeavesInTheBackground) {
  TempDir home;
  const std::string pid = (home / "pid").string();
  const CommandOutcome outcome =
      Must(RunCommand("sleep 600 & echo $! > " + pid + "; echo done", {}, std::chrono::minutes(5)));
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.output, "done\n");
  const pid_t left = static_cast<pid_t>(std::stol(ReadText(pid)));
  EXPECT_EQ(::kill(left, SIGKILL), 0) << "it still runs";
}

TEST(ChildCommand, KeepsTheEndOfALongOutput) {
  const CommandOutcome outcome =
      Must(RunCommand("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done", {}, std::chrono::minutes(5)));
  EXPECT_EQ(outcome.output.size(), kOutputTail);
  EXPECT_THAT(outcome.output, testing::EndsWith("line 2999\n"));
}

TEST(ChildCommand, StartsWithDefaultSignalsThoughTheCallerBlocksThem) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const Result<CommandOutcome> outcome = RunCommand("kill -TERM $$; echo survived", {}, std::chrono::minutes(5));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(Must(outcome).exit_code, 128 + 15);
  EXPECT_EQ(Must(outcome).output, "");
}

}  // namespace
}  // namespace skerry
