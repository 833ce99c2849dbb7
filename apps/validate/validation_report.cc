#include "apps/validate/validation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include <nlohmann/json.hpp>

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json MetricJson(const MetricComparison& metric) {
  Json attribution = Json::object();
  for (const Contribution& part : metric.attribution) {
    attribution[part.cause] = NumberOrNull(part.amount);
  }
  Json json = {
      {"predicted", NumberOrNull(metric.predicted)},
      {"measured", NumberOrNull(metric.measured)},
      {"error_percent", NumberOrNull(metric.error_percent())},
      {"repeat_noise_percent",
       metric.repeat_noise_percent ? NumberOrNull(*metric.repeat_noise_percent) : Json(nullptr)},
      {"attribution", attribution}};
  if (metric.machine_speed) json["machine_speed"] = NumberOrNull(*metric.machine_speed);
  return json;
}

Json StepJson(const StepComparison& steps) {
  return {{"steps", steps.steps},
          {"measured_ms", NumberOrNull(steps.measured_ms)},
          {"predicted_ms", NumberOrNull(steps.predicted_ms)},
          {"bias_percent", NumberOrNull(steps.bias_percent())},
          {"median_error_percent", NumberOrNull(steps.median_error_percent)},
          {"p90_error_percent", NumberOrNull(steps.p90_error_percent)}};
}

// null for runs without a record of the machine's load.
Json MachineJson(const std::optional<RunMachine>& machine) {
  if (!machine) return nullptr;
  return {{"steal_share", machine->steal_share},
          {"other_load", machine->other_load},
          {"disturbed", machine->disturbed}};
}

std::int64_t DisturbedRuns(const Validation& validation) {
  return std::count_if(validation.machines.begin(), validation.machines.end(),
                       [](const auto& machine) { return machine && machine->disturbed; });
}

void WriteMachines(std::ostream& out, const Validation& validation) {
  for (std::size_t i = 0; i < validation.machines.size(); ++i) {
    const std::optional<RunMachine>& machine = validation.machines[i];
    if (!machine || !machine->disturbed) continue;
    out << fmt::format(
        "disturbed    real run {}: {:.1f} % of the CPU time stolen, other processes used {:.2f} "
        "CPUs\n",
        i + 1, 100 * machine->steal_share, machine->other_load);
  }
}

bool IsMean(const MetricComparison& metric) {
  return metric.name == "mean_ttft_ms" || metric.name == "mean_tpot_ms" ||
         metric.name == "mean_e2el_ms";
}

// Writes how much of the prediction comes from the machine's speed during the runs.
void WriteSpeed(std::ostream& out, const Validation& validation) {
  if (!validation.speed) return;
  out << fmt::format(
      "machine      decode steps take {:.3f} times, others {:.3f} times as long as in the profile",
      validation.speed->decode_slowdown, validation.speed->prefill_slowdown);
  for (const MetricComparison& metric : validation.metrics) {
    if (IsMean(metric) && metric.machine_speed) {
      out << fmt::format("; {} {:+.3g}", metric.name, *metric.machine_speed);
    }
  }
  out << '\n';
}

