// docs/metrics.md: every key and column that a run writes is there, and nothing else.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/profile/profile_measurements.h"
#include "apps/validate/validation_report.h"
#include "core/step_parts.h"
#include "run/record/csv_columns.h"
#include "run/record/metric_catalog.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

std::string Page() { return ReadText(std::string(TWIN_SOURCE_DIR) + "/docs/metrics.md"); }

// The text behind a heading, up to the next one of its level.
std::string Section(const std::string& title) {
  const std::string page = Page();
  const std::size_t begin = page.find("\n## " + title + "\n");
  EXPECT_NE(begin, std::string::npos) << "docs/metrics.md has no section " << title;
  if (begin == std::string::npos) return "";
  return page.substr(begin + 1, page.find("\n## ", begin + 1) - begin);
}

// The names between backquotes in the first cells of the section's tables.
std::vector<std::string> NamesIn(const std::string& section) {
  std::vector<std::string> names;
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    const std::string cell = line.substr(0, line.find(" |", 2));
    for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
      const std::size_t end = cell.find('`', at + 1);
      names.push_back(cell.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return names;
}

std::string UnitText(std::string_view unit) { return std::string(unit.empty() ? "-" : unit); }

std::string ColumnRows(std::span<const TableColumn> columns) {
  std::string rows;
  for (const TableColumn& column : columns) {
    rows += fmt::format("| `{}` | {} | {} |\n", column.name, UnitText(column.unit), column.what);
  }
  return rows;
}

void ExpectRows(const std::string& section, const std::string& rows) {
  std::istringstream lines(rows);
  const std::string text = Section(section);
  bool missing = false;
  for (std::string line; std::getline(lines, line);) {
    const bool found = text.find(line + "\n") != std::string::npos;
    EXPECT_TRUE(found) << line;
    missing = missing || !found;
  }
  if (missing) ADD_FAILURE() << "docs/metrics.md, " << section << ", should have\n" << rows;
}

class MetricsPageTest : public testing::ExperimentFolderTest {};

TEST_F(MetricsPageTest, HasTheTablesOfTheCatalogue) {
  EXPECT_NE(Section("summary.json").find("\n" + MetricTables()), std::string::npos)
      << "CONTRIBUTING.md says how to regenerate the tables of metrics";
  std::vector<std::string> known;
  for (const Metric& metric : MetricCatalog()) known.push_back(metric.name);
  EXPECT_THAT(NamesIn(Section("summary.json")), UnorderedElementsAreArray(known));
}

TEST_F(MetricsPageTest, HasEveryKeyThatRunsWriteAndNoOther) {
  std::set<std::string> written;
  for (const json& summary :
       {RunSmall("plain", {"--set", "slo.ttft_s=1"}),
        RunSmall("tenants",
                 {"--set", "metrics.by_tenant=true", "--set",
                  "system.boundary.request_s.mean_s=0.003", "--set", "workload.max_in_flight=4"}),
        RunSmall("replicas", {"--set", "system.replicas=2"}),
        RunSmall("groups", {"--set", "system.replica_groups=[{count: 2}, {}]"}),
        RunSmall("pipeline", {"--set", "system.pipeline_parallel=2"}),
        RunSmall("split", {"--set", "system.disaggregation.prefill_replicas=1"}),
        RunSmall("drafts", {"--set", "speculation.num_speculative_tokens=2"})}) {
    for (const auto& [name, value] : summary.items()) {
      EXPECT_NE(FindMetric(name), nullptr) << name;
      written.insert(name);
    }
  }
  for (const Metric& metric : MetricCatalog()) {
    // "real runs only", "emulated runs only", "served runs only".
    const bool of_other_runs = metric.what.find(" runs only") != std::string::npos ||
                               metric.name == "idle_energy_share";  // no shipped sheet knows it
    EXPECT_NE(written.contains(metric.name), of_other_runs) << metric.name;
    if ((metric.traits & kByTenant) != 0 &&
        metric.what.find("with `slo` only") == std::string::npos) {
      EXPECT_TRUE(written.contains("tenant_0_" + metric.name)) << metric.name;
    }
  }
}

TEST_F(MetricsPageTest, HasTheColumnsOfAllFilesInTheirOrder) {
  (void)RunSmall("run");
  struct File {
    const char* name;
    std::span<const TableColumn> columns;
  };
  for (const File& file :
       {File{"requests.csv", RequestColumns()}, File{"steps.csv", StepColumns()},
        File{"series.csv", SeriesColumns(true)}, File{"parts.csv", PartColumns()}}) {
    ExpectRows(file.name, ColumnRows(file.columns));
    std::vector<std::string> names;
    for (const TableColumn& column : file.columns) names.emplace_back(column.name);
    if (std::string(file.name) == "requests.csv") {
      ExpectRows(file.name, ColumnRows(BoundaryColumns()));
      ExpectRows(file.name, ColumnRows(ReplicaColumns()));
      for (const TableColumn& column : BoundaryColumns()) names.emplace_back(column.name);
      for (const TableColumn& column : ReplicaColumns()) names.emplace_back(column.name);
    }
    EXPECT_THAT(NamesIn(Section(file.name)), ElementsAreArray(names)) << file.name;
    if (std::string(file.name) == "parts.csv") continue;  // of real runs
    EXPECT_THAT(ReadText(scratch_.File(std::string("run/") + file.name)),
                StartsWith(HeaderLine(file.columns)));
  }
}

TEST_F(MetricsPageTest, ThePartsOfAStepAreTheColumnsOfItsParts) {
  std::vector<std::string> names;
  for (const std::string_view part : kStepPartNames) names.push_back(fmt::format("{}_ms", part));
  std::vector<std::string> columns;
  for (const TableColumn& column : PartColumns().last(kStepPartCount)) {
    columns.emplace_back(column.name);
  }
  EXPECT_EQ(columns, names);
}

TEST_F(MetricsPageTest, HasTheColumnsOfAProfile) {
  run::ProfileHeader header;
  header.machine = "m";
  const std::string file = scratch_.File("profile.csv");
  const run::ProfileWriter writer(file, header, true);
  std::istringstream lines(ReadText(file));
  std::string columns;
  while (std::getline(lines, columns) && columns.starts_with("#")) {
  }
  std::vector<std::string> names;
  std::istringstream cells(columns);
  for (std::string cell; std::getline(cells, cell, ',');) names.push_back(cell);
  EXPECT_THAT(NamesIn(Section("Profiles")), ElementsAreArray(names));
}

// Paths of all values: metrics.*.predicted stands for every metric.
void AddPaths(const json& value, const std::string& path, std::vector<std::string>& paths) {
  if (!value.is_object()) {
    paths.push_back(path);
    return;
  }
  for (const auto& [name, child] : value.items()) {
    const bool any =
        path == "metrics" || path == "steps" || path == "parts" || path == "metrics.*.attribution";
    AddPaths(child, path.empty() ? name : path + "." + (any ? "*" : name), paths);
  }
}

TEST_F(MetricsPageTest, HasTheKeysOfAValidation) {
  run::Validation validation;
  validation.difference = "plan 3 differs";
  validation.metrics.push_back({"mean_ttft_ms", 2, 1, 3, {{"host", 1}}, 0.5});
  validation.speed = run::MachineSpeed{};
  validation.endings = run::EndingComparison{};
  validation.steps.push_back({"all", 5, 1, 2, 100, 100});
  validation.parts.push_back({"gemm", 1, 2});
  std::vector<std::string> paths;
  AddPaths(json::parse(run::ValidationJson(validation)), "", paths);
  EXPECT_THAT(NamesIn(Section("validation.json")), UnorderedElementsAreArray(paths));
}

}  // namespace
}  // namespace twin::apps
