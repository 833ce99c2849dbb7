#include "apps/validate/measured_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>

#include "core/input_error.h"
#include "core/number_text.h"
#include "core/traced_request.h"
#include "traces/trace_writer.h"

namespace twin::apps {
namespace {

constexpr int kArrivalDraws = 20;

// Lengths: those of the file, or where it holds totals alone, their means.
void SetLengths(const BenchmarkRun& run, const std::filesystem::path& file, Replay& replay) {
  const auto set = [&](const std::string& field, const std::string& value) {
    replay.changes.push_back(fmt::format("workload.{}={}", field, value));
  };
  if (!run.requests.empty()) {
    set("trace.path", std::filesystem::absolute(file).lexically_normal().string());
    set("trace.format", "twin");
    return;
  }
  const double completed = run.totals.at("completed");
  const auto mean = [&](const char* total) {
    return std::to_string(
        std::max<std::int64_t>(std::llround(run.totals.at(total) / completed), 1));
  };
  set("shape.prompt.kind", "fixed");
  set("shape.prompt.value", mean("total_input_tokens"));
  set("shape.output.kind", "fixed");
  set("shape.output.value", mean("total_output_tokens"));
  set("requests", std::to_string(std::llround(completed)));
  replay.text += "; mean lengths";
}

void SetCap(const BenchmarkRun& run, Replay& replay) {
  if (!run.cap) return;
  replay.changes.push_back(fmt::format("workload.max_in_flight={}", *run.cap));
  replay.text += fmt::format(", at most {} in flight", *run.cap);
}

Replay WaitingUsers(std::int32_t users) {
  return {.text = fmt::format("{} clients who wait for their answers", users),
          .changes = {"workload.arrivals.kind=closed_loop",
                      fmt::format("workload.arrivals.users={}", users)}};
}

// The load of a run without times.
Replay DrawnLoad(const BenchmarkRun& run, const std::string& where) {
  const bool at_once = run.rate && std::isinf(*run.rate);
  if ((at_once || !run.rate) && run.cap) return WaitingUsers(*run.cap);
  if (at_once) return {.text = "all at once", .changes = {"workload.arrivals.kind=all_at_once"}};
  if (!run.rate) {
    throw InputError(InputError::Kind::kData, where,
                     fmt::format("{} says neither when its requests were sent nor how; allowed: "
                                 "with --rate R, the requests per second that its client was asked "
                                 "for, or --concurrency N",
                                 run.name));
  }
  Replay replay{.text = fmt::format("no start times: {} draws of arrivals at {}/s", kArrivalDraws,
                                    ShortestText(*run.rate)),
                .draws = kArrivalDraws};
  const bool poisson = run.burstiness == 1;
  replay.changes.push_back(fmt::format("workload.arrivals.kind={}", poisson ? "poisson" : "gamma"));
  replay.changes.push_back("workload.arrivals.rate=" + ShortestText(*run.rate));
  if (!poisson) {
    replay.changes.push_back("workload.arrivals.cv=" + ShortestText(1 / std::sqrt(run.burstiness)));
  }
  SetCap(run, replay);
  return replay;
}

}  // namespace

std::vector<BenchmarkRequest> CompletedOf(std::span<const BenchmarkRequest> requests) {
  std::vector<BenchmarkRequest> completed;
  std::ranges::copy_if(requests, std::back_inserter(completed), &BenchmarkRequest::completed);
  std::ranges::stable_sort(completed, {}, [](const BenchmarkRequest& request) {
    return std::tuple(request.sent, request.prompt_tokens, request.output_tokens);
  });
  return completed;
}

MeasuredLoad PlanLoad(const BenchmarkRun& run, const std::filesystem::path& file,
                      const std::string& where) {
  MeasuredLoad load;
  if (!run.has_times) {
    load.replay = DrawnLoad(run, where);
  } else {
    load.replay = {.text = "recorded send times", .changes = {}, .paired = true};
    if (run.cap && run.rate && std::isinf(*run.rate)) {
      load.waiting = WaitingUsers(*run.cap);
    } else if (run.cap) {
      load.waiting = Replay{.text = "recorded send times", .changes = {}};
      SetCap(run, *load.waiting);
    }
  }
  SetLengths(run, file, load.replay);
  if (load.waiting) SetLengths(run, file, *load.waiting);
  return load;
}

void WriteLoad(const BenchmarkRun& run, const std::filesystem::path& file) {
  if (run.requests.empty()) return;
  TraceWriter writer(file.string(), run.has_times);
  for (const BenchmarkRequest& measured :
       run.has_times ? CompletedOf(run.requests) : run.requests) {
    if (!measured.completed) continue;
    TracedRequest request;
    request.arrival = measured.sent;
    request.prompt_tokens = measured.prompt_tokens;
    request.output_tokens = request.max_output_tokens = measured.output_tokens;
    writer.Write(request);
  }
  writer.Commit();
}

}  // namespace twin::apps
