#include "skerry/metrics/agent_metrics.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "skerry/metrics/proxy_metrics.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr AgentMetrics::Time kTime{std::chrono::seconds(1'000)};

// Every function of AgentMetrics once, so that every series is there.
void UseAll(AgentMetrics& metrics) {
  metrics.Took(AgentStage::kFetch, 0.25);
  metrics.Failed(AgentStage::kCommit, Code::kMismatch);
  metrics.Updated({.total_seconds = 3,
                   .paused_seconds = 0.5,
                   .versions = 2,
                   .fetched_bytes = 1 << 20,
                   .changed_elements = 100,
                   .model_elements = 100'000},
                  kTime);
  metrics.RolledBack();
  metrics.Woken();
  metrics.LookedUp({}, kTime);
  metrics.SetRun(Must(RunId::Parse("grpo-1")));
  metrics.SetVersions({.live = Version(6), .staged = Version(7), .head = Version(9)});
  metrics.SetReady(true);
  metrics.SetDegraded(false);
  metrics.SetEngine("vllm http://127.0.0.1:8000", true, Version(6));
  metrics.EngineRestarted("vllm http://127.0.0.1:8000");
  metrics.SetObjectCache(10, 20);
  metrics.Scrubbed(1000);
  metrics.ScrubMismatch();
  metrics.ScrubPassed(kTime);
}

std::string ReadDocument() {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
  std::ifstream in(root / "docs" / "metrics.md");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// "name type label,label" for each metric.
std::set<std::string> InDocument(const std::string& text) {
  std::set<std::string> found;
  const std::regex row(R"(\n\| `(\w+)` \| (\w+) \| ([^|]*)\|)"), code("`(\\w+)`");
  for (std::sregex_iterator i(text.begin(), text.end(), row), end; i != end; ++i) {
    const std::string labels = (*i)[3];
    std::set<std::string> names;
    for (std::sregex_iterator l(labels.begin(), labels.end(), code); l != end; ++l) names.insert((*l)[1]);
    found.insert(fmt::format("{} {} {}", (*i)[1].str(), (*i)[2].str(), fmt::join(names, ",")));
  }
  return found;
}

std::set<std::string> InExposition(const std::string& text) {
  std::set<std::string> found;
  const std::regex type(R"((?:^|\n)# TYPE (\w+) (\w+)\n(\w+)(?:\{([^\n]*)\})? )"), label(R"re((\w+)=")re");
  for (std::sregex_iterator i(text.begin(), text.end(), type), end; i != end; ++i) {
    const std::string labels = (*i)[4];
    std::set<std::string> names;
    for (std::sregex_iterator l(labels.begin(), labels.end(), label); l != end; ++l) names.insert((*l)[1]);
    found.insert(fmt::format("{} {} {}", (*i)[1].str(), (*i)[2].str(), fmt::join(names, ",")));
  }
  return found;
}

TEST(AgentMetrics, AreThoseOfTheDocument) {
  MetricRegistry registry;
  AgentMetrics metrics(registry, "1.2.3");
  UseAll(metrics);
  const ProxyMetrics proxy(registry);
  const std::set<std::string> documented = InDocument(ReadDocument());
  EXPECT_GT(documented.size(), 30u);
  EXPECT_EQ(InExposition(registry.Text()), documented);
}

TEST(AgentMetrics, NameTheirStagesAndCausesAsTheDocumentDoes) {
  MetricRegistry registry;
  const AgentMetrics metrics(registry, "1.2.3");
  const ProxyMetrics proxy(registry);
  const std::string text = registry.Text(), document = ReadDocument();
  const std::regex label("(?:stage|cause|ended|direction)=\"(\\w+)\"");
  int seen = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), label), end; i != end; ++i, ++seen) {
    EXPECT_THAT(document, HasSubstr(fmt::format("`{}`", (*i)[1].str())));
  }
  EXPECT_GT(seen, 100);
}

TEST(AgentMetrics, HaveTheSeriesOfEachStageAndCauseFromTheStart) {
  MetricRegistry registry;
  const AgentMetrics metrics(registry, "1.2.3");
  const std::string text = registry.Text();
  EXPECT_THAT(text, AllOf(HasSubstr("skerry_build_info{version=\"1.2.3\"} 1\n"),
                          HasSubstr("skerry_stage_seconds_count{stage=\"resume\"} 0\n"),
                          HasSubstr("skerry_failures_total{cause=\"no_space\",stage=\"stage\"} 0\n"),
                          HasSubstr("skerry_live_version Nan\n"), HasSubstr("skerry_versions_behind Nan\n"),
                          HasSubstr("skerry_last_update_timestamp_seconds 0\n"), HasSubstr("skerry_ready 0\n")));
}

