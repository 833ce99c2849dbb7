// The comparison of a measured run with its simulation, for people and programs.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "apps/validate/measured_comparison.h"
#include "run/record/table.h"

namespace twin::apps {

struct NamedComparison {
  std::string name;  // of the run
  MeasuredComparison comparison;
};

// A table of means, p99 and throughput, what explains the errors, and what is not known.
void PrintComparison(std::ostream& out, const NamedComparison& run);

// CSV: a row per run and metric.
std::string ErrorsCsv(std::span<const NamedComparison> runs);
// CSV: a row per run, part or fact, and mean latency.
std::string PartsCsv(std::span<const NamedComparison> runs);
// The errors of all metrics, or of means, p99 and throughput.
Table ErrorTable(const std::vector<MetricError>& errors, bool main_only);
// Effects of parts (kPart, which includes kStepTimes) or of facts.
Table EffectTable(const std::vector<PartEffect>& effects, Variant::Kind kind);
std::string EffectTitle(Variant::Kind kind);
// "--tp 1 (tp), ...": each fact with its origin.
std::string FactsText(const std::vector<KnownFact>& facts);
// Everything, as Markdown.
std::string ReportMarkdown(std::span<const NamedComparison> runs);

}  // namespace twin::apps
