#include "traces/workload.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/input_error.h"
#include "traces/arrival_sources.h"
#include "traces/conversation.h"
#include "traces/request_rules.h"
#include "traces/servegen.h"
#include "traces/trace_format.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

IntegerDistribution FromMeanAndMedian(double mean, double median) {
  return {.kind = IntegerDistribution::Kind::kLogNormal,
          .max = 16384,
          .median = median,
          .sigma = std::sqrt(2 * std::log(mean / median))};
}

RequestShape ApplyPreset(RequestShape shape, WorkloadPreset preset) {
  if (preset == WorkloadPreset::kConversation) {
    shape.prompt = FromMeanAndMedian(1155, 1020);
    shape.output = FromMeanAndMedian(211, 129);
  } else if (preset == WorkloadPreset::kCode) {
    shape.prompt = FromMeanAndMedian(2048, 1469);
    shape.output = FromMeanAndMedian(27.9, 13);
  }
  return shape;
}

// Adds predictions to drawn requests when they are shown, because a turn may be drawn repeatedly.
class PredictedSource final : public ArrivalSource {
 public:
  PredictedSource(std::unique_ptr<ArrivalSource> source, const RequestRules& rules)
      : source_(std::move(source)), rules_(rules) {}

  const TracedRequest* Peek() override {
    const TracedRequest* next = source_->Peek();
    if (next == nullptr) return nullptr;
    RequestRules rules = rules_;  // a copy: only Take() advances the random numbers
    request_ = *next;
    rules.ApplyPrediction(request_);
    return &request_;
  }
  void Take() override {
    rules_.ApplyPrediction(request_);
    source_->Take();
  }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    source_->OnDone(id, now, answer_tokens);
  }
  [[nodiscard]] bool reacts() const override { return source_->reacts(); }

 private:
  std::unique_ptr<ArrivalSource> source_;
  RequestRules rules_;
  TracedRequest request_;
};

bool HasSessions(const RequestShape& shape) {
  return shape.sessions.turns.kind != IntegerDistribution::Kind::kNone;
}

// One source for all classes that share the workload's arrival process.
class WeightedClasses {
 public:
  void Add(ShapeSampler sampler, double weight, bool has_sessions) {
    samplers_.push_back(std::move(sampler));
    weights_.push_back(weight);
    has_sessions_ |= has_sessions;
  }
  [[nodiscard]] bool empty() const { return samplers_.empty(); }
  std::unique_ptr<ArrivalSource> Make(const ArrivalConfig& arrivals,
                                      const WorkloadSeeds& seeds) && {
    return MakeGeneratedSource(DrawnConversations(std::move(samplers_), weights_, seeds.content),
                               arrivals, has_sessions_, seeds.arrivals);
  }

 private:
  std::vector<ShapeSampler> samplers_;
  std::vector<double> weights_;
  bool has_sessions_ = false;
};

std::unique_ptr<ArrivalSource> MakeDrawn(const WorkloadConfig& config, const RequestRules& rules,
                                         const WorkloadSeeds& seeds) {
  std::vector<WorkloadClass> classes = config.classes;
  if (classes.empty()) classes.push_back({.shape = ApplyPreset(config.shape, config.preset)});
  std::vector<std::unique_ptr<ArrivalSource>> sources;
  WeightedClasses shared;
  std::uint32_t first_tenant = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const WorkloadClass& entry = classes[i];
    WorkloadSeeds of_class = seeds;
    of_class.arrivals = MixWords(seeds.arrivals, i + 1);
    of_class.content = MixWords(seeds.content, i + 1);
    ShapeSampler sampler(entry.shape, first_tenant, of_class.content, rules);
    first_tenant += sampler.tenants();
    if (!entry.arrivals) {
      shared.Add(std::move(sampler), entry.weight, HasSessions(entry.shape));
      continue;
    }
    WeightedClasses alone;
    alone.Add(std::move(sampler), 1, HasSessions(entry.shape));
    sources.push_back(std::move(alone).Make(*entry.arrivals, of_class));
  }
  if (!shared.empty()) sources.push_back(std::move(shared).Make(config.arrivals, seeds));
  std::unique_ptr<ArrivalSource> source =
      sources.size() == 1 ? std::move(sources.front()) : MergeArrivals(std::move(sources));
  if (config.prediction.kind == PredictionConfig::Kind::kNone) return source;
  return std::make_unique<PredictedSource>(std::move(source), rules);
}

// Applies start, duration, rate scale and repetition to a trace. `report` may be null.
class CutTrace final : public RequestStream {
 public:
  CutTrace(const TraceConfig& config, std::unique_ptr<TraceReader> reader,
           const RequestRules& rules, TraceReport* report)
      : config_(config), reader_(std::move(reader)), rules_(rules), report_(report) {}

  bool Next(TracedRequest& request) override {
    while (!NextOfPass(request)) {
      if (emitted_ == 0) {
        throw InputError(InputError::Kind::kUsage, "workload.trace",
                         "no request of " + config_.path + " lies within start and duration");
      }
      if (pass_ == config_.repeat) return false;
      BeginNextPass();
    }
    ++emitted_;
    ++emitted_of_pass_;
    if (pass_ > 1) RenameContent(request);
    rules_.ApplyLimit(request);
    rules_.ApplyPrediction(request);
    return true;
  }