TEST(AgentMetrics, ShowWhatWasRecorded) {
  MetricRegistry registry;
  AgentMetrics metrics(registry, "1.2.3");
  UseAll(metrics);
  const std::string text = registry.Text();
  for (const char* line : {"skerry_stage_seconds_sum{stage=\"fetch\"} 0.25",
                           "skerry_failures_total{cause=\"mismatch\",stage=\"commit\"} 1",
                           "skerry_update_seconds_sum 3",
                           "skerry_update_paused_seconds_sum 0.5",
                           "skerry_update_versions_sum 2",
                           "skerry_update_fetched_bytes_sum 1048576",
                           "skerry_update_changed_elements_sum 100",
                           "skerry_update_density_ratio_sum 0.001",
                           "skerry_last_update_timestamp_seconds 1000",
                           "skerry_rollbacks_total 1",
                           "skerry_wakeups_total 1",
                           "skerry_board_lookups_total 1",
                           "skerry_last_lookup_timestamp_seconds 1000",
                           "skerry_run_info{run=\"grpo-1\"} 1",
                           "skerry_live_version 6",
                           "skerry_staged_version 7",
                           "skerry_head_version 9",
                           "skerry_versions_behind 3",
                           "skerry_ready 1",
                           "skerry_degraded 0",
                           "skerry_engines 1",
                           "skerry_engines_in_rotation 1",
                           "skerry_engine_in_rotation{engine=\"vllm http://127.0.0.1:8000\"} 1",
                           "skerry_engine_version{engine=\"vllm http://127.0.0.1:8000\"} 6",
                           "skerry_engine_restarts_total{engine=\"vllm http://127.0.0.1:8000\"} 1",
                           "skerry_object_cache_bytes 10",
                           "skerry_object_cache_limit_bytes 20",
                           "skerry_scrubbed_bytes_total 1000",
                           "skerry_scrub_mismatches_total 1",
                           "skerry_last_scrub_timestamp_seconds 1000"}) {
    EXPECT_THAT(text, HasSubstr(fmt::format("\n{}\n", line)));
  }
}

TEST(AgentMetrics, CountFailedLookupsAsFailuresAndKeepTheTimeOfTheLastGoodOne) {
  MetricRegistry registry;
  AgentMetrics metrics(registry, "1.2.3");
  metrics.LookedUp({}, kTime);
  metrics.LookedUp(Fail(Code::kUnavailable, "x"), kTime + std::chrono::seconds(5));
  EXPECT_THAT(registry.Text(), AllOf(HasSubstr("\nskerry_board_lookups_total 2\n"),
                                     HasSubstr("{cause=\"unavailable\",stage=\"lookup\"} 1\n"),
                                     HasSubstr("\nskerry_last_lookup_timestamp_seconds 1000\n")));
}

TEST(AgentMetrics, FollowEnginesAndRunsAsTheyChange) {
  MetricRegistry registry;
  AgentMetrics metrics(registry, "1.2.3");
  metrics.SetRun(Must(RunId::Parse("a")));
  metrics.SetRun(Must(RunId::Parse("b")));
  metrics.SetRun(Must(RunId::Parse("b")));
  metrics.SetEngine("one", true, Version(1));
  metrics.SetEngine("two", true, Version(1));
  metrics.SetEngine("one", false, std::nullopt);
  EXPECT_THAT(registry.Text(),
              AllOf(HasSubstr("skerry_run_info{run=\"a\"} 0\n"), HasSubstr("skerry_run_info{run=\"b\"} 1\n"),
                    HasSubstr("\nskerry_engines 2\n"), HasSubstr("\nskerry_engines_in_rotation 1\n"),
                    HasSubstr("skerry_engine_in_rotation{engine=\"one\"} 0\n"),
                    HasSubstr("skerry_engine_version{engine=\"one\"} Nan\n")));
}

TEST(AgentMetrics, RecordNoDensityOfAModelOfUnknownSize) {
  MetricRegistry registry;
  AgentMetrics metrics(registry, "1.2.3");
  metrics.Updated({.changed_elements = 5}, kTime);
  EXPECT_THAT(registry.Text(), AllOf(HasSubstr("\nskerry_update_density_ratio_count 0\n"),
                                     HasSubstr("\nskerry_update_changed_elements_count 1\n")));
}

}  // namespace
}  // namespace skerry
