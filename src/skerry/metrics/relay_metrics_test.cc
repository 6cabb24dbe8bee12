#include "skerry/metrics/relay_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace skerry {
namespace {

using testing::HasSubstr;

std::string Document() {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
  std::ifstream in(root / "docs" / "relay.md");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void UseAll(RelayMetrics& metrics) {
  metrics.Ended(RelayedEnd::kComplete, 10);
  metrics.LookedUp(Whereabouts::kComing);
  metrics.SetUpstream("u", true);
  metrics.Fetched("u", FetchEnd::kWrong);
  metrics.FetchedBytes("u", 5);
  metrics.TookToFetch(0.5);
  metrics.SetHead("r", 7, std::chrono::system_clock::time_point(std::chrono::seconds(1000)));
  metrics.HeadMoved();
  metrics.ShowCache(1, 2, 3, 4, 5);
  metrics.ShowCache(1, 2, 3, 4, 6);
  metrics.ShowMemory(8);
  metrics.ShowConnections(9);
  metrics.ShowWaiting(3);
}

TEST(RelayMetrics, AreThoseOfTheDocument) {
  MetricRegistry registry;
  RelayMetrics metrics(registry, "1.2.3");
  UseAll(metrics);
  const std::string text = registry.Text(), document = Document();
  std::set<std::string> printed, listed;
  const std::regex type(R"((?:^|\n)# TYPE (\w+) (\w+)\n)"), row(R"(\n\| `(skerry_\w+)` \| (\w+) \|)");
  for (std::sregex_iterator i(text.begin(), text.end(), type), end; i != end; ++i) {
    printed.insert((*i)[1].str() + " " + (*i)[2].str());
  }
  for (std::sregex_iterator i(document.begin(), document.end(), row), end; i != end; ++i) {
    listed.insert((*i)[1].str() + " " + (*i)[2].str());
  }
  EXPECT_GT(listed.size(), 15u);
  EXPECT_EQ(printed, listed);
  const std::regex label("(?:ended|found|result)=\"(\\w+)\"");
  for (std::sregex_iterator i(text.begin(), text.end(), label), end; i != end; ++i) {
    EXPECT_THAT(document, HasSubstr("`" + (*i)[1].str() + "`"));
  }
}

TEST(RelayMetrics, ShowWhatWasRecorded) {
  MetricRegistry registry;
  RelayMetrics metrics(registry, "1.2.3");
  UseAll(metrics);
  const std::string text = registry.Text();
  for (const char* line :
       {"skerry_relay_requests_total{ended=\"complete\"} 1\n", "skerry_relay_requests_total{ended=\"cut_off\"} 0\n",
        "skerry_relay_sent_bytes_total 10\n", "skerry_relay_lookups_total{found=\"coming\"} 1\n",
        "skerry_relay_fetches_total{result=\"wrong\",upstream=\"u\"} 1\n",
        "skerry_relay_fetches_total{result=\"failed\",upstream=\"u\"} 0\n",
        "skerry_relay_fetched_bytes_total{upstream=\"u\"} 5\n", "skerry_relay_evicted_bytes_total 6\n",
        "skerry_relay_head_version{run=\"r\"} 7\n", "skerry_relay_head_timestamp_seconds{run=\"r\"} 1000\n",
        "skerry_relay_memory_bytes 8\n", "skerry_relay_waiting_requests 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace skerry
