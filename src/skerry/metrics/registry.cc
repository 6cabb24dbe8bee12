#include "skerry/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace skerry {

void Counter::Add(double by) const { series_->Increment(by); }
double Counter::Value() const { return series_->Value(); }

void Gauge::Set(double value) const { series_->Set(value); }
double Gauge::Value() const { return series_->Value(); }

void Histogram::Observe(double value) const { series_->Observe(value); }

std::vector<double> ExponentialBuckets(double first, double factor, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= factor) bounds.push_back(bound);
  return bounds;
}

class MetricRegistry::Families {
 public:
  prometheus::Registry registry;
};

MetricRegistry::MetricRegistry() : families_(std::make_unique<Families>()) {}
MetricRegistry::~MetricRegistry() = default;

// prometheus-cpp throws where a name is malformed or has another type already: noexcept makes that the end.
Counter MetricRegistry::MakeCounter(const std::string& name, const std::string& help,
                                    const MetricLabels& labels) noexcept {
  return Counter(prometheus::BuildCounter().Name(name).Help(help).Register(families_->registry).Add(labels));
}

Gauge MetricRegistry::MakeGauge(const std::string& name, const std::string& help, const MetricLabels& labels) noexcept {
  return Gauge(prometheus::BuildGauge().Name(name).Help(help).Register(families_->registry).Add(labels));
}

Histogram MetricRegistry::MakeHistogram(const std::string& name, const std::string& help,
                                        const std::vector<double>& bounds, const MetricLabels& labels) noexcept {
  return Histogram(
      prometheus::BuildHistogram().Name(name).Help(help).Register(families_->registry).Add(labels, bounds));
}

std::string MetricRegistry::Text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace skerry
