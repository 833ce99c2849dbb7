#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "apps/report/mean_interval.h"
#include "apps/report/report.h"
#include "apps/report/run_figures.h"
#include "config/config_difference.h"
#include "config/experiment_config.h"
#include "config/policy_file.h"
#include "run/measured_result.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

PageTable MetricTable(const std::vector<ReportedRun>& runs) {
  std::vector<NamedSummary> named;
  std::vector<MeanIntervals> intervals;
  PageTable table{{"metric", "unit"}};
  for (const ReportedRun& run : runs) {
    named.push_back({run.name, &run.summary});
    intervals.emplace_back(run);
    table[0].push_back(run.name);
    if (named.size() > 1) table[0].emplace_back("change");
  }
  for (const MetricRow& row : MetricRows(named, HeadlineMetrics())) {
    std::vector<std::string> cells{row.name, row.unit};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      cells.push_back(DisplayText(row.values[i]) + intervals[i].TextOf(row.name));
      if (i == 0) continue;
      const auto& change = row.change_percent[i];
      cells.push_back(change ? fmt::format("{:+.1f} %", *change) : "");
    }
    table.push_back(std::move(cells));
  }
  return table;
}

std::string AllMetrics(const Summary& summary) {
  std::string text;
  for (const SummaryEntry& entry : summary.entries()) {
    text += fmt::format("{:<36} {}\n", entry.name, DisplayText(&entry.value));
  }
  return text;
}

