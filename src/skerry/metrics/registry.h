// Counters, gauges and histograms, and the text in which Prometheus reads them (exposition format 0.0.4). The only
// header through which Skerry keeps metrics; prometheus-cpp stays behind it.
#ifndef SKERRY_METRICS_REGISTRY_H_
#define SKERRY_METRICS_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace skerry {

using MetricLabels = std::map<std::string, std::string>;

// Handles of single series. Small and copied freely, thread-safe, valid as long as their registry. An update is an
// atomic operation or a short lock: for what happens once a request or block, not for inner loops.
class Counter {
 public:
  // Only goes up: a negative `by` is ignored.
  void Add(double by = 1) const;
  double Value() const;

 private:
  friend class MetricRegistry;
  explicit Counter(prometheus::Counter& series) : series_(&series) {}
  prometheus::Counter* series_;
};

class Gauge {
 public:
  void Set(double value) const;
  double Value() const;

 private:
  friend class MetricRegistry;
  explicit Gauge(prometheus::Gauge& series) : series_(&series) {}
  prometheus::Gauge* series_;
};

class Histogram {
 public:
  void Observe(double value) const;

 private:
  friend class MetricRegistry;
  explicit Histogram(prometheus::Histogram& series) : series_(&series) {}
  prometheus::Histogram* series_;
};

// `count` bounds, each `factor` times the one before it.
std::vector<double> ExponentialBuckets(double first, double factor, int count);

// Thread-safe. A name has one type, one help text and one set of label names, wherever it is asked for; asking again
// with the same labels gives the same series. Another type, or a name that Prometheus forbids, is a mistake in the
// program and ends it. A label's value may be any text.
class MetricRegistry {
 public:
  // What Content-Type says of Text().
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  MetricRegistry();
  ~MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  Counter MakeCounter(const std::string& name, const std::string& help, const MetricLabels& labels = {}) noexcept;
  Gauge MakeGauge(const std::string& name, const std::string& help, const MetricLabels& labels = {}) noexcept;
  // `bounds`: ascending, inclusive upper bounds of the buckets; one for all that is greater comes by itself.
  Histogram MakeHistogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                          const MetricLabels& labels = {}) noexcept;

  // All series, as a scrape wants them.
  std::string Text() const;

 private:
  class Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace skerry

#endif  // SKERRY_METRICS_REGISTRY_H_
