#include "apps/predict/recorded_models.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace twin::run {
namespace {

constexpr double kRecordingSteps = 400;
constexpr double kStepsWithoutError = 5;
// Difference between recordings of one model and load (Qwen3-14B on H100, root mean square).
constexpr double kRecordingSd = 0.0075;
constexpr double kExactRows = 64;
constexpr double kBinsPerOctave = 4;
constexpr double kRowDigits = 100;  // digits of written rows: hundredths
constexpr double kRatioDigits = 1e5;

// Steps with about the same number of rows.
struct RowsBin {
  double log2_rows = 0;  // sum
  double count = 0;
  std::map<std::size_t, std::vector<double>> log_ratios;  // by recording
};

double BinOf(double rows) {
  if (rows <= kExactRows) return rows;
  return kExactRows + std::round(kBinsPerOctave * std::log2(rows / kExactRows));
}

// The larger of the two middle values of an even number. Their mean moves the ratios of bins with
// few steps, and with them the tails of TTFT in recorded runs by up to 4 %.
double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Rounds to a fraction 1 / `digits`, and never to -0.
double Rounded(double value, double digits) { return std::round(value * digits) / digits + 0.0; }

// The part of a ratio that counts: nothing of a ratio as small as the difference between
// recordings, all of one twice as large.
double Firm(double log_ratio) {
  const double size = std::abs(log_ratio);
  if (size >= 2 * kRecordingSd) return log_ratio;
  return std::copysign(2 * std::max(0.0, size - kRecordingSd), log_ratio);
}

double LogRatio(const RowsBin& bin) {
  double sum = 0;
  double weights = kStepsWithoutError;
  for (const auto& [recording, log_ratios] : bin.log_ratios) {
    const double weight = std::min(kRecordingSteps, static_cast<double>(log_ratios.size()));
    sum += weight * UpperMedian(log_ratios);
    weights += weight;
  }
  return Rounded(Firm(sum / weights), kRatioDigits);
}

sim::RecordedRatios RatiosOf(std::span<const RecordedStep> steps, bool with_prompts) {
  std::map<double, RowsBin> bins;
  for (const RecordedStep& step : steps) {
    if ((step.load.chunks.chunks > 0) != with_prompts) continue;
    const auto rows = static_cast<double>(step.load.rows);
    RowsBin& bin = bins[BinOf(rows)];
    bin.log2_rows += std::log2(rows);
    ++bin.count;
    bin.log_ratios[step.recording].push_back(step.log_ratio);
  }
  sim::RecordedRatios ratios;
  for (const auto& [key, bin] : bins) {
    ratios.rows.push_back(Rounded(std::exp2(bin.log2_rows / bin.count), kRowDigits));
    ratios.log_ratios.push_back(LogRatio(bin));
  }
  return ratios;
}

void WidenRange(const sim::StepLoad& load, sim::RecordedModel& model) {
  const auto widen = [](double value, std::int64_t& most) {
    most = std::max(most, static_cast<std::int64_t>(value));
  };
  widen(static_cast<double>(load.rows), model.rows_max);
  widen(load.decodes.requests, model.decodes_max);
  widen(load.decodes.context_tokens + load.chunks.context_tokens, model.context_tokens_max);
}

}  // namespace

void SetRecordedSteps(std::span<const RecordedStep> steps, sim::RecordedModel& model) {
  model.decode_ratios = RatiosOf(steps, false);
  model.prompt_ratios = RatiosOf(steps, true);
  for (const RecordedStep& step : steps) WidenRange(step.load, model);
}

void LastingErrors::Add(bool held_out, double error) {
  Squares& squares = held_out ? held_out_ : fitted_;
  squares.sum += error * error;
  ++squares.count;
}

double LastingErrors::Sd() const {
  double sd = kRecordingSd;
  for (const Squares& squares : {fitted_, held_out_}) {
    if (squares.count > 0) sd = std::max(sd, std::sqrt(squares.sum / squares.count));
  }
  return sd;
}

}  // namespace twin::run
