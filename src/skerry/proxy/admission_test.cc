#include "skerry/proxy/admission.h"

#include <gtest/gtest.h>

namespace skerry {
namespace {

using Phase = Admission::Phase;

VersionLabel At(uint64_t version) { return {"r", Version(version)}; }
VersionConstraint Min(uint64_t version) { return {.min = Version(version), .exact = {}, .wait = {}}; }
VersionConstraint Exact(uint64_t version) { return {.min = {}, .exact = Version(version), .wait = {}}; }

Admission Engines(size_t count) {
  return Admission(std::vector<std::pair<std::string, std::string>>(count, {"vllm http://h:1", "vllm"}));
}
Admission OneAt(uint64_t version) {
  Admission admission = Engines(1);
  admission.SetIn(0, At(version));
  return admission;
}

// "engine 0 at 6", "later", "409 of 6 (waits)", "503".
std::string Decided(Admission& admission, const VersionConstraint& constraint) {
  const auto decision = admission.Decide(constraint);
  if (const auto* admitted = std::get_if<Admission::Admitted>(&decision)) {
    return fmt::format("engine {} at {}", admitted->engine, *admitted->live.version);
  }
  const auto* refused = std::get_if<Admission::Refused>(&decision);
  if (refused == nullptr) return "later";
  std::string text = refused->not_ready ? "409" : "503";
  if (refused->applied) text += fmt::format(" of {}", *refused->applied->version);
  return refused->worth_waiting ? text + " (waits)" : text;
}

TEST(Admission, ComparesTheVersionInRotation) {
  Admission admission = OneAt(6);
  EXPECT_EQ(Decided(admission, Min(7)), "409 of 6 (waits)");
  EXPECT_EQ(Decided(admission, Exact(5)), "409 of 6");
  EXPECT_EQ(Decided(admission, Exact(7)), "409 of 6 (waits)");
  EXPECT_EQ(Decided(admission, Min(6)), "engine 0 at 6");
  EXPECT_EQ(Decided(admission, Exact(6)), "engine 0 at 6");
  EXPECT_EQ(Decided(admission, {}), "engine 0 at 6");
  EXPECT_EQ(admission.engines()[0].running, 3);
  EXPECT_EQ(admission.engines()[0].exact, 1);
}

TEST(Admission, SaysUnavailableOnlyWhereTheVersionIsNotWhatIsMissing) {
  Admission admission = OneAt(6);
  admission.SetOut(0, /*certain=*/true);
  EXPECT_EQ(Decided(admission, {}), "503 of 6 (waits)");
  EXPECT_EQ(Decided(admission, Min(6)), "503 of 6 (waits)");
  EXPECT_EQ(Decided(admission, Min(7)), "409 of 6 (waits)");
  EXPECT_EQ(Decided(admission, Exact(5)), "409 of 6");
  Admission fresh = Engines(1);
  EXPECT_EQ(Decided(fresh, {}), "503 (waits)");
  EXPECT_EQ(Decided(fresh, Min(0)), "409 (waits)");
}

TEST(Admission, TakesTheEngineWithTheFewestRequestsAmongThoseThatServeIt) {
  Admission admission = Engines(3);
  admission.SetIn(0, At(6));
  admission.SetIn(1, At(7));
  admission.SetIn(2, At(7));
  EXPECT_EQ(Decided(admission, Min(7)), "engine 1 at 7");
  EXPECT_EQ(Decided(admission, Min(7)), "engine 2 at 7");
  EXPECT_EQ(Decided(admission, {}), "engine 0 at 6");
  admission.Ended(2, /*exact=*/false);
  EXPECT_EQ(Decided(admission, Min(7)), "engine 2 at 7");
  EXPECT_EQ(Decided(admission, Exact(8)), "409 of 7 (waits)");
}

TEST(Admission, KeepsExactRequestsFromAnEngineThatIsLeavingTheirVersion) {
  Admission admission = OneAt(6);
  EXPECT_EQ(Decided(admission, Exact(6)), "engine 0 at 6");
  admission.BeginSwitch(0, At(7), PausePolicy::kInPlace);
  EXPECT_EQ(admission.ToWaitFor(0), 1);
  EXPECT_EQ(Decided(admission, Exact(6)), "409 of 6") << "it would hold up the switch";
  EXPECT_EQ(Decided(admission, {}), "engine 0 at 6") << "it may be moved";
  EXPECT_EQ(Decided(admission, Exact(7)), "later");
  EXPECT_EQ(admission.ToWaitFor(0), 1);
  admission.Ended(0, /*exact=*/true);
  EXPECT_EQ(admission.ToWaitFor(0), 0);
  admission.Paused(0);
  EXPECT_EQ(Decided(admission, {}), "later");
  EXPECT_EQ(Decided(admission, Min(8)), "409 of 6 (waits)");
  admission.Flip(0);
  admission.SetIn(0, At(7));
  EXPECT_EQ(Decided(admission, {}), "later") << "it has not gone on yet";
  admission.EndSwitch(0);
  EXPECT_EQ(Decided(admission, Exact(7)), "engine 0 at 7");
  EXPECT_EQ(Decided(admission, Exact(6)), "409 of 7");
}

TEST(Admission, WaitsForAllThatADrainHasToEnd) {
  Admission admission = OneAt(6);
  EXPECT_EQ(Decided(admission, {}), "engine 0 at 6");
  admission.BeginSwitch(0, At(7), PausePolicy::kDrain);
  EXPECT_EQ(admission.ToWaitFor(0), 1);
  EXPECT_EQ(Decided(admission, {}), "later");
  admission.EndSwitch(0);
  admission.BeginSwitch(0, At(7), PausePolicy::kAbort);
  EXPECT_EQ(admission.ToWaitFor(0), 0) << "the engine ends them";
}

TEST(Admission, OpensNoEngineWhoseSwitchFailed) {
  Admission admission = Engines(2);
  admission.SetIn(0, At(6));
  admission.SetIn(1, At(6));
  for (const size_t engine : {0, 1}) {
    admission.BeginSwitch(engine, At(7), PausePolicy::kInPlace);
    admission.Paused(engine);
  }
  admission.SetOut(1, /*certain=*/false);
  admission.Flip(0);
  admission.SetIn(0, At(7));
  admission.EndSwitch(0);
  admission.EndSwitch(1);
  EXPECT_EQ(admission.engines()[1].phase, Phase::kOut);
  EXPECT_EQ(admission.engines()[1].live, std::nullopt);
  EXPECT_EQ(Decided(admission, {}), "engine 0 at 7");
  EXPECT_EQ(Decided(admission, Exact(6)), "409 of 7");
}

TEST(Admission, OpensAnEngineThatWasBroughtBack) {
  Admission admission = Engines(1);
  admission.BeginSwitch(0, At(7), PausePolicy::kInPlace);
  EXPECT_EQ(admission.ToWaitFor(0), 0);
  EXPECT_EQ(Decided(admission, {}), "503 (waits)");
  admission.Paused(0);
  admission.Flip(0);
  admission.SetIn(0, At(7));
  admission.EndSwitch(0);
  EXPECT_EQ(Decided(admission, {}), "engine 0 at 7");
}

TEST(Admission, GoesOnWhereASwitchWasGivenUpBeforeItsPause) {
  Admission admission = OneAt(6);
  admission.BeginSwitch(0, At(7), PausePolicy::kInPlace);
  admission.Paused(0);
  admission.EndSwitch(0);
  EXPECT_EQ(Decided(admission, Exact(6)), "engine 0 at 6");
}

}  // namespace
}  // namespace skerry
