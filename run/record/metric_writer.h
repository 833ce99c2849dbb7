// How meters say what they have measured: each metric with its meaning beside its value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "run/record/summary.h"

namespace twin {

// Further facts of a metric, to be added up.
enum MetricTrait : std::uint8_t {
  kHigherIsBetter = 1,
  kLowerIsBetter = 2,
  kByTenant = 4,  // also appears as tenant_N_KEY if metrics.by_tenant is set
  kByGroup = 8,   // also appears as group_N_KEY if the system has replica_groups
  kLatency = 16,  // of the requests that got an answer
};

struct Metric {
  std::string name;     // the key in summary.json
  std::string unit;     // "ms", "requests/s", ...; empty: a text
  std::string what;     // one clause
  std::string formula;  // with the symbols of metric_catalog.h; empty: `what` says it all
  int traits = 0;       // sum of MetricTrait
};

// Takes the metrics of a meter: their values for the summary of a run, or their meaning for the
// catalogue. Borrows its target.
class MetricWriter {
 public:
  explicit MetricWriter(Summary& summary) : summary_(&summary) {}
  explicit MetricWriter(std::vector<Metric>& catalog) : catalog_(&catalog) {}

  // A writer that also gives `traits` to each metric.
  [[nodiscard]] MetricWriter With(int traits) const {
    MetricWriter writer = *this;
    writer.added_ |= traits;
    return writer;
  }
  // A writer to a summary whose keys begin with `prefix`, and that keeps metrics with `trait` only.
  [[nodiscard]] MetricWriter Under(std::string prefix, MetricTrait trait) const {
    MetricWriter writer = *this;
    writer.prefix_ = std::move(prefix);
    writer.required_ = trait;
    return writer;
  }
  // Whether it writes the catalogue. A meter then also adds metrics that its run does not have.
  [[nodiscard]] bool is_catalog() const { return catalog_ != nullptr; }

  // The arguments are those of Metric. NaN: an undefined value.
  void Add(std::string_view name, SummaryValue value, std::string_view unit, std::string_view what,
           std::string_view formula = "", int traits = 0) const {
    traits |= added_;
    if (catalog_ != nullptr) {
      catalog_->push_back(
          {std::string(name), std::string(unit), std::string(what), std::string(formula), traits});
    } else if ((traits & required_) == required_) {
      summary_->Set(prefix_ + std::string(name), std::move(value));
    }
  }

 private:
  Summary* summary_ = nullptr;
  std::vector<Metric>* catalog_ = nullptr;
  std::string prefix_;
  int required_ = 0;
  int added_ = 0;
};

}  // namespace twin
