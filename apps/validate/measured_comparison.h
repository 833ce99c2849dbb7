// A measured run against its simulation: errors, and what they depend on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/validate/measured_error.h"
#include "apps/validate/measured_load.h"
#include "apps/validate/measured_parts.h"
#include "apps/validate/measured_steps.h"
#include "apps/validate/measured_system.h"
#include "run/run_control.h"
#include "traces/benchmark_run.h"
#include "traces/step_records.h"

namespace twin::apps {

// A metric with one part off, or one fact wrong.
struct PartEffect {
  Variant::Kind kind{};
  std::string name;
  std::string metric;
  double simulated = 0;      // without the part, or with the wrong fact
  double error_percent = 0;  // then
  double effect_ms = 0;      // of the part: simulated with it - without it
  double effect_sd_ms = 0;   // NaN: not known
};

struct MeasuredComparison {
  std::string load;  // how the load was replayed
  std::vector<KnownFact> facts;
  std::vector<std::string> assumed;    // settings that nobody named, with their values
  std::vector<std::string> notes;      // on the run and the comparison
  std::vector<std::string> to_record;  // what would tell more next time
  std::vector<MetricError> errors;
  std::vector<PartEffect> effects;       // on the means of the latencies
  std::vector<std::string> explanation;  // the largest part, and the fact to check
  std::optional<StepComparison> steps;   // of a run whose steps were recorded
  // The completed requests, in order of sending; without `measured` if the file has totals alone.
  // `simulated`: of the median prediction, with the first draw of the arrivals.
  std::vector<BenchmarkRequest> measured;
  std::vector<BenchmarkRequest> simulated;
  bool has_times = false;  // of sending, in `measured`
  bool paired = false;     // the k-th request is the same one on both sides
};

// A measured run, its system and load, and the records of its steps; null: none. Borrows all.
struct MeasuredQuestion {
  const BenchmarkRun& run;
  const MeasuredSystem& system;
  const MeasuredLoad& load;
  const StepRecords* steps = nullptr;
};

// Simulates the run and compares. REQUIRES: its load was written (WriteLoad). Throws InputError;
// std::runtime_error once `control` asks to stop.
MeasuredComparison CompareMeasured(const MeasuredQuestion& question, run::RunControl& control);

}  // namespace twin::apps
