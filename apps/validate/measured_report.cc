#include "apps/validate/measured_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ostream>
#include <string_view>
#include <vector>

#include "core/csv.h"
#include "run/record/metric_table.h"

namespace twin::apps {
namespace {

std::string ShortValue(double value) {
  const SummaryValue number = value;
  return DisplayText(&number);
}

std::string UnitOf(const std::string& metric) { return metric == run::kThroughput ? "" : "ms"; }

std::string IntervalText(const MetricError& error) {
  if (!error.has_interval()) return "";
  return fmt::format("[{:+.1f}, {:+.1f}]", error.low_percent(), error.high_percent());
}

// An empty cell for a number that is not known.
void AddDefined(double value, CsvLine& line) {
  if (std::isfinite(value)) {
    line.Number(value);
  } else {
    line.Nothing();
  }
}

std::vector<std::string> RowOf(const MetricError& error) {
  return {TitleOf(error.metric),
          UnitOf(error.metric),
          ShortValue(error.measured),
          ShortValue(error.simulated),
          fmt::format("{:+.1f} %", error.percent()),
          IntervalText(error),
          error.text()};
}

const std::vector<std::string>& Header() {
  static const std::vector<std::string> header = {"",      "",     "measured", "simulated",
                                                  "error", "95 %", "verdict"};
  return header;
}

// Whether the short table shows the metric.
bool IsMain(const MetricError& error) {
  const std::string_view statistic = StatisticOf(error.metric);
  return statistic.empty() || statistic == "mean" || statistic == "p99";
}

void AddList(std::string& text, const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  text += fmt::format("\n{}:\n\n", title);
  for (const std::string& line : lines) text += fmt::format("- {}\n", line);
}

std::string FactsText(const std::vector<KnownFact>& facts) {
  std::vector<std::string> texts;
  for (const KnownFact& fact : facts)
    texts.push_back(fmt::format("{} ({})", fact.text, fact.origin));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void AddTableRow(std::string& text, const std::vector<std::string>& cells) {
  text += fmt::format("| {} |\n", fmt::join(cells, " | "));
}

void AddEffects(std::string& text, const std::vector<PartEffect>& effects, bool of_facts) {
  std::string rows;
  for (const PartEffect& effect : effects) {
    if ((effect.kind == Variant::Kind::kFact) != of_facts) continue;
    const std::string sd = std::isfinite(effect.effect_sd_ms)
                               ? fmt::format(" +- {:.3g}", 1.96 * effect.effect_sd_ms)
                               : "";
    AddTableRow(rows, {effect.name, TitleOf(effect.metric), ShortValue(effect.simulated),
                       fmt::format("{:+.1f} %", effect.error_percent),
                       fmt::format("{:.4g}{}", effect.effect_ms, sd)});
  }
  if (rows.empty()) return;
  text += fmt::format("\n### {}\n\n", of_facts ? "Facts about the server, one changed at a time"
                                               : "Parts of the model, one switched off at a time");
  AddTableRow(text,
              {of_facts ? "with" : "without", "metric", "simulated (ms)", "error",
               of_facts ? "simulated without - with (ms, 95 %)" : "effect of the part (ms, 95 %)"});
  AddTableRow(text, {"---", "---", "--:", "--:", "--:"});
  text += rows;
}

}  // namespace

void PrintComparison(std::ostream& out, const NamedComparison& run) {
  const MeasuredComparison& comparison = run.comparison;
  out << fmt::format("{}: {}\n", run.name, comparison.load);
  std::vector<std::vector<std::string>> rows = {Header()};
  for (const MetricError& error : comparison.errors) {
    if (IsMain(error)) rows.push_back(RowOf(error));
  }
  WriteAligned(out, rows, 2);
  for (const std::string& line : comparison.explanation) out << line << '\n';
  for (const std::string& line : comparison.notes) out << "note: " << line << '\n';
  for (const std::string& line : comparison.to_record) out << "to know more: " << line << '\n';
}

std::string ErrorsCsv(std::span<const NamedComparison> runs) {
  std::string text =
      "run,metric,measured,simulated,error_percent,low_percent,high_percent,requests,verdict\n";
  for (const NamedComparison& run : runs) {
    for (const MetricError& error : run.comparison.errors) {
      CsvLine line;
      line.Word(run.name).Word(error.metric).Number(error.measured).Number(error.simulated);
      line.Number(error.percent());
      AddDefined(error.has_interval() ? error.low_percent() : std::nan(""), line);
      AddDefined(error.has_interval() ? error.high_percent() : std::nan(""), line);
      line.Count(error.requests).Word(error.text());
      line.AppendTo(text);
    }
  }
  return text;
}

std::string PartsCsv(std::span<const NamedComparison> runs) {
  std::string text = "run,kind,name,metric,simulated,error_percent,effect_ms,effect_sd_ms\n";
  for (const NamedComparison& run : runs) {
    for (const PartEffect& effect : run.comparison.effects) {
      CsvLine line;
      line.Word(run.name).Word(effect.kind == Variant::Kind::kFact ? "fact" : "part");
      line.Word(effect.name).Word(effect.metric).Number(effect.simulated);
      line.Number(effect.error_percent).Number(effect.effect_ms);
      AddDefined(effect.effect_sd_ms, line);
      line.AppendTo(text);
    }
  }
  return text;
}

std::string ReportMarkdown(std::span<const NamedComparison> runs) {
  std::string text =
      "# Measured runs and their simulation\n\nError = simulated / measured - 1, with an interval "
      "of 95 %.\n";
  for (const NamedComparison& run : runs) {
    const MeasuredComparison& comparison = run.comparison;
    text += fmt::format("\n## {}\n\nLoad: {}.\nSystem: {}.\nAssumed: {}.\n\n", run.name,
                        comparison.load, FactsText(comparison.facts),
                        fmt::join(comparison.assumed, ", "));
    AddTableRow(text, Header());
    AddTableRow(text, {"---", "---", "--:", "--:", "--:", "--:", "---"});
    for (const MetricError& error : comparison.errors) AddTableRow(text, RowOf(error));
    AddList(text, "What explains the errors", comparison.explanation);
    AddList(text, "Notes", comparison.notes);
    AddEffects(text, comparison.effects, false);
    AddEffects(text, comparison.effects, true);
    AddList(text, "To know more next time, record", comparison.to_record);
  }
  return text;
}

}  // namespace twin::apps
