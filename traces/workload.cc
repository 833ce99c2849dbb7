#include "traces/workload.h"

#include <cmath>
#include <utility>

#include "core/hash.h"
#include "core/input_error.h"
#include "traces/conversation.h"
#include "traces/generated_source.h"
#include "traces/request_rules.h"
#include "traces/servegen.h"
#include "traces/source_stages.h"
#include "traces/trace_report.h"
#include "traces/trace_stream.h"

namespace twin {
namespace {

IntegerDistribution FromMeanAndMedian(double mean, double median) {
  return {.kind = IntegerDistribution::Kind::kLogNormal,
          .max = 16384,
          .median = median,
          .sigma = std::sqrt(2 * std::log(mean / median))};
}

RequestShape WithPreset(RequestShape shape, WorkloadPreset preset) {
  if (preset == WorkloadPreset::kConversation) {
    shape.prompt = FromMeanAndMedian(1155, 1020);
    shape.output = FromMeanAndMedian(211, 129);
  } else if (preset == WorkloadPreset::kCode) {
    shape.prompt = FromMeanAndMedian(2048, 1469);
    shape.output = FromMeanAndMedian(27.9, 13);
  }
  return shape;
}

// Drawn requests get their prediction when they are shown, because a turn may be drawn repeatedly.
class PredictedSource final : public ArrivalSource {
 public:
  PredictedSource(std::unique_ptr<ArrivalSource> source, const RequestRules& rules)
      : source_(std::move(source)), rules_(rules) {}

  const TracedRequest* Peek() override {
    const TracedRequest* next = source_->Peek();
    if (next == nullptr) return nullptr;
    RequestRules rules = rules_;  // drawn for good by Take()
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
class DrawnGroup {
 public:
  void Add(ShapeSampler sampler, double weight, bool has_sessions) {
    samplers_.push_back(std::move(sampler));
    weights_.push_back(weight);
    has_sessions_ |= has_sessions;
  }
  [[nodiscard]] bool empty() const { return samplers_.empty(); }
  std::unique_ptr<ArrivalSource> Make(const ArrivalConfig& arrivals, std::uint64_t seed) && {
    return MakeGeneratedSource(DrawnConversations(std::move(samplers_), weights_, seed), arrivals,
                               has_sessions_, seed);
  }

 private:
  std::vector<ShapeSampler> samplers_;
  std::vector<double> weights_;
  bool has_sessions_ = false;
};

std::unique_ptr<ArrivalSource> MakeDrawn(const WorkloadConfig& config, const RequestRules& rules,
                                         std::uint64_t seed) {
  std::vector<WorkloadClass> classes = config.classes;
  if (classes.empty()) classes.push_back({.shape = WithPreset(config.shape, config.preset)});
  std::vector<std::unique_ptr<ArrivalSource>> sources;
  DrawnGroup shared;
  std::uint32_t first_tenant = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const WorkloadClass& entry = classes[i];
    const std::uint64_t class_seed = MixWords(seed, i + 1);
    ShapeSampler sampler(entry.shape, first_tenant, class_seed, rules);
    first_tenant += sampler.tenants();
    if (!entry.arrivals) {
      shared.Add(std::move(sampler), entry.weight, HasSessions(entry.shape));
      continue;
    }
    DrawnGroup alone;
    alone.Add(std::move(sampler), 1, HasSessions(entry.shape));
    sources.push_back(std::move(alone).Make(*entry.arrivals, class_seed));
  }
  if (!shared.empty()) sources.push_back(std::move(shared).Make(config.arrivals, seed));
  std::unique_ptr<ArrivalSource> source =
      sources.size() == 1 ? std::move(sources.front()) : MergeArrivals(std::move(sources));
  if (config.prediction.kind == PredictionConfig::Kind::kNone) return source;
  return std::make_unique<PredictedSource>(std::move(source), rules);
}

std::unique_ptr<ArrivalSource> MakeTraced(const WorkloadConfig& config, const RequestRules& rules,
                                          std::uint64_t seed, TraceReport* report) {
  const bool replaces_arrivals = config.arrivals.kind != ArrivalConfig::Kind::kNone;
  std::unique_ptr<RequestStream> stream;
  if (config.servegen) {
    stream = OpenServeGen(*config.servegen, rules, seed);
  } else {
    TraceStream trace = OpenTraceStream(*config.trace, rules, report);
    if (!trace.has_arrivals && !replaces_arrivals) {
      throw InputError(
          InputError::Kind::kUsage, "workload.arrivals",
          "missing; allowed: an arrival process, as " + config.trace->path + " has lengths only");
    }
    if (!trace.has_arrivals &&
        (config.trace->start != Duration::zero() || config.trace->duration != Duration::zero())) {
      throw InputError(
          InputError::Kind::kUsage, "workload.trace.start",
          "start and duration need arrivals; " + config.trace->path + " has lengths only");
    }
    stream = std::move(trace.requests);
  }
  if (!replaces_arrivals) return StreamArrivals(std::move(stream));
  return MakeGeneratedSource(SingleTurns(std::move(stream), seed), config.arrivals,
                             /*has_sessions=*/false, seed);
}

}  // namespace

std::unique_ptr<ArrivalSource> MakeWorkload(const WorkloadConfig& config, std::uint64_t seed,
                                            TraceReport* report) {
  Validate(config);
  const RequestRules rules(config.max_output, config.prediction, seed);
  std::unique_ptr<ArrivalSource> source = config.trace || config.servegen
                                              ? MakeTraced(config, rules, seed, report)
                                              : MakeDrawn(config, rules, seed);
  const bool drawn = config.arrivals.kind != ArrivalConfig::Kind::kNone;
  if (drawn || config.requests > 0 || config.duration > Duration::zero()) {
    source = LimitArrivals(std::move(source), config.requests, config.duration);
  }
  if (config.prompt_pool > 0) source = CyclePrompts(std::move(source), config.prompt_pool);
  if (config.max_in_flight > 0) source = CapInFlight(std::move(source), config.max_in_flight);
  return source;
}

std::unique_ptr<ArrivalSource> MakeWorkload(const WorkloadConfig& config, std::uint64_t seed) {
  return MakeWorkload(config, seed, nullptr);
}

}  // namespace twin
