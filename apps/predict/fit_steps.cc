#include "apps/predict/fit_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "apps/predict/recorded_models.h"
#include "config/models/named_model.h"
#include "core/input_error.h"
#include "core/statistics.h"
#include "sim/cost/normal_equations.h"
#include "sim/devices/profile_cost.h"
#include "sim/devices/stage_cache.h"

namespace twin::run {
namespace {

constexpr double kNoise = 0.02;            // relative, of one recorded step
constexpr double kIndependentSteps = 400;  // of one kind in one set
constexpr double kDifference = 0.05;       // in units of the prior's standard deviation
constexpr int kPasses = 12;
constexpr double kLeastSpread = 0.005;
constexpr double kNormal90 = 1.645;         // of a standard normal variable, 90 % lie within
constexpr std::int64_t kStepsOfBias = 100;  // fewer say little about the mean error of a kind
constexpr std::size_t kStepsOfModel = 100;  // fewer say little about a model

// The terms that steps of given composition and begin depend on.
constexpr std::array<std::string_view, 8> kFittedTerms = {
    "heat_factor",         "heat_tau_s",  "decode_heat_factor", "compute_in_place",
    "collective_in_place", "graph_gap_s", "eager_gap_s",        "hidden_gap_s"};

struct Term {
  sim::StepTermField field;
  sim::StepTerm prior;
};

struct LoadedSet {
  const StepSet* set = nullptr;
  std::unique_ptr<sim::StepModel> model;
  std::vector<StepRow> rows;
  std::vector<double> rested;   // predicted with the prior, to recognise idle times
  std::vector<double> weights;  // of the rows that are measured
};

// A step of given terms.
struct Predicted {
  double seconds = 0;
  double gap = 0;  // of them
  double heat = 0;
};

std::size_t KindOf(const StepTotals& totals) {
  return static_cast<std::size_t>(std::min<std::int64_t>(totals.prefill_items, 2));
}

// Sets weights, so that each kind of step counts as at most kIndependentSteps.
void SetWeights(LoadedSet& loaded) {
  std::array<double, 3> counts{};
  for (const StepRow& row : loaded.rows) {
    if (row.measured_s) ++counts[KindOf(row.totals)];
  }
  for (const StepRow& row : loaded.rows) {
    const double count = counts[KindOf(row.totals)];
    loaded.weights.push_back(row.measured_s ? std::min(1.0, kIndependentSteps / count) : 0);
  }
}

Predicted Predict(const sim::StepModel& model, const sim::StepTerms& terms,
                  const StepTotals& totals, double heat, double last_step) {
  Predicted step{.heat = heat};
  for (int stage = 0; stage < model.stages(); ++stage) {
    const sim::StageTimes times = model.TimesWith(terms, totals, stage, heat, last_step);
    step.seconds += times.total();
    step.gap += times.gap;
  }
  return step;
}

Parallelism ParallelismOf(const StepSet& set) { return {.tensor = set.tensor, .pipeline = 1}; }

bool Holds(const sim::RecordedModel& model, const StepSet& set) {
  return model.Is(set.model, ParallelismOf(set));
}

std::unique_ptr<sim::StepModel> ModelOf(const StepSet& set, const HardwareSpec& hardware,
                                        sim::StepEngine engine, const sim::DeviceProfile& device,
                                        sim::StageCache& stages) {
  sim::ProfileCostConfig config;
  config.engine = engine;
  sim::StepModelConfig model = sim::StepModelConfigOf(config, hardware);
  model.terms = sim::DocumentedStepTerms(hardware.name, engine);
  return std::make_unique<sim::StepModel>(model, set.model, hardware, ParallelismOf(set), device,
                                          &stages);
}

LoadedSet Load(const StepSet& set, const HardwareSpec& hardware, sim::StepEngine engine,
               const sim::DeviceProfile& device, sim::StageCache& stages) {
  LoadedSet loaded;
  loaded.set = &set;
  loaded.model = ModelOf(set, hardware, engine, device, stages);
  CsvTable table(set.file.string(), StepTableColumns());
  while (table.Next()) {
    const StepRow row = ReadStepRow(table);
    if (row.totals.tokens() == 0) continue;
    loaded.rested.push_back(
        Predict(*loaded.model, loaded.model->terms(), row.totals, 0, 0).seconds);
    loaded.rows.push_back(row);
  }
  if (std::ranges::none_of(loaded.rows,
                           [](const StepRow& row) { return row.measured_s.has_value(); })) {
    throw InputError(InputError::Kind::kData, set.file.string(),
                     "has no measured step; allowed: one row or more with iter_us (microseconds) "
                     "above 0 and, where there is a column clean, 1 in it");
  }
  SetWeights(loaded);
  return loaded;
}

// All steps of a set, in order.
std::vector<Predicted> PredictAll(const LoadedSet& loaded, const sim::StepTerms& terms) {
  const sim::HeatMemory memory(terms.heat_tau_s.value);
  StepTimeline timeline;
  std::vector<Predicted> all;
  all.reserve(loaded.rows.size());
  for (std::size_t i = 0; i < loaded.rows.size(); ++i) {
    const StepRow& row = loaded.rows[i];
    const StepTimeline::Begin begin = timeline.BeginOf(row, memory, loaded.rested[i]);
    all.push_back(row.measured_s
                      ? Predict(*loaded.model, terms, row.totals, begin.heat, begin.last_step)
                      : Predicted{.heat = begin.heat});
    timeline.Advance(row, memory, loaded.model->ComputeShare(row.totals), loaded.rested[i]);
  }
  return all;
}

sim::StepTerms TermsAt(const sim::StepTerms& start, const std::vector<Term>& terms,
                       std::span<const double> at) {
  sim::StepTerms made = start;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    (made.*terms[i].field.value).value =
        terms[i].prior.value * std::exp(at[i] * terms[i].prior.log_sd);
  }
  return made;
}

void AddSet(const LoadedSet& loaded, const sim::StepTerms& start, const std::vector<Term>& terms,
            const std::vector<double>& at, sim::NormalEquations& equations) {
  const std::vector<Predicted> now = PredictAll(loaded, TermsAt(start, terms, at));
  std::vector<std::vector<Predicted>> moved;
  for (std::size_t j = 0; j < terms.size(); ++j) {
    std::vector<double> beside = at;
    beside[j] += kDifference;
    moved.push_back(PredictAll(loaded, TermsAt(start, terms, beside)));
  }
  std::vector<double> gradient(terms.size());
  for (std::size_t i = 0; i < loaded.rows.size(); ++i) {
    if (!loaded.rows[i].measured_s) continue;
    const double residual = std::log(*loaded.rows[i].measured_s / now[i].seconds) / kNoise;
    for (std::size_t j = 0; j < terms.size(); ++j) {
      gradient[j] = std::log(moved[j][i].seconds / now[i].seconds) / kDifference / kNoise;
    }
    // Cauchy's loss: outliers of the client's clock count little.
    const double weight = loaded.weights[i] / (1 + residual * residual / 4);
    equations.Add(gradient, residual, weight);
  }
}

std::vector<Term> TermsToFit(const sim::StepTerms& start, const std::vector<StepSet>& sets) {
  const bool tensor =
      std::any_of(sets.begin(), sets.end(), [](const StepSet& set) { return set.tensor > 1; });
  std::vector<Term> terms;
  for (const sim::StepTermField& field : sim::kStepTermFields) {
    const sim::StepTerm prior = start.*field.value;
    const bool fitted =
        std::find(kFittedTerms.begin(), kFittedTerms.end(), field.name) != kFittedTerms.end();
    if (!fitted || prior.log_sd == 0 || prior.value == 0) continue;
    if (field.name == "collective_in_place" && !tensor) continue;
    terms.push_back({field, prior});
  }
  return terms;
}

StepErrorRow ErrorsOf(const LoadedSet& loaded, std::string kind, std::vector<double> errors) {
  StepErrorRow row;
  row.set = loaded.set->name;
  row.use = loaded.set->use;
  row.kind = std::move(kind);
  row.steps = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) return row;
  row.bias = Median(errors);
  for (double& error : errors) error = std::abs(error);
  row.median = Median(errors);
  row.p90 = Quantile(std::move(errors), 0.9);
  return row;
}