 private:
  bool ReadNext(TracedRequest& request) {
    const bool found = reader_->Next(request);
    if (pass_ == 1 && report_ != nullptr) {
      report_->counts = reader_->counts();
      report_->may_be_cut = !found && reader_->may_be_cut();
      if (report_->note.size() != reader_->note().size()) report_->note = reader_->note();
    }
    return found;
  }

  bool NextOfPass(TracedRequest& request) {
    while (ReadNext(request)) {
      if (!reader_->has_arrivals()) return true;
      const Duration arrival = request.arrival.time_since_epoch();
      if (arrival < config_.start) continue;
      if (!origin_) origin_ = config_.start > Duration::zero() ? config_.start : arrival;
      if (config_.duration > Duration::zero() && arrival - *origin_ >= config_.duration) {
        return false;
      }
      request.arrival = offset_ + Scaled(arrival - *origin_);
      CheckArrival(request.arrival);
      if (emitted_of_pass_ == 0) first_ = request.arrival;
      last_ = request.arrival;
      return true;
    }
    return false;
  }

  [[nodiscard]] Duration Scaled(Duration arrival) const {
    if (config_.rate_scale == 1) return arrival;
    const double ns = static_cast<double>(arrival.count()) / config_.rate_scale;
    return DurationFromNanoseconds(std::min(ns, 5e18));  // CheckArrival refuses a cut value
  }

  void CheckArrival(TimePoint arrival) const {
    if (arrival.time_since_epoch() <= kArrivalMax) return;
    throw InputError(InputError::Kind::kUsage, "workload.trace",
                     "arrivals pass 126 years; allowed: a larger rate_scale or fewer repeats");
  }

  void BeginNextPass() {
    const Duration span = last_ - first_;
    offset_ += span;
    if (emitted_of_pass_ > 1) offset_ += span / (emitted_of_pass_ - 1);
    CheckArrival(offset_);
    emitted_of_pass_ = 0;
    ++pass_;
    reader_ = OpenTrace(config_.path, config_.format, config_.read);
  }

  void RenameContent(TracedRequest& request) const {
    const auto salt = static_cast<std::uint64_t>(pass_);
    for (std::uint64_t& chunk : request.prefix_chunks) chunk = MixWords(chunk, salt);
    if (request.session != 0) request.session = MixWords(request.session, salt);
  }

  TraceConfig config_;
  std::unique_ptr<TraceReader> reader_;
  RequestRules rules_;
  TraceReport* report_;
  std::int32_t pass_ = 1;
  std::int64_t emitted_ = 0;
  std::int64_t emitted_of_pass_ = 0;
  std::optional<Duration> origin_;  // time of the trace's clock at which the run begins
  TimePoint offset_ = kTimeZero;
  TimePoint first_ = kTimeZero;
  TimePoint last_ = kTimeZero;
};

std::unique_ptr<ArrivalSource> MakeTraced(const WorkloadConfig& config, const RequestRules& rules,
                                          const WorkloadSeeds& seeds, TraceReport* report) {
  const bool replaces_arrivals = config.arrivals.kind != ArrivalConfig::Kind::kNone;
  std::unique_ptr<RequestStream> stream;
  if (config.servegen) {
    stream = OpenServeGen(*config.servegen, rules, seeds.content);
  } else {
    const TraceConfig& trace = *config.trace;
    std::unique_ptr<TraceReader> reader = OpenTrace(trace.path, trace.format, trace.read);
    if (!reader->has_arrivals() && !replaces_arrivals) {
      throw InputError(
          InputError::Kind::kUsage, "workload.arrivals",
          "missing; allowed: an arrival process, as " + trace.path + " has lengths only");
    }
    if (!reader->has_arrivals() &&
        (trace.start != Duration::zero() || trace.duration != Duration::zero())) {
      throw InputError(InputError::Kind::kUsage, "workload.trace.start",
                       "start and duration need arrivals; " + trace.path + " has lengths only");
    }
    stream = std::make_unique<CutTrace>(trace, std::move(reader), rules, report);
  }
  if (!replaces_arrivals) return StreamArrivals(std::move(stream));
  return MakeGeneratedSource(SingleTurns(std::move(stream), seeds.content), config.arrivals,
                             /*has_sessions=*/false, seeds.arrivals);
}

}  // namespace

std::unique_ptr<ArrivalSource> MakeWorkload(const WorkloadConfig& config,
                                            const WorkloadSeeds& seeds, TraceReport* report) {
  Validate(config);
  const RequestRules rules(config.max_output, config.prediction, seeds.predictions);
  std::unique_ptr<ArrivalSource> source = config.trace || config.servegen
                                              ? MakeTraced(config, rules, seeds, report)
                                              : MakeDrawn(config, rules, seeds);
  const bool drawn = config.arrivals.kind != ArrivalConfig::Kind::kNone;
  if (drawn || config.requests > 0 || config.duration > Duration::zero()) {
    source = LimitArrivals(std::move(source), config.requests, config.duration);
  }
  if (config.prompt_pool > 0) source = CyclePrompts(std::move(source), config.prompt_pool);
  if (config.max_in_flight > 0) source = CapInFlight(std::move(source), config.max_in_flight);
  return source;
}

}  // namespace twin
