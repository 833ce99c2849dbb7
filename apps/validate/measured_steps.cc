#include "apps/validate/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "apps/validate/step_predictor.h"
#include "core/csv.h"
#include "core/statistics.h"

namespace twin::apps {
namespace {

// The records hold the run if they decode as many tokens, give or take this share and one token a
// request: a server that plans ahead computes a token beyond the last one.
constexpr double kDecodesDiffer = 0.02;

// Sizes are numbers of decodes in steps without prompts, and of prompt tokens in others.
struct SizeClass {
  const char* name;
  bool has_prompts;
  std::int64_t size_min;
  std::int64_t size_max;
};
constexpr std::int64_t kAnySize = std::numeric_limits<std::int64_t>::max();
constexpr std::array kSizeClasses = {
    SizeClass{"decode only", false, 0, kAnySize},
    SizeClass{"  1 to 8 decodes", false, 1, 8},
    SizeClass{"  9 to 64 decodes", false, 9, 64},
    SizeClass{"  65 to 256 decodes", false, 65, 256},
    SizeClass{"  257 decodes and more", false, 257, kAnySize},
    SizeClass{"with prompts", true, 0, kAnySize},
    SizeClass{"  1 to 512 prompt tokens", true, 1, 512},
    SizeClass{"  513 to 2048 prompt tokens", true, 513, 2048},
    SizeClass{"  2049 prompt tokens and more", true, 2049, kAnySize}};

struct ComparedStep {
  const StepRecord* record;
  StepPredictor::Time predicted;
  std::optional<double> gap_s;  // before it, measured

  [[nodiscard]] double measured_s() const { return Seconds(record->time); }
  [[nodiscard]] bool has_prompts() const { return record->prefill_requests > 0; }
};

// One worker's records so far.
struct Worker {
  const StepRecord* last = nullptr;
  sim::DeviceState device;
  std::int64_t first_counter = 0;
  std::int64_t records = 0;

  [[nodiscard]] bool is_complete() const { return last->counter - first_counter + 1 == records; }
};

// The time between the ends of two records that follow each other, less that of the second one.
// Both decode, so that the server did not rest between them.
std::optional<double> GapBetween(const StepRecord& before, const StepRecord& record) {
  const bool follows = record.counter == before.counter + 1;
  const bool works = before.decode_requests > 0 && record.decode_requests > 0;
  if (!follows || !works || !before.observed || !record.observed) return std::nullopt;
  return Seconds(*record.observed - *before.observed) - Seconds(record.time);
}

class StepComparer {
 public:
  StepComparer(const StepRecords& records, const run::Deployment& deployment)
      : records_(records),
        predictor_(deployment),
        timing_(predictor_.timing(records)),
        workers_(records.workers.size()) {}

  StepComparison Compare(const SimulatedSteps& simulated, const MeasuredWork& work) {
    for (const StepRecord& record : records_.records) Add(record);
    for (const SizeClass& size : kSizeClasses) AddClass(size);
    AddAll();
    DropLoneSizes();
    AddRecordLine();
    AddBatchLine(simulated);
    AddQueueLine(simulated);
    AddGapLine();
    AddParts(simulated, work);
    AddCsv();
    return std::move(result_);
  }

 private:
  void Add(const StepRecord& record);
  void Predict(const StepRecord& record, Worker& worker);
  void AddClass(const SizeClass& size);
  void AddAll();
  void AddMean(const std::string& name, const std::vector<const ComparedStep*>& steps);
  void DropLoneSizes();
  void AddRecordLine();
  void AddBatchLine(const SimulatedSteps& simulated);
  void AddQueueLine(const SimulatedSteps& simulated);
  void AddGapLine();
  void AddParts(const SimulatedSteps& simulated, const MeasuredWork& work);
  void AddCsv();
  // The reason why the records do not give the means of the run's requests; empty: they do.
  [[nodiscard]] std::string MissingForParts(const MeasuredWork& work) const;
  // Means of the gaps that are known, measured and predicted.
  [[nodiscard]] std::optional<std::pair<double, double>> MeanGaps() const;
  [[nodiscard]] bool KnowsQueues() const {
    return std::ranges::all_of(records_.records,
                               [](const StepRecord& one) { return one.queued.has_value(); });
  }

