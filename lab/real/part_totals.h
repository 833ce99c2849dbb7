// Where the time of a real run's steps went.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/step_times.h"
#include "exec/real_world.h"
#include "proto/perfetto_writer.h"
#include "record/part_rows.h"
#include "record/summary.h"

namespace twin::lab {

// Sums up the parts of all steps, and writes them to parts.csv and a Perfetto trace where it is
// given these.
class PartTotals final : public exec::RealWorldListener {
 public:
  PartTotals() = default;
  // Throws std::system_error if the file cannot be written.
  explicit PartTotals(std::filesystem::path file, std::int32_t replicas = 1);

  // Also draws the parts of each step. Borrows the writer; nullptr draws nothing.
  void DrawOn(PerfettoWriter* perfetto) { perfetto_ = perfetto; }

  void OnStep(std::int32_t replica, StepId id, const StepTimes& times) override;

  // Closes the file and returns mean_step_<part>_ms for each part; nothing if there was no step.
  // Throws std::system_error.
  Summary Finish();

 private:
  void RequireGood() const;

  std::filesystem::path path_;
  std::ofstream file_;
  std::optional<PartRows> rows_;
  PerfettoWriter* perfetto_ = nullptr;
  std::int64_t steps_ = 0;
  StepParts sums_;
};

}  // namespace twin::lab
