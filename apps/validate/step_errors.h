// Errors of the predicted device times of single steps, for the recorded compositions.
#pragma once

#include <array>
#include <vector>

#include "apps/validate/attribution.h"
#include "apps/validate/validation.h"

namespace twin::run {

// Collects the steps of one or more runs. Steps without work are left out.
class StepErrors {
 public:
  void Add(const MeasuredRun& run, const ModelledSteps& modelled);

  // All steps first, then one entry per kind that occurs.
  [[nodiscard]] std::vector<StepComparison> Compare() const;
  // Parts with measured or predicted time; empty if the cost model does not distinguish parts.
  [[nodiscard]] std::vector<PartComparison> CompareParts() const;
  // Of the first run.
  [[nodiscard]] const std::vector<StepPoint>& points() const { return points_; }

 private:
  struct Parts {
    Duration measured{0};
    Duration predicted{0};
  };

  std::vector<StepPoint> all_;
  std::vector<StepPoint> points_;
  std::array<Parts, kStepPartCount> parts_{};
  bool by_part_ = true;
};

}  // namespace twin::run
