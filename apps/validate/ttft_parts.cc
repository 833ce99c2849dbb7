#include "apps/validate/ttft_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "run/record/table.h"

namespace twin::apps {
namespace {

std::string Pair(const char* name, double measured_ms, double simulated_ms) {
  return fmt::format("{} {} / {} ms", name, NumberText(measured_ms), NumberText(simulated_ms));
}

}  // namespace

TtftParts MeasuredTtftParts(const BenchmarkRun& run, std::span<const BenchmarkRequest> completed) {
  if (completed.empty()) return run.ttft_parts;
  const auto knows = [](const BenchmarkRequest& one) { return one.waiting && one.ttft; };
  if (!std::ranges::all_of(completed, knows)) return {};
  double sum = 0;
  for (const BenchmarkRequest& request : completed) sum += Milliseconds(*request.waiting);
  return {.waiting_ms = sum / static_cast<double>(completed.size())};
}

std::string TtftPartsLine(const TtftParts& measured, const TtftParts& simulated,
                          const TtftMeans& ttft) {
  if (!measured.waiting_ms) return "";
  std::string line =
      ", measured / simulated: " + Pair("waiting", *measured.waiting_ms, *simulated.waiting_ms);
  if (measured.prefill_ms) {
    line += ", " + Pair("prefill", *measured.prefill_ms, *simulated.prefill_ms);
  } else if (ttft.measured_ms && *ttft.measured_ms >= *measured.waiting_ms) {
    line += ", " + Pair("prefill and boundary", *ttft.measured_ms - *measured.waiting_ms,
                        ttft.simulated_ms - *simulated.waiting_ms);
  }
  if (measured.boundary_ms) {
    line += ", " + Pair("boundary", *measured.boundary_ms, *simulated.boundary_ms);
  }
  return line;
}

}  // namespace twin::apps