void AddErrors(const LoadedSet& loaded, const sim::StepTerms& terms,
               std::vector<StepErrorRow>& rows) {
  using Test = bool (*)(const StepTotals&, double heat);
  struct Kind {
    const char* name;
    Test holds;
  };
  static constexpr std::array kKinds = {
      Kind{"all", [](const StepTotals&, double) { return true; }},
      Kind{"decode", [](const StepTotals& t, double) { return t.prefill_items == 0; }},
      Kind{"decode, B >= 17",
           [](const StepTotals& t, double) { return t.prefill_items == 0 && t.decode_items > 16; }},
      Kind{"mixed", [](const StepTotals& t, double) { return t.prefill_items > 0; }},
      Kind{"mixed, E < .05",
           [](const StepTotals& t, double e) { return t.prefill_items > 0 && e < 0.05; }},
      Kind{"mixed, E > .7",
           [](const StepTotals& t, double e) { return t.prefill_items > 0 && e > 0.7; }},
      Kind{"mixed, 2+ prompts", [](const StepTotals& t, double) { return t.prefill_items > 1; }}};
  const std::vector<Predicted> predicted = PredictAll(loaded, terms);
  for (const Kind& kind : kKinds) {
    std::vector<double> errors;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      const StepRow& row = loaded.rows[i];
      if (!row.measured_s || !kind.holds(row.totals, predicted[i].heat)) continue;
      errors.push_back(predicted[i].seconds / *row.measured_s - 1);
    }
    if (!errors.empty()) rows.push_back(ErrorsOf(loaded, kind.name, std::move(errors)));
  }
}

