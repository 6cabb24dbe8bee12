#include "skerry/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace skerry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MetricRegistry, PrintsWhatPrometheusReads) {
  MetricRegistry registry;
  registry.MakeCounter("a_total", "An a.", {{"kind", "x"}}).Add(2);
  registry.MakeGauge("b_bytes", "A b.").Set(-1.5);
  const Histogram histogram = registry.MakeHistogram("c_seconds", "A c.", {0.5, 2});
  histogram.Observe(0.5);
  histogram.Observe(1);
  histogram.Observe(3);
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("# HELP a_total An a.\n# TYPE a_total counter\na_total{kind=\"x\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE b_bytes gauge\nb_bytes -1.5\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE c_seconds histogram\nc_seconds_count 3\nc_seconds_sum 4.5\n"
                              "c_seconds_bucket{le=\"0.5\"} 1\nc_seconds_bucket{le=\"2\"} 2\n"
                              "c_seconds_bucket{le=\"+Inf\"} 3\n"));
}

TEST(MetricRegistry, GivesTheSameSeriesForTheSameLabels) {
  MetricRegistry registry;
  registry.MakeCounter("a_total", "An a.", {{"kind", "x"}}).Add();
  registry.MakeCounter("a_total", "An a.", {{"kind", "y"}}).Add(5);
  registry.MakeCounter("a_total", "An a.", {{"kind", "x"}}).Add();
  EXPECT_EQ(registry.MakeCounter("a_total", "An a.", {{"kind", "x"}}).Value(), 2);
  EXPECT_EQ(registry.MakeCounter("a_total", "An a.", {{"kind", "y"}}).Value(), 5);
}

TEST(MetricRegistry, CountersOnlyGoUp) {
  MetricRegistry registry;
  const Counter counter = registry.MakeCounter("a_total", "An a.");
  counter.Add(3);
  counter.Add(-1);
  EXPECT_EQ(counter.Value(), 3);
}

TEST(MetricRegistry, LabelsMayHaveAnyText) {
  MetricRegistry registry;
  registry.MakeGauge("a", "An a.", {{"kind", "quote \" break \n slash \\"}}).Set(1);
  EXPECT_THAT(registry.Text(), HasSubstr("a{kind=\"quote \\\" break \\n slash \\\\\"} 1\n"));
}

TEST(MetricRegistry, MistakesInTheProgramEndIt) {
  MetricRegistry registry;
  registry.MakeCounter("a_total", "An a.");
  EXPECT_DEATH(registry.MakeGauge("a_total", "An a."), "");
  EXPECT_DEATH(registry.MakeGauge("no name", "An a."), "");
}

TEST(MetricRegistry, LosesNothingOfManyThreads) {
  MetricRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        registry.MakeCounter("a_total", "An a.", {{"i", std::to_string(i % 10)}}).Add();
        if (i % 100 == 0) {
          EXPECT_THAT(registry.Text(), HasSubstr("a_total"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += registry.MakeCounter("a_total", "An a.", {{"i", std::to_string(i)}}).Value();
  EXPECT_EQ(sum, 8000);
}

TEST(ExponentialBuckets, GrowByTheirFactor) { EXPECT_THAT(ExponentialBuckets(1, 4, 3), ElementsAre(1, 4, 16)); }

}  // namespace
}  // namespace skerry
