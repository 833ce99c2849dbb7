#include "run/record/run_measurements.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace twin {

void SummariseDevices(const MetricWriter& out, std::int64_t devices, double requests,
                      double output_tokens) {
  const double output = Ratio(output_tokens, devices);
  out.Add("devices", devices, "devices", "devices of all replicas, groups and pools");
  out.Add("request_throughput_per_device", Ratio(requests, devices), "requests/s",
          "request_throughput of one device", "request_throughput / devices");
  out.Add("output_throughput_per_device", output, "tokens/s", "output_throughput of one device",
          "output_throughput / devices");
  out.Add("device_hours_per_million_output_tokens", Ratio(1e6, 3600 * output), "h",
          "time of devices that a million output tokens take",
          "1e6 / (3600 * output_throughput_per_device)");
}

void SummariseParts(const MetricWriter& out, const StepParts& sums, std::int64_t steps) {
  constexpr std::array<std::string_view, kMeasuredPartCount> kWhat = {
      "from planning, or the end of the step before, to the device's begin",
      "block operations and the step's inputs",
      "matrix products",
      "attention over the KV cache",
      "collectives and sends between ranks",
      "all other operations on the device",
      "drawing tokens from logits",
      "from the end of the step to the engine"};
  for (std::size_t i = 0; i < kMeasuredPartCount; ++i) {
    out.Add(fmt::format("mean_step_{}_ms", kStepPartNames[i]),
            Milliseconds(sums.times[i]) / static_cast<double>(steps), "ms",
            fmt::format("mean time per step: {}; real runs only", kWhat[i]),
            fmt::format("sum of parts.csv {}_ms / steps", kStepPartNames[i]));
  }
}

void SummariseLateness(const MetricWriter& out, std::int64_t late_steps, const Sketch& lateness) {
  out.Add("late_steps", late_steps, "steps",
          "told later than one step after their time; emulated runs only");
  if (lateness.count() == 0 && !out.is_catalog()) return;
  const auto add = [&](std::string_view name, double nanoseconds) {
    out.Add(name, nanoseconds * 1e-3, "us",
            "from when a step's results were due until they were told, on the wall clock; emulated "
            "runs only");
  };
  add("median_lateness_us", lateness.Quantile(0.5));
  add("p99_lateness_us", lateness.Quantile(0.99));
  add("max_lateness_us", lateness.maximum());
}

void SummariseRefusals(const MetricWriter& out, std::int64_t refused) {
  out.Add("refused", refused, "requests",
          "requests that a full queue did not accept; served runs only");
}

void SummariseProbes(const MetricWriter& out, std::int64_t probes, double decode_s,
                     double prefill_s) {
  out.Add("machine_probes", probes, "-", "timings of fixed work during the run; real runs only");
  out.Add("machine_decode_probe_us", 1e6 * decode_s / static_cast<double>(probes), "us",
          "mean time of fixed work like that of a decode step; real runs only");
  out.Add("machine_prefill_probe_us", 1e6 * prefill_s / static_cast<double>(probes), "us",
          "mean time of fixed work like that of a prefill; real runs only");
}

void SummariseMachine(const MetricWriter& out, double steal_share, double other_cpus,
                      double other_cpus_max, bool disturbed) {
  out.Add("machine_steal_share", steal_share, "share",
          "share of the CPU time of all CPUs that was stolen; real runs only");
  out.Add("machine_other_load", other_cpus, "CPUs",
          "CPUs kept busy by other processes, mean over the run; real runs only");
  out.Add("machine_other_load_max", other_cpus_max, "CPUs",
          "the same in the busiest interval between two samples; real runs only");
  out.Add("machine_disturbed", disturbed ? 1 : 0, "0 or 1",
          "1: the machine was disturbed; real runs only",
          "machine_steal_share > 0.01 or machine_other_load > 0.05 * CPUs of the machine");
}

void SummariseBlocks(const MetricWriter& out, std::int32_t kv_blocks) {
  out.Add("kv_blocks", kv_blocks, "blocks",
          "usable KV blocks of a replica; with system.replica_groups of one of the first group", "",
          kByGroup);
}

void SummariseEnd(const MetricWriter& out, bool interrupted, double cpu_seconds,
                  double peak_rss_mib) {
  out.Add("interrupted", interrupted ? 1 : 0, "0 or 1", "1: the run was stopped early");
  out.Add("cpu_seconds", cpu_seconds, "s", "CPU time of the process, user and system");
  out.Add("peak_rss_mib", peak_rss_mib, "MiB", "largest resident memory of the process");
}

}  // namespace twin
