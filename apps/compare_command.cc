// twinserve compare: the summaries of several runs side by side.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "record/summary.h"

namespace twin::apps {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  std::vector<std::string> metrics;
};

// What a reader wants to see first; --metrics replaces it, "all" shows everything.
const char* const kHeadline[] = {"completed",          "rejected",
                                 "mean_ttft_ms",       "p50_ttft_ms",
                                 "p99_ttft_ms",        "mean_tpot_ms",
                                 "p99_tpot_ms",        "mean_itl_ms",
                                 "p99_itl_ms",         "mean_e2el_ms",
                                 "p99_e2el_ms",        "request_throughput",
                                 "request_goodput",    "output_throughput",
                                 "mean_kv_used_share", "max_kv_used_share",
                                 "preemptions",        "swaps",
                                 "mean_batch_tokens",  "steps"};

Summary ReadSummary(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "summary.json";
  std::ifstream in(file);
  if (!in) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "is no run directory: it has no summary.json");
  }
  const auto json = nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw InputError(InputError::Kind::kData, file.string(), "is not a JSON object");
  Summary summary;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number_integer()) {
      summary.Set(name, value.get<std::int64_t>());
    } else if (value.is_number()) {
      summary.Set(name, value.get<double>());
    } else if (value.is_string()) {
      summary.Set(name, value.get<std::string>());
    }
  }
  return summary;
}

Summary Select(const Summary& summary, const std::vector<std::string>& names) {
  Summary selected;
  for (const std::string& name : names) {
    if (const SummaryValue* value = summary.Find(name)) selected.Set(name, *value);
  }
  return selected;
}

// Throws if no run has a metric that was asked for by name.
void RequireKnown(const std::vector<std::string>& metrics, const std::vector<Summary>& summaries) {
  for (const std::string& metric : metrics) {
    std::vector<std::string_view> names;
    for (const Summary& summary : summaries) {
      for (const SummaryEntry& entry : summary.entries()) names.push_back(entry.name);
    }
    if (std::find(names.begin(), names.end(), metric) != names.end()) continue;
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    throw InputError(InputError::Kind::kUsage, "--metrics " + metric,
                     "no run has it; nearest: " + NearestNames(metric, names));
  }
}

void Compare(const CompareArguments& arguments) {
  std::vector<std::string> names = arguments.metrics;
  if (names.empty()) names.assign(std::begin(kHeadline), std::end(kHeadline));
  std::vector<Summary> summaries;
  for (const std::string& run : arguments.runs) summaries.push_back(ReadSummary(run));
  if (names[0] != "all") {
    RequireKnown(arguments.metrics, summaries);
    for (Summary& summary : summaries) summary = Select(summary, names);
  }
  std::vector<NamedSummary> columns;
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    std::filesystem::path path(arguments.runs[i]);
    if (path.filename().empty()) path = path.parent_path();
    columns.push_back({path.filename().string(), &summaries[i]});
  }
  WriteTable(std::cout, columns);
}

}  // namespace

void AddCompareCommand(CLI::App& app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "The summaries of several runs side by side");
  command->add_option("RUN_DIR", arguments->runs, "Run directories")->required();
  command->add_option("--metrics", arguments->metrics, "Names of summary.json to show, or all")
      ->delimiter(',');
  command->callback([arguments] { Compare(*arguments); });
}

}  // namespace twin::apps