// The fitted steps of a model.
std::vector<RecordedStep> StepsOf(const sim::RecordedModel& model,
                                  const std::vector<LoadedSet>& all, const sim::StepTerms& terms) {
  std::vector<RecordedStep> steps;
  for (std::size_t recording = 0; recording < all.size(); ++recording) {
    const LoadedSet& loaded = all[recording];
    if (loaded.set->use == StepUse::kJudge || !Holds(model, *loaded.set)) continue;
    const std::vector<Predicted> predicted = PredictAll(loaded, terms);
    for (std::size_t i = 0; i < loaded.rows.size(); ++i) {
      const StepRow& row = loaded.rows[i];
      if (!row.measured_s) continue;
      // Outliers of a clock may be shorter than the gap alone.
      const double measured = *row.measured_s - predicted[i].gap;
      if (measured <= 0) continue;
      steps.push_back(
          {.recording = recording,
           .load = loaded.model->LoadOf(row.totals),
           .log_ratio = std::log(measured / (predicted[i].seconds - predicted[i].gap))});
    }
  }
  return steps;
}

// Corrections for models with fitted recordings, except models with few recorded steps.
std::vector<sim::RecordedModel> RecordedModels(const std::vector<LoadedSet>& all,
                                               const sim::StepTerms& terms) {
  std::vector<sim::RecordedModel> models;
  for (const LoadedSet& loaded : all) {
    const StepSet& set = *loaded.set;
    const bool known = std::ranges::any_of(
        models, [&](const sim::RecordedModel& model) { return Holds(model, set); });
    if (known || set.use == StepUse::kJudge) continue;
    sim::RecordedModel model;
    model.model = set.model.name;
    model.tensor = set.tensor;
    model.weight_dtype = set.model.weight_dtype;
    model.kv_dtype = set.model.kv_dtype;
    const std::vector<RecordedStep> steps = StepsOf(model, all, terms);
    if (steps.size() < kStepsOfModel) continue;
    SetRecordedSteps(steps, model);
    models.push_back(std::move(model));
  }
  return models;
}

// Sets how far the recordings of a model are off, by kind of step. A kind without enough steps
// takes the value of the other kind; without enough steps of either, the errors of single steps
// count.
void SetSpreads(const std::vector<LoadedSet>& all, const std::vector<StepErrorRow>& errors,
                sim::RecordedModel& model) {
  LastingErrors decodes;
  LastingErrors prompts;
  for (const LoadedSet& loaded : all) {
    const StepSet& set = *loaded.set;
    if (!Holds(model, set)) continue;
    const bool judged = set.use == StepUse::kJudge;
    for (const StepErrorRow& row : errors) {
      if (row.set != set.name) continue;
      if (row.kind == "all") model.step_sd = std::max(model.step_sd, row.p90 / kNormal90);
      if (row.steps < kStepsOfBias) continue;
      if (row.kind == "decode") decodes.Add(judged, row.bias);
      if (row.kind == "mixed") prompts.Add(judged, row.bias);
    }
  }
  const double other = decodes.any() ? decodes.Sd() : prompts.any() ? prompts.Sd() : model.step_sd;
  model.lasting_sd = other;
  model.prompt_lasting_sd = prompts.any() ? prompts.Sd() : other;
}