  const StepRecords& records_;
  StepPredictor predictor_;
  StepTiming timing_;
  std::vector<Worker> workers_;
  std::vector<ComparedStep> steps_;
  std::int64_t idle_ = 0;
  std::int64_t without_tokens_ = 0;
  StepComparison result_;
};

void StepComparer::Predict(const StepRecord& record, Worker& worker) {
  sim::DeviceState& device = worker.device;
  TimePoint begin = device.changed;
  if (record.observed) begin = std::max(begin, *record.observed - record.time);
  StepPredictor::Time predicted = predictor_.Predict(record, timing_, begin, device);
  const bool lacks_records = worker.last != nullptr && record.counter > worker.last->counter + 1;
  if (lacks_records && begin > device.changed) {
    // The device computed what the records leave out.
    predictor_.Advance(device.changed, begin, device);
    device.last_step = record.time;
    predicted = predictor_.Predict(record, timing_, begin, device);
  }
  ComparedStep step{&record, predicted, std::nullopt};
  if (worker.last != nullptr) step.gap_s = GapBetween(*worker.last, record);
  steps_.push_back(step);
  predictor_.Advance(begin, begin + record.time, device);
  device.changed = begin + record.time;  // also of a model that remembers nothing
}

void StepComparer::Add(const StepRecord& record) {
  Worker& worker = workers_[record.worker];
  if (worker.last == nullptr) worker.first_counter = record.counter;
  if (record.is_idle()) {
    ++idle_;
    // Without a time of the record, its rest is taken to be a long one.
    if (!record.observed) worker.device = sim::DeviceState{.changed = worker.device.changed};
  } else if (!record.has_tokens()) {
    ++without_tokens_;
  } else {
    Predict(record, worker);
  }
  ++worker.records;
  worker.last = &record;
}

void StepComparer::AddMean(const std::string& name, const std::vector<const ComparedStep*>& steps) {
  if (steps.empty()) return;
  StepClass mean{.name = name, .steps = static_cast<std::int64_t>(steps.size())};
  std::vector<double> errors;
  for (const ComparedStep* step : steps) {
    mean.measured_ms += step->measured_s();
    mean.predicted_ms += step->predicted.seconds;
    errors.push_back(std::abs(step->predicted.seconds / step->measured_s() - 1));
  }
  mean.measured_ms *= 1e3 / static_cast<double>(steps.size());
  mean.predicted_ms *= 1e3 / static_cast<double>(steps.size());
  mean.median_error_percent = 100 * Median(std::move(errors));
  result_.classes.push_back(std::move(mean));
}

void StepComparer::AddClass(const SizeClass& size) {
  std::vector<const ComparedStep*> steps;
  for (const ComparedStep& step : steps_) {
    const std::int64_t of_step =
        step.has_prompts() ? step.record->prefill_tokens : step.record->decode_requests;
    const bool fits = of_step >= size.size_min && of_step <= size.size_max;
    if (step.has_prompts() == size.has_prompts && fits) steps.push_back(&step);
  }
  AddMean(size.name, steps);
}

void StepComparer::AddAll() {
  std::vector<const ComparedStep*> steps;
  for (const ComparedStep& step : steps_) steps.push_back(&step);
  AddMean("all", steps);
}

// A size that holds all steps of its kind says nothing more.
void StepComparer::DropLoneSizes() {
  std::vector<StepClass>& classes = result_.classes;
  for (std::size_t i = 1; i < classes.size();) {
    const bool is_lone = classes[i].name.front() == ' ' && classes[i - 1].name.front() != ' ' &&
                         classes[i].steps == classes[i - 1].steps;
    if (is_lone) {
      classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void StepComparer::AddRecordLine() {
  std::string line = fmt::format("{} recorded steps of {} worker{}; their times are {}",
                                 steps_.size(), workers_.size(), workers_.size() == 1 ? "" : "s",
                                 timing_ == StepTiming::kDevice
                                     ? "the device's, without the gap before a step"
                                     : "from the end of one step to the end of the next");
  if (idle_ > 0) line += fmt::format("; {} idle records", idle_);
  if (without_tokens_ > 0) {
    line +=
        fmt::format("; {} records of prompts without their tokens are left out", without_tokens_);
  }
  result_.lines.push_back(std::move(line));
}

void StepComparer::AddBatchLine(const SimulatedSteps& simulated) {
  std::int64_t decodes = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t with_prompts = 0;
  double spread = 0;  // sum of standard deviation / mean
  std::int64_t spreads = 0;
  for (const ComparedStep& step : steps_) {
    const StepRecord& record = *step.record;
    decodes += record.decode_requests;
    prompt_tokens += record.prefill_tokens;
    with_prompts += step.has_prompts() ? 1 : 0;
    if (record.decode_requests < 2) continue;
    spread += std::sqrt(record.decode_kv_variance) * static_cast<double>(record.decode_requests) /
              static_cast<double>(record.decode_kv_tokens);
    ++spreads;
  }
  const auto mean = [](std::int64_t sum, std::int64_t count) {
    return NumberText(count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count));
  };
  const auto steps = static_cast<std::int64_t>(steps_.size());
  const std::int64_t simulated_steps = simulated.decode_steps + simulated.prompt_steps;
  result_.lines.push_back(fmt::format(
      "batches, measured / simulated: {} / {} steps, {} / {} of them with prompts of {} / {} "
      "tokens, {} / {} decodes a step",
      steps, simulated_steps, with_prompts, simulated.prompt_steps,
      mean(prompt_tokens, with_prompts), mean(simulated.prompt_tokens, simulated.prompt_steps),
      mean(decodes, steps), mean(simulated.decodes, simulated_steps)));
  if (spreads > 0 && spread > 0) {
    result_.lines.push_back(fmt::format(
        "contexts of the decodes of a step differ by {} % (standard deviation / mean), and are "
        "taken as equal",
        NumberText(100 * spread / static_cast<double>(spreads))));
  }
}

void StepComparer::AddQueueLine(const SimulatedSteps& simulated) {
  if (!KnowsQueues()) {
    result_.lines.emplace_back("the records hold no queues");
    return;
  }
  double sum = 0;
  double seconds = 0;
  std::int64_t most = 0;
  for (const ComparedStep& step : steps_) {
    sum += static_cast<double>(*step.record->queued) * step.measured_s();
    seconds += step.measured_s();
    most = std::max(most, *step.record->queued);
  }
  result_.lines.push_back(fmt::format(
      "waiting requests of a worker, measured / simulated: {} / {} on average over its steps, {} / "
      "{} at most",
      NumberText(sum / seconds), NumberText(simulated.waiting_s / simulated.seconds), most,
      simulated.waiting_max));
}

std::optional<std::pair<double, double>> StepComparer::MeanGaps() const {
  double measured = 0;
  double predicted = 0;
  std::int64_t count = 0;
  for (const ComparedStep& step : steps_) {
    if (!step.gap_s) continue;
    measured += *step.gap_s;
    predicted += step.predicted.gap_s;
    ++count;
  }
  if (count == 0) return std::nullopt;
  const auto number = static_cast<double>(count);
  return std::pair(measured / number, predicted / number);
}

void StepComparer::AddGapLine() {
  if (timing_ != StepTiming::kDevice) return;
  const auto gaps = MeanGaps();
  if (!gaps) {
    result_.lines.emplace_back(
        "the gap between steps, in which the host works, is not known: no two decoding steps "
        "follow each other with the times at which they were observed");
    return;
  }
  result_.lines.push_back(
      fmt::format("gap before a step, in which the host works, measured / predicted: {} / {} ms",
                  NumberText(1e3 * gaps->first), NumberText(1e3 * gaps->second)));
}

std::string StepComparer::MissingForParts(const MeasuredWork& work) const {
  if (!KnowsQueues()) return "the records hold no queues";
  if (!std::ranges::all_of(workers_, &Worker::is_complete)) {
    return "records are missing (DYN_FPM_MODE=full writes all)";
  }
  if (without_tokens_ > 0) return "some records have no tokens";
  if (timing_ == StepTiming::kDevice && !MeanGaps()) {
    return "the records' times leave the host out";
  }
  double decodes = 0;
  for (const ComparedStep& step : steps_) {
    decodes += static_cast<double>(step.record->decode_requests);
  }
  const bool holds_run = decodes >= (1 - kDecodesDiffer) * work.decodes &&
                         decodes <= (1 + kDecodesDiffer) * work.decodes + work.requests;
  if (holds_run && work.requests > 0) return "";
  return fmt::format("the records decode {:.0f} tokens, the measured run {:.0f}", decodes,
                     work.decodes);
}

void StepComparer::AddParts(const SimulatedSteps& simulated, const MeasuredWork& work) {
  result_.missing = MissingForParts(work);
  if (!result_.missing.empty() || simulated.completed == 0) return;
  const double gap = timing_ == StepTiming::kDevice ? MeanGaps()->first : 0;
  double waiting_s = 0;
  double prefill_s = 0;
  for (const ComparedStep& step : steps_) {
    const double seconds = step.measured_s() + gap;
    waiting_s += static_cast<double>(*step.record->queued) * seconds;
    prefill_s += static_cast<double>(step.record->prefill_requests) * seconds;
  }
  const auto completed = static_cast<double>(simulated.completed);
  result_.measured_parts = {.waiting_ms = 1e3 * waiting_s / work.requests,
                            .prefill_ms = 1e3 * prefill_s / work.requests};
  result_.simulated_parts = {.waiting_ms = 1e3 * simulated.waiting_s / completed,
                             .prefill_ms = 1e3 * simulated.prefill_s / completed};
}

void StepComparer::AddCsv() {
  std::string& text = result_.csv;
  text =
      "record,worker,counter,prefill_requests,prefill_tokens,prefill_kv_tokens,decode_requests,"
      "decode_kv_tokens,queued,measured_s,predicted_s\n";
  for (const ComparedStep& step : steps_) {
    const StepRecord& record = *step.record;
    CsvLine line;
    line.Word(records_.PlaceOf(record)).Word(records_.workers[record.worker]);
    line.Count(record.counter).Count(record.prefill_requests).Count(record.prefill_tokens);
    line.Count(record.prefill_kv_tokens).Count(record.decode_requests);
    line.Count(record.decode_kv_tokens);
    if (record.queued) {
      line.Count(*record.queued);
    } else {
      line.Nothing();
    }
    line.Number(step.measured_s()).Number(step.predicted.seconds);
    line.AppendTo(text);
  }
}

}  // namespace

StepComparison CompareSteps(const StepRecords& records, const run::Deployment& deployment,
                            const SimulatedSteps& simulated, const MeasuredWork& work) {
  return StepComparer(records, deployment).Compare(simulated, work);
}

Table StepTable(std::span<const StepClass> classes) {
  Table table{
      .columns = {"steps", "number", "measured (ms)", "predicted (ms)", "error", "median |error|"},
      .left = 1};
  for (const StepClass& one : classes) {
    table.rows.push_back({one.name, TableCell::Number(std::to_string(one.steps)),
                          TableCell::Number(NumberText(one.measured_ms)),
                          TableCell::Number(NumberText(one.predicted_ms)),
                          TableCell::Number(fmt::format("{:+.1f} %", one.percent())),
                          TableCell::Number(fmt::format("{:.1f} %", one.median_error_percent))});
  }
  return table;
}

}  // namespace twin::apps
