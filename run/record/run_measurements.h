// Metrics that a run's world, machine and process measure, beside the meters.
#pragma once

#include <cstdint>

#include "core/sketch.h"
#include "core/step_parts.h"
#include "run/record/metric_writer.h"

namespace twin {

// `requests`, `output_tokens`: throughput per second of all devices.
void SummariseDevices(const MetricWriter& out, std::int64_t devices, double requests,
                      double output_tokens);

// Real runs: `sums` over the steps of a run. REQUIRES: steps >= 1.
void SummariseParts(const MetricWriter& out, const StepParts& sums, std::int64_t steps);

// Emulated runs: steps told later than one step's length after their time, and by how much each
// step was told late, in nanoseconds of the clock.
void SummariseLateness(const MetricWriter& out, std::int64_t late_steps, const Sketch& lateness);

// Served runs: requests that a full queue did not accept.
void SummariseRefusals(const MetricWriter& out, std::int64_t refused);

// Real runs: timings of fixed work, in seconds added up over the probes. REQUIRES: probes >= 1.
void SummariseProbes(const MetricWriter& out, std::int64_t probes, double decode_s,
                     double prefill_s);

// Real runs: what other programs took of the machine, as MachineLoad has it.
void SummariseMachine(const MetricWriter& out, double steal_share, double other_cpus,
                      double other_cpus_max, bool disturbed);

// Usable KV blocks of a replica.
void SummariseBlocks(const MetricWriter& out, std::int32_t kv_blocks);

// The end of a run, and what its process has used.
void SummariseEnd(const MetricWriter& out, bool interrupted, double cpu_seconds,
                  double peak_rss_mib);

}  // namespace twin
