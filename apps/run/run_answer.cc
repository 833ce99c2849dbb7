#include "apps/run/run_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <string_view>
#include <utility>
#include <variant>

#include "apps/experiment_options/option_names.h"
#include "apps/run/summary_number.h"
#include "core/number_text.h"
#include "run/record/loss_warning.h"

namespace twin::apps {
namespace {

// Counts as they are.
std::string ValueText(const Summary& summary, std::string_view name) {
  const SummaryValue* const value = summary.Find(name);
  const auto* const count = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return count != nullptr ? std::to_string(*count) : TableNumber(NumberIn(summary, name));
}

// "28,646".
std::string GroupedDigits(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string InParentheses(const std::string& text) {
  return text.empty() ? "" : fmt::format(" ({})", text);
}

constexpr std::string_view kDrawn = "drawn";  // lengths that no word describes

std::string LengthText(const IntegerDistribution& lengths) {
  using Kind = IntegerDistribution::Kind;
  if (lengths.kind == Kind::kUniform) return fmt::format("{}-{}", lengths.min, lengths.max);
  return lengths.kind == Kind::kFixed ? std::to_string(lengths.value) : std::string(kDrawn);
}

// "1024 + 128 tokens", "trace azure.csv".
std::string RequestsText(const WorkloadConfig& workload) {
  if (workload.trace) {
    return "trace " + std::filesystem::path(workload.trace->path).filename().string();
  }
  if (workload.servegen) return "clients of ServeGen";
  if (!workload.classes.empty()) {
    std::vector<std::string_view> names;
    for (const WorkloadClass& one : workload.classes) names.push_back(one.name);
    return fmt::format("requests of {}", fmt::join(names, " and "));
  }
  if (workload.preset == WorkloadPreset::kConversation) return "lengths of conversations";
  if (workload.preset == WorkloadPreset::kCode) return "lengths of code completions";
  const SharedPrefixConfig& prefix = workload.shape.shared_prefix;
  const std::string prompt = LengthText(workload.shape.prompt);
  const std::string output = LengthText(workload.shape.output);
  if (prompt == kDrawn && output == kDrawn) return "drawn lengths";
  return fmt::format("{}{} + {} tokens",
                     prefix.prompts > 0 ? fmt::format("{} shared + ", prefix.tokens) : "", prompt,
                     output);
}

std::string ArrivalText(const ArrivalConfig& arrivals) {
  using Kind = ArrivalConfig::Kind;
  const std::string rate = ShortestText(arrivals.rate);
  switch (arrivals.kind) {
    case Kind::kNone:
      return "at their own times";
    case Kind::kPoisson:
      return fmt::format("Poisson {}/s", rate);
    case Kind::kGamma:
      return fmt::format("gamma {}/s with CV {}", rate, RoundedText(arrivals.cv, 3));
    case Kind::kWeibull:
      return fmt::format("Weibull {}/s with CV {}", rate, RoundedText(arrivals.cv, 3));
    case Kind::kConstant:
      return fmt::format("every 1/{} s", rate);
    case Kind::kRamp:
      return fmt::format("{}/s to {}/s in {} s", rate, ShortestText(arrivals.rate_to),
                         RoundedText(Seconds(arrivals.ramp), 4));
    case Kind::kClosedLoop:
      return fmt::format("{} users who wait", arrivals.users);
    case Kind::kAllAtOnce:
      return "all at once";
  }
  return "";
}

std::string LoadText(const WorkloadConfig& workload) {
  std::string text = ArrivalText(workload.arrivals);
  if (workload.trace && workload.trace->rate_scale != 1) {
    text += fmt::format(", {} times as fast", ShortestText(workload.trace->rate_scale));
  }
  if (workload.max_in_flight > 0) {
    text += fmt::format(", at most {} in flight", workload.max_in_flight);
  }
  return text;
}

std::string FfnText(const SystemConfig& system) {
  if (!system.ffn) return "";
  return fmt::format(" with {} x {} for the FFNs", system.ffn->devices,
                     system.ffn->hardware_spec.name);
}

std::string DevicesText(const SystemConfig& system) {
  const std::string one =
      fmt::format("{} x {}{}", system.devices() - (system.ffn ? system.ffn->devices : 0),
                  system.hardware_spec.name, FfnText(system));
  return system.replicas == 1 ? one : fmt::format("{} replicas of {}", system.replicas, one);
}

std::string LimitsText(const PolicyTraits& traits) {
  const auto sequences = [&] { return fmt::format("{} sequences", traits.sequences_per_step_max); };
  if (traits.tokens_per_step_max == 0) {
    return traits.sequences_per_step_max == 0 ? "no limits of a step" : sequences() + " a step";
  }
  const std::string more = traits.sequences_per_step_max == 0 ? "" : ", " + sequences();
  return fmt::format("{} tokens{} a step", traits.tokens_per_step_max, more);
}

std::string SystemLine(const AnsweredRun& run) {
  const ExperimentConfig& config = run.config;
  const PolicyTraits traits = TraitsOf(config);
  const std::string server =
      config.system.server
          ? ServerTitle(*config.system.server, config.system.server_asked.value_or(""))
          : std::string("no server");
  const std::string note = run.made.server_note.empty() ? "" : ", " + run.made.server_note;
  const auto blocks = static_cast<std::int64_t>(NumberIn(run.summary, "kv_blocks"));
  std::string line = fmt::format(
      "{} on {}{}, {}{} ({}), {} KV blocks; {}, {}, seed {}", config.system.model_spec.name,
      DevicesText(config.system), InParentheses(run.made.device_note), server, note,
      LimitsText(traits), GroupedDigits(blocks), RequestsText(config.workload),
      LoadText(config.workload), config.seed);
  if (!run.made.open.empty()) {
    line += fmt::format("; not given: {}", fmt::join(run.made.open, ", "));
  }
  return line;
}

// "  42.0 to 47.2"; empty without an interval.
std::string IntervalText(const Certainty& certainty, const std::string& metric) {
  const run::DrawnInterval* const interval = certainty.Find(metric);
  if (interval == nullptr) return "";
  return fmt::format("{:>8} to {}", TableNumber(interval->low), TableNumber(interval->high));
}

void WriteLatencies(std::ostream& out, const Summary& summary, const Certainty& certainty) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kLatencies = {
      {{"TTFT", "ttft"}, {"TPOT", "tpot"}, {"ITL", "itl"}, {"E2E", "e2el"}}};
  out << fmt::format("{:21}{:>4}{:>8}{:>8}{:>8}{}\n", "", "mean", "p50", "p90", "p99",
                     certainty.draws ? "    90 % of means" : "");
  for (const auto& [title, key] : kLatencies) {
    out << fmt::format("{:14}{:2}", title, "ms");
    for (const char* const statistic : {"mean", "p50", "p90", "p99"}) {
      const double value = NumberIn(summary, fmt::format("{}_{}_ms", statistic, key));
      out << fmt::format("{:>{}}", TableNumber(value), statistic[0] == 'm' ? 9 : 8);
    }
    out << IntervalText(certainty, fmt::format("mean_{}_ms", key)) << '\n';
  }
}

void WriteCounts(std::ostream& out, const AnsweredRun& run) {
  const auto text = [&](std::string_view name) { return ValueText(run.summary, name); };
  const auto percent = [&](std::string_view name) {
    return fmt::format("{:.1f}", 100 * NumberIn(run.summary, name));
  };
  out << fmt::format("{:14}{:43} {}/s offered, {}/s completed\n", "requests",
                     fmt::format("{} completed, {} rejected, {} cancelled", text("completed"),
                                 text("rejected"), text("cancelled")),
                     text("offered_rate"), text("completed_rate"));
  if (run.summary.Find("good_rate") != nullptr) {
    out << fmt::format("{:14}{}/s within all bounds\n", "goodput", text("good_rate"));
  }
  out << fmt::format("{:14}{}/s out, {}/s in and out\n", "tokens", text("output_token_rate"),
                     text("total_token_rate"));
  out << fmt::format(
      "{:14}{:43} running {} mean, {} max; waiting {} mean\n", "KV cache",
      fmt::format("{} % mean, {} % max; {} preemptions", percent("mean_kv_used_share"),
                  percent("max_kv_used_share"), text("preemptions")),
      text("mean_running"), text("max_running"), text("mean_waiting"));
  const std::string warnings = run.warnings == 0 ? "none" : fmt::format("{}, above", run.warnings);
  out << fmt::format("{:14}{}\n", "warnings", warnings);
}

}  // namespace

void WriteAnswer(std::ostream& out, const AnsweredRun& run) {
  out << run.certainty.text << '\n' << SystemLine(run) << '\n';
  WriteLatencies(out, run.summary, run.certainty);
  WriteCounts(out, run);
  out << "Bottleneck: " << run.advice.bottleneck << ".\n";
  for (const std::string& line : run.advice.lines) out << line << '\n';
  if (const std::string note = FewRequestsNote(run.summary); !note.empty()) out << note << '\n';
  for (const std::string& note : run.ignored) out << note << '\n';
}

}  // namespace twin::apps
