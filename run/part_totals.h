// Totals of the parts of step times (GEMMs, attention, communication, ...) over a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>

#include "core/ids.h"
#include "core/step_parts.h"
#include "run/record/summary.h"

namespace twin {
class PartRows;
class PerfettoWriter;
}  // namespace twin

namespace twin::run {

// Sums up the parts of all steps. Also writes them to parts.csv and to a Perfetto trace if it is
// given these. The code that measures or simulates steps calls OnStep.
class PartTotals {
 public:
  PartTotals();
  // Throws std::system_error if the file cannot be written.
  explicit PartTotals(std::filesystem::path file, std::int32_t replicas = 1);
  ~PartTotals();

  // Also draws the parts of each step. Borrows the writer; nullptr draws nothing.
  void DrawOn(PerfettoWriter* perfetto) { perfetto_ = perfetto; }

  void OnStep(std::int32_t replica, StepId id, const StepTimes& times);

  // Closes the file and returns mean_step_<part>_ms for each part; nothing if there was no step.
  // Throws std::system_error.
  Summary Finish();

 private:
  void RequireGood() const;

  std::filesystem::path path_;
  std::ofstream file_;
  std::unique_ptr<PartRows> rows_;
  PerfettoWriter* perfetto_ = nullptr;
  std::int64_t steps_ = 0;
  StepParts sums_;
};

}  // namespace twin::run