// "12 of 100, 14 of 100": requests whose clients gave up, by run.
std::string CancelledText(const std::vector<Endings>& runs) {
  std::vector<std::string> texts;
  for (const Endings& run : runs) {
    texts.push_back(fmt::format("{} of {}", run.cancelled, run.cancelled + run.completed));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void WriteEndings(std::ostream& out, const Validation& validation) {
  if (!validation.endings) return;
  const EndingComparison& endings = *validation.endings;
  out << fmt::format(
      "clients      give up after {:g} s: measured {}, predicted {}; metrics are of requests that "
      "completed\n",
      Seconds(endings.client_timeout), CancelledText(endings.measured),
      CancelledText({endings.predicted}));
}

Json EndingsJson(const Endings& endings) {
  return {{"completed", endings.completed}, {"cancelled", endings.cancelled}};
}

template <class... Values>
void Line(std::ostream& out, const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  out << text << '\n';
}

// The causes of a metric's error in one line.
std::string CausesText(const MetricComparison& metric) {
  std::string text;
  for (const Contribution& part : metric.attribution) {
    char one[64];
    std::snprintf(one, sizeof one, "%s%s %+.3g", text.empty() ? "" : ", ", part.cause.c_str(),
                  part.amount);
    text += one;
  }
  return text;
}

}  // namespace

std::string ValidationJson(const Validation& validation) {
  Json json;
  json["name"] = validation.name;
  json["policy"] = validation.policy;
  json["digest_equal"] = validation.digest_equal;
  json["digest"] = validation.digest;
  if (!validation.difference.empty()) json["difference"] = validation.difference;
  json["real_runs"] = validation.runs;
  json["real_run_paths"] = validation.run_paths;
  json["completed"] = validation.completed;
  if (validation.endings) {
    json["endings"] = {{"client_timeout_s", Seconds(validation.endings->client_timeout)},
                       {"predicted", EndingsJson(validation.endings->predicted)},
                       {"measured", Json::array()}};
    for (const Endings& run : validation.endings->measured) {
      json["endings"]["measured"].push_back(EndingsJson(run));
    }
  }
  json["disturbed_runs"] = DisturbedRuns(validation);
  json["machines"] = Json::array();
  for (const std::optional<RunMachine>& machine : validation.machines) {
    json["machines"].push_back(MachineJson(machine));
  }
  if (validation.speed) {
    json["machine_speed"] = {{"decode_slowdown", validation.speed->decode_slowdown},
                             {"prefill_slowdown", validation.speed->prefill_slowdown}};
  }
  json["metrics"] = Json::object();
  for (const MetricComparison& metric : validation.metrics) {
    json["metrics"][metric.name] = MetricJson(metric);
  }
  json["steps"] = Json::object();
  for (const StepComparison& steps : validation.steps) json["steps"][steps.kind] = StepJson(steps);
  json["parts"] = Json::object();
  for (const PartComparison& part : validation.parts) {
    json["parts"][part.part] = {{"measured_ms_per_step", NumberOrNull(part.measured_ms)},
                                {"predicted_ms_per_step", NumberOrNull(part.predicted_ms)}};
  }
  return json.dump(2) + "\n";
}

void WriteValidationText(std::ostream& out, const Validation& validation) {
  Line(out, "%s: %lld real runs of %lld requests, policy %s", validation.name.c_str(),
       static_cast<long long>(validation.runs), static_cast<long long>(validation.completed),
       validation.policy.c_str());
  out << "decisions    "
      << (validation.digest_equal ? "replay equal, digest " + validation.digest
                                  : "REPLAY DIFFERS\n" + validation.difference)
      << "\n";
  WriteEndings(out, validation);
  WriteMachines(out, validation);
  WriteSpeed(out, validation);
  out << "\n";
  Line(out, "%-20s %12s %12s %9s %9s", "metric", "measured", "predicted", "error", "noise");
  for (const MetricComparison& metric : validation.metrics) {
    char noise[16] = "-";
    if (metric.repeat_noise_percent) {
      std::snprintf(noise, sizeof noise, "%.2f %%", *metric.repeat_noise_percent);
    }
    Line(out, "%-20s %12.6g %12.6g %+7.2f %% %9s", metric.name.c_str(), metric.measured,
         metric.predicted, metric.error_percent(), noise);
  }
  out << "\nerror by cause (in the metric's unit; sums to predicted - measured)\n";
  for (const MetricComparison& metric : validation.metrics) {
    if (IsMean(metric)) out << metric.name << ": " << CausesText(metric) << '\n';
  }
  out << "\ndevice times of steps, predicted for the recorded compositions\n";
  Line(out, "%-10s %8s %12s %12s %9s %12s %9s", "kind", "steps", "measured ms", "predicted", "bias",
       "median |err|", "p90");
  for (const StepComparison& steps : validation.steps) {
    Line(out, "%-10s %8lld %12.6g %12.6g %+7.2f %% %10.2f %% %7.2f %%", steps.kind.c_str(),
         static_cast<long long>(steps.steps), steps.measured_ms, steps.predicted_ms,
         steps.bias_percent(), steps.median_error_percent, steps.p90_error_percent);
  }
  if (validation.parts.empty()) return;
  out << "\nparts of a step, mean\n";
  Line(out, "%-14s %12s %12s", "part", "measured ms", "predicted");
  for (const PartComparison& part : validation.parts) {
    Line(out, "%-14s %12.4f %12.4f", part.part.c_str(), part.measured_ms, part.predicted_ms);
  }
}

}  // namespace twin::run
