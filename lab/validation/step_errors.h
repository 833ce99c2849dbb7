// How well single steps were predicted, their composition given.
#pragma once

#include <array>
#include <vector>

#include "lab/validation/attribution.h"
#include "lab/validation/validation.h"

namespace twin::lab {

// Sums up steps of one run or several. Steps without work are left out.
class StepErrors {
 public:
  void Add(const MeasuredRun& run, const ModelledSteps& modelled);

  // All steps first, then by kind where there are any.
  [[nodiscard]] std::vector<StepComparison> Compare() const;
  // Parts that took time in either; none if the model knows no parts.
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

}  // namespace twin::lab