std::string FieldOr(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

// The fields below `prefix`, as words: "max_num_seqs 64, ...".
std::string FieldsBelow(const std::vector<std::pair<std::string, std::string>>& fields,
                        const std::string& prefix) {
  std::string text;
  for (const auto& [name, value] : fields) {
    if (!name.starts_with(prefix) || value == "0" || value.empty()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name.substr(prefix.size()), value);
  }
  return text;
}

// Describes the workload: a trace, or the number of requests with their source and rate, by class
// if there are classes.
std::string LoadText(const std::vector<std::pair<std::string, std::string>>& fields,
                     const std::map<std::string, std::string>& by_name) {
  if (const std::string trace = FieldOr(by_name, "workload.trace.path"); !trace.empty()) {
    return fmt::format("trace {}", trace);
  }
  std::string text = fmt::format("{} requests", FieldOr(by_name, "workload.requests"));
  for (const auto& [name, value] : fields) {
    const bool of_class = name.starts_with("workload.classes.");
    if (name == "workload.classes.name") text += fmt::format("; class {}", value);
    if (name == "workload.preset" && value != "none") text += fmt::format(", lengths {}", value);
    if (!of_class && !name.starts_with("workload.arrivals.")) continue;
    if (name.ends_with(".arrivals.kind") && value != "none") text += fmt::format(", {}", value);
    if (name.ends_with(".arrivals.rate") && value != "0") text += fmt::format(" {}/s", value);
    if (name.ends_with(".arrivals.users") && value != "0") text += fmt::format(" {} users", value);
  }
  return text;
}

// The message inside of a choice: policy { orca { ... } } is orca.
std::string ChoiceOf(const std::string& config, const std::string& field) {
  const std::size_t at = config.find(fmt::format("\n{} {{\n  ", field));
  if (at == std::string::npos) return "";
  const std::size_t begin = at + field.size() + 6;
  return config.substr(begin, config.find_first_of(" {:", begin) - begin);
}

// Describes a policy file: "Fair (fair.py): patience_s 20".
std::string PolicyFileText(const std::vector<std::pair<std::string, std::string>>& fields) {
  constexpr std::string_view kParameter = "policy.own.parameters.";
  PolicyFile file;
  std::string parameters;
  for (const auto& [name, value] : fields) {
    if (name == "policy.own.path") file.path = value;
    if (name == "policy.own.class") file.class_name = value;
    if (!name.starts_with(kParameter)) continue;
    // The name and the value of a parameter follow each other.
    const bool begins = name.ends_with(".name");
    parameters += fmt::format("{}{}", !begins ? " " : parameters.empty() ? ": " : ", ", value);
  }
  return fmt::format("{} ({}){}", NameOf(file),
                     std::filesystem::path(file.path).filename().string(), parameters);
}

// Describes the policy. A policy of the caller has its name alone: the configuration lacks its
// fields.
std::string PolicyText(const std::string& config,
                       const std::vector<std::pair<std::string, std::string>>& fields) {
  if (const std::string own = OwnPolicyOf(config); !own.empty()) return own;
  const std::string policy = ChoiceOf(config, "policy");
  if (policy == "own") return PolicyFileText(fields);
  return fmt::format("{}: {}", policy, FieldsBelow(fields, "policy." + policy + "."));
}

// Describes the replicas and their router; empty for a single replica.
std::string ReplicasText(const std::map<std::string, std::string>& by_name) {
  std::string text;
  const std::string prefill = FieldOr(by_name, "system.disaggregation.prefill_replicas");
  const std::string replicas = FieldOr(by_name, "system.replicas");
  if (const std::string counts = FieldOr(by_name, "system.replica_groups.count"); !counts.empty()) {
    text = fmt::format("groups of {} replicas", counts);
  } else if (!prefill.empty()) {
    text = fmt::format("{} + {} (prefill + decode)", prefill,
                       FieldOr(by_name, "system.disaggregation.decode_replicas"));
  } else if (!replicas.empty() && replicas != "1") {
    text = replicas;
  }
  const std::string router = FieldOr(by_name, "system.router.kind");
  if (!text.empty() && !router.empty()) text += ", router " + router;
  return text;
}

// A column with what the file of a measured run says of its server and load. REQUIRES: the rows of
// ShortConfig.
void AddMeasuredConfig(const BenchmarkRun& run, PageTable& table) {
  const auto fact = [&](std::string_view option) {
    const auto found = std::ranges::find(run.facts, option, &ServerFact::option);
    return found == run.facts.end() ? std::string() : found->value;
  };
  std::string devices = fact("--hardware");
  if (const std::string ranks = fact("--tp"); !ranks.empty()) {
    devices += fmt::format("{}tensor parallel {}", devices.empty() ? "" : ", ", ranks);
  }
  std::string load = run.has_times ? "recorded send times" : "";
  if (run.rate && std::isfinite(*run.rate)) {
    load += fmt::format("{}{:.4g}/s", load.empty() ? "" : ", ", *run.rate);
  }
  if (run.cap) load += fmt::format("{}at most {} in flight", load.empty() ? "" : ", ", *run.cap);
  const std::array<std::string, 10> column = {
      run.name, "", fact("--model"), devices, fact("--replicas"), fact("--server"), "", load,
      "",       ""};
  for (std::size_t i = 0; i < column.size(); ++i) table[i].push_back(column[i]);
}

PageTable ShortConfig(const std::vector<ReportedRun>& runs) {
  PageTable table{{""},       {"policy"}, {"model"}, {"devices"}, {"replicas"},
                  {"server"}, {"costs"},  {"load"},  {"SLO"},     {"seed"}};
  for (const ReportedRun& run : runs) {
    if (run.measured) {
      AddMeasuredConfig(*run.measured, table);
      continue;
    }
    const auto fields = ConfigFields(run.config);
    const std::map<std::string, std::string> by_name(fields.begin(), fields.end());
    const std::string parts = fmt::format("{} x {}", FieldOr(by_name, "system.tensor_parallel"),
                                          FieldOr(by_name, "system.pipeline_parallel"));
    table[0].push_back(run.name);
    table[1].push_back(PolicyText(run.config, fields));
    table[2].push_back(FieldOr(by_name, "system.model"));
    table[3].push_back(fmt::format("{}, tensor x pipeline parallel {}",
                                   FieldOr(by_name, "system.hardware"), parts));
    table[4].push_back(ReplicasText(by_name));
    table[5].push_back(FieldOr(by_name, "system.server"));
    table[6].push_back(ChoiceOf(run.config, "cost"));
    table[7].push_back(LoadText(fields, by_name));
    table[8].push_back(FieldsBelow(fields, "slo."));
    table[9].push_back(FieldOr(by_name, "seed"));
  }
  std::erase_if(table, [&](const std::vector<std::string>& row) {
    return &row != &table[0] && std::all_of(row.begin() + 1, row.end(),
                                            [](const std::string& cell) { return cell.empty(); });
  });
  return table;
}

PageTable DifferenceTable(const std::vector<ReportedRun>& runs) {
  std::vector<ConfigText> configs;
  PageTable table{{"field"}};
  for (const ReportedRun& run : runs) {
    if (run.measured) continue;
    if (run.config.empty()) return {};
    configs.push_back({(run.path / "config.resolved.textproto").string(), run.config});
    table[0].push_back(run.name);
  }
  if (configs.size() < 2) return {};
  for (const FieldDifference& field : ConfigDifferences(configs)) {
    table.push_back({field.path});
    table.back().insert(table.back().end(), field.values.begin(), field.values.end());
  }
  return table;
}

void AddVerdicts(Page& page, const std::vector<ReportedRun>& runs) {
  for (const ReportedRun& run : runs) {
    const auto [kind, text] =
        run.measured ? std::pair<std::string, std::string>("unsure", MeasuredText(*run.measured))
                     : SaturationVerdict(run.summary);
    page.Verdict(kind, runs.size() == 1 ? text : fmt::format("{}: {}", run.name, text));
  }
}

}  // namespace

std::string RunsPage(std::span<const fs::path> paths) {
  const std::vector<ReportedRun> runs = ReadReportedRuns(paths);
  std::string title;
  for (const ReportedRun& run : runs) title += (title.empty() ? "" : ", ") + run.name;
  Page page(title);
  AddVerdicts(page, runs);
  page.Heading("Metrics");
  page.Table(MetricTable(runs));
  page.Paragraph(
      "In brackets: the 95 % interval of a mean, from batch means of the requests in order of "
      "arrival; none where the run is too short for what waits and runs in it, as such intervals "
      "are too narrow. Several seeds (twinserve sweep) give intervals of every metric.");
  for (const ReportedRun& run : runs) {
    page.Details(fmt::format("All metrics of {}", run.name), AllMetrics(run.summary));
  }
  page.Heading("Configuration");
  page.Table(ShortConfig(runs));
  if (const PageTable table = DifferenceTable(runs); runs.size() > 1 && table.size() > 1) {
    page.Heading("What differs");
    page.Table(table);
  }
  for (const ReportedRun& run : runs) {
    if (!run.config.empty()) {
      page.Details(fmt::format("Full configuration of {}", run.name), run.config);
    }
  }
  AddLatencyFigures(page, runs);
  AddLoadFigures(page, runs);
  AddStepFigures(page, runs);
  return page.Html();
}

}  // namespace twin::run
