#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/python/bindings.h"
#include "apps/python/reporting_control.h"
#include "apps/recommend/recommendation.h"
#include "apps/recommend/recommendation_json.h"
#include "config/experiment_config.h"
#include "config/recommend_config.h"
#include "run/many/bounds.h"
#include "run/many/capacity.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

nb::list ProbesOf(const run::Capacity& capacity) {
  nb::list probes;
  for (const run::CapacityProbe& probe : capacity.probes) {
    nb::dict row;
    row["x"] = probe.x;
    row["requests"] = probe.requests;
    row["n"] = probe.n;
    row["metric"] = probe.metric;
    row["mean"] = probe.interval.value;
    row["low"] = probe.interval.low;
    row["high"] = probe.interval.high;
    row["verdict"] = run::NameOf(probe.verdict);
    probes.append(row);
  }
  return probes;
}

nb::dict RowOf(const run::Capacity& capacity) {
  nb::dict row;
  row["experiment"] = capacity.experiment;
  row["value"] = capacity.value;
  row["low"] = capacity.low;
  row["high"] = capacity.high;
  row["verdict"] = run::NameOf(capacity.verdict);
  row["limiting"] = capacity.limiting;
  row["runs"] = capacity.runs;
  row["requests"] = capacity.requests;
  if (capacity.settled == run::Capacity::Settled::kNotTestable) {
    row["settled"] = nb::none();
  } else {
    row["settled"] = capacity.settled == run::Capacity::Settled::kYes;
  }
  row["monotone"] = capacity.monotone;
  row["change"] = capacity.change.value;
  row["change_low"] = capacity.change.low;
  row["change_high"] = capacity.change.high;
  row["by_seed_mean"] = capacity.by_seed.value;
  row["by_seed_low"] = capacity.by_seed.low;
  row["by_seed_high"] = capacity.by_seed.high;
  return row;
}

nb::dict ComparisonOf(const run::CapacityAnswer& answer, const run::CapacityComparison& compared) {
  const run::PairedComparison& paired = compared.paired;
  nb::dict row;
  row["first"] = answer.capacities[compared.first].experiment;
  row["second"] = answer.capacities[compared.second].experiment;
  row["ratio"] = paired.ratio.value;
  row["ratio_low"] = paired.ratio.low;
  row["ratio_high"] = paired.ratio.high;
  row["difference"] = paired.difference.value;
  row["difference_low"] = paired.difference.low;
  row["difference_high"] = paired.difference.high;
  return row;
}

// Rows, the probes of each, the comparisons with the first experiment, and the reports.
nb::tuple Capacity(const std::vector<Source>& sources, const std::vector<std::string>& names,
                   const std::vector<std::string>& changes, run::CapacityQuestion question,
                   const std::string& until, const nb::object& progress) {
  run::CapacityAnswer answer;
  ReportingControl control;
  RunInBackground(control, progress, true, [&] {
    question.bounds = run::ParseBounds(until);
    std::vector<ExperimentTemplate> experiments;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (control.StopRequested()) return;
      const auto& [text, is_text] = sources[i];
      experiments.push_back(is_text ? ExperimentTemplate::FromText(text, names[i])
                                    : ExperimentTemplate(text));
      experiments.back().Change(changes, std::filesystem::current_path());
    }
    answer = run::FindCapacities(experiments, names, question, control);
  });
  nb::list rows;
  nb::list probes;
  for (const run::Capacity& capacity : answer.capacities) {
    rows.append(RowOf(capacity));
    probes.append(ProbesOf(capacity));
  }
  nb::list comparisons;
  for (const run::CapacityComparison& compared : answer.comparisons) {
    comparisons.append(ComparisonOf(answer, compared));
  }
  return nb::make_tuple(rows, probes, comparisons, control.Reports());
}

// The answer as JSON, empty if it was interrupted, and the reports.
nb::tuple Recommend(const Source& source, const std::string& out, int jobs, bool exhaustive,
                    const nb::object& progress) {
  std::string json;
  ReportingControl control;
  RunInBackground(control, progress, false, [&] {
    const auto& [text, is_text] = source;
    const RecommendConfig request =
        is_text ? ParseRecommendation(text, "request", std::filesystem::current_path())
                : ReadRecommendation(text);
    run::RecommendOptions options{.jobs = jobs, .exhaustive = exhaustive};
    if (!out.empty()) options.log = run::LogIn(out);
    const run::Recommendation answer = run::Recommend(request, options, control);
    if (answer.interrupted) return;
    json = run::RecommendationJson(answer, request);
    if (!out.empty()) run::WriteRecommendation(answer, request, out);
  });
  return nb::make_tuple(json, control.Reports());
}

}  // namespace

void BindStudies(nb::module_& module) {
  module.def("recommend", &Recommend, nb::arg("request"), nb::arg("out"), nb::arg("jobs"),
             nb::arg("exhaustive"), nb::arg("progress").none());
  module.def(
      "capacity",
      [](const std::vector<Source>& sources, const std::vector<std::string>& names,
         const std::vector<std::string>& changes, const std::string& vary,
         std::pair<double, double> between, const std::string& until, std::uint32_t replications,
         double confidence, double tolerance, int doublings, int jobs, bool smallest,
         const nb::object& progress) {
        run::CapacityQuestion question;
        question.path = vary;
        question.from = between.first;
        question.to = between.second;
        question.replications = replications;
        question.confidence = confidence;
        question.tolerance = tolerance;
        question.doublings_max = doublings;
        question.jobs = jobs;
        question.smallest = smallest;
        return Capacity(sources, names, changes, std::move(question), until, progress);
      },
      nb::arg("experiments"), nb::arg("names"), nb::arg("changes"), nb::arg("vary"),
      nb::arg("between"), nb::arg("until"), nb::arg("replications"), nb::arg("confidence"),
      nb::arg("tolerance"), nb::arg("doublings"), nb::arg("jobs"), nb::arg("smallest"),
      nb::arg("progress").none());
}

}  // namespace twin::python
