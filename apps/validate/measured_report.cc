#include "apps/validate/measured_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ostream>
#include <sstream>
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

std::vector<TableCell> RowOf(const MetricError& error) {
  return {TitleOf(error.metric),
          UnitOf(error.metric),
          TableCell::Number(ShortValue(error.measured)),
          TableCell::Number(ShortValue(error.simulated)),
          TableCell::Number(fmt::format("{:+.1f} %", error.percent())),
          TableCell::Number(IntervalText(error)),
          error.text()};
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

// In Markdown.
std::string TextOf(const Table& table) {
  std::ostringstream text;
  WriteTable(text, table, TableFormat::kMarkdown);
  return text.str();
}

void AddEffects(std::string& text, const std::vector<PartEffect>& effects, Variant::Kind kind) {
  const Table table = EffectTable(effects, kind);
  if (table.rows.empty()) return;
  text += fmt::format("\n### {}\n\n{}", EffectTitle(kind), TextOf(table));
}

}  // namespace

std::string FactsText(const std::vector<KnownFact>& facts) {
  std::vector<std::string> texts;
  for (const KnownFact& fact : facts)
    texts.push_back(fmt::format("{} ({})", fact.text, fact.origin));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Table ErrorTable(const std::vector<MetricError>& errors, bool main_only) {
  Table table{.columns = {"metric", "unit", "measured", "simulated", "error", "95 %", "verdict"},
              .left = 2};
  for (const MetricError& error : errors) {
    if (!main_only || IsMain(error)) table.rows.push_back(RowOf(error));
  }
  return table;
}

std::string EffectTitle(Variant::Kind kind) {
  return kind == Variant::Kind::kFact ? "Facts about the server, one changed at a time"
                                      : "Parts of the model, one switched off at a time";
}

Table EffectTable(const std::vector<PartEffect>& effects, Variant::Kind kind) {
  const bool of_facts = kind == Variant::Kind::kFact;
  Table table{.columns = {of_facts ? "with" : "without", "metric", "simulated (ms)", "error",
                          of_facts ? "simulated without - with (ms, 95 %)"
                                   : "effect of the part (ms, 95 %)"},
              .left = 2};
  for (const PartEffect& effect : effects) {
    if ((effect.kind == Variant::Kind::kFact) != of_facts) continue;
    const std::string sd = std::isfinite(effect.effect_sd_ms)
                               ? fmt::format(" +- {:.3g}", 1.96 * effect.effect_sd_ms)
                               : "";
    table.rows.push_back({effect.name, TitleOf(effect.metric),
                          TableCell::Number(ShortValue(effect.simulated)),
                          TableCell::Number(fmt::format("{:+.1f} %", effect.error_percent)),
                          TableCell::Number(fmt::format("{:.4g}{}", effect.effect_ms, sd))});
  }
  return table;
}

void PrintComparison(std::ostream& out, const NamedComparison& run) {
  const MeasuredComparison& comparison = run.comparison;
  out << fmt::format("{}: {}\n", run.name, comparison.load);
  WriteTable(out, ErrorTable(comparison.errors, true), TableFormat::kText);
  if (comparison.steps) {
    WriteTable(out, StepTable(comparison.steps->classes), TableFormat::kText);
    for (const std::string& line : comparison.steps->lines) out << line << '\n';
  }
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
    text += TextOf(ErrorTable(comparison.errors, false));
    if (comparison.steps) {
      text +=
          fmt::format("\n### Recorded steps\n\n{}", TextOf(StepTable(comparison.steps->classes)));
      AddList(text, "Batches and queues", comparison.steps->lines);
    }
    AddList(text, "What explains the errors", comparison.explanation);
    AddList(text, "Notes", comparison.notes);
    AddEffects(text, comparison.effects, Variant::Kind::kPart);
    AddEffects(text, comparison.effects, Variant::Kind::kFact);
    AddList(text, "To know more next time, record", comparison.to_record);
  }
  return text;
}

}  // namespace twin::apps