FittedTerm Described(std::size_t index, const std::vector<Term>& terms, double at,
                     const sim::MapStep& step) {
  const Term& term = terms[index];
  FittedTerm fitted;
  fitted.name = term.field.name;
  fitted.prior = term.prior;
  fitted.fitted = {term.prior.value * std::exp(at * term.prior.log_sd),
                   std::max(kLeastSpread, step.sd[index] * term.prior.log_sd)};
  fitted.identified = 1 - step.sd[index] * step.sd[index];
  for (std::size_t j = 0; j < terms.size(); ++j) {
    if (j == index || std::abs(step.correlation[index][j]) <= std::abs(fitted.correlation))
      continue;
    fitted.correlation = step.correlation[index][j];
    fitted.partner = terms[j].field.name;
  }
  return fitted;
}

}  // namespace

std::vector<StepSet> ReadStepSets(const std::string& list, const std::filesystem::path& data) {
  CsvTable table(list, {"file", "model", "tensor", "use"});
  std::vector<StepSet> sets;
  while (table.Next()) {
    StepSet& set = sets.emplace_back();
    set.file = data / std::filesystem::path(table.Text("file"));
    set.name = set.file.filename().string();
    set.name.resize(std::min(set.name.size(), set.name.find(".csv")));
    set.tensor = static_cast<std::int32_t>(table.Integer("tensor", 1, 1024));
    set.use = table.Word<StepUse>("use",
                                  {{kStepUseNames[0], StepUse::kFit},
                                   {kStepUseNames[1], StepUse::kRatios},
                                   {kStepUseNames[2], StepUse::kJudge}},
                                  StepUse::kFit);
    try {
      set.model = ReadNamedShape(std::string(table.Text("model")), false);
      Validate(set.model, ParallelismOf(set));
    } catch (const InputError& error) {
      throw InputError(InputError::Kind::kData, fmt::format("{}: {}", list, set.name),
                       error.what());
    }
  }
  for (const StepSet& set : sets) {
    if (std::ranges::count(sets, set.name, &StepSet::name) == 1) continue;
    throw InputError(InputError::Kind::kData, list,
                     fmt::format("names two tables {}; allowed: names that differ", set.name));
  }
  if (std::ranges::find(sets, StepUse::kFit, &StepSet::use) == sets.end()) {
    throw InputError(
        InputError::Kind::kData, list,
        "has no table to fit; allowed: one row or more with \"fit\" in the column use");
  }
  return sets;
}

StepFit FitSteps(const std::vector<StepSet>& sets, const HardwareSpec& hardware,
                 sim::StepEngine engine, const sim::DeviceProfile& device, RunControl& control) {
  sim::DeviceProfile operations = device;
  operations.steps = {};
  sim::StageCache stages;
  std::vector<LoadedSet> loaded;
  for (const StepSet& set : sets) loaded.push_back(Load(set, hardware, engine, operations, stages));
  const sim::StepTerms start = sim::DocumentedStepTerms(hardware.name, engine);
  const std::vector<Term> terms = TermsToFit(start, sets);
  std::vector<double> at(terms.size(), 0.0);
  sim::MapStep step;
  for (int pass = 0; pass < kPasses; ++pass) {
    sim::NormalEquations equations(terms.size());
    for (const LoadedSet& set : loaded) {
      if (set.set->use == StepUse::kFit) AddSet(set, start, terms, at, equations);
    }
    step = equations.Solve(at);
    for (std::size_t j = 0; j < at.size(); ++j) at[j] += std::clamp(step.change[j], -1.0, 1.0);
    control.OnProgress("passes", static_cast<std::uint64_t>(pass) + 1, kPasses);
  }
  control.OnProgressEnd();
  StepFit fit;
  for (std::size_t j = 0; j < terms.size(); ++j) {
    fit.terms.push_back(Described(j, terms, at[j], step));
    fit.profile.*terms[j].field.fitted = fit.terms.back().fitted;
  }
  const sim::StepTerms fitted = TermsAt(start, terms, at);
  operations.steps.models = RecordedModels(loaded, fitted);
  for (LoadedSet& set : loaded) {
    set.model = ModelOf(*set.set, hardware, engine, operations, stages);
    AddErrors(set, fitted, fit.errors);
  }
  fit.profile.models = std::move(operations.steps.models);
  for (sim::RecordedModel& model : fit.profile.models) SetSpreads(loaded, fit.errors, model);
  return fit;
}

}  // namespace twin::run
