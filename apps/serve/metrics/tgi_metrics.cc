#include "apps/serve/metrics/tgi_metrics.h"

#include <cstddef>

#include "core/check.h"

namespace twin::serve {
namespace {

using Boundaries = prometheus::Histogram::BucketBoundaries;

// 0.1 ms times powers of 1.5, up to 146 s.
Boundaries DurationBounds() {
  Boundaries bounds;
  double bound = 1e-4;
  for (int i = 0; i < 35; ++i) bounds.push_back(bound *= 1.5);
  return bounds;
}

// A hundred steps up to the limit.
Boundaries LengthBounds(std::int32_t limit) {
  Boundaries bounds;
  for (int i = 1; i <= 100; ++i) bounds.push_back(static_cast<double>(limit) * i / 100.0);
  return bounds;
}

Boundaries SizeBounds() {
  Boundaries bounds;
  for (int i = 1; i <= 1024; ++i) bounds.push_back(i);
  return bounds;
}

// Registers metrics. A family that exists already gets one more metric.
class Makers {
 public:
  explicit Makers(prometheus::Registry& registry) : registry_(registry) {}

  prometheus::Family<prometheus::Counter>& Counters(const std::string& name,
                                                    const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  prometheus::Counter& Counter(const std::string& name, const std::string& help,
                               const prometheus::Labels& labels = {}) {
    return Counters(name, help).Add(labels);
  }
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help,
                                   const Boundaries& bounds,
                                   const prometheus::Labels& labels = {}) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels,
                                                                                      bounds);
  }
  prometheus::Histogram& Duration(const std::string& name, const std::string& help,
                                  const prometheus::Labels& labels = {}) {
    return Histogram(name, help, DurationBounds(), labels);
  }

 private:
  prometheus::Registry& registry_;
};

constexpr const char* kCalls = "Calls of the model server.";
constexpr const char* kSuccesses = "Calls of the model server that gave a result.";
constexpr const char* kInference = "From a call to its result.";
constexpr const char* kForward = "The model's part of a call.";

}  // namespace

TgiMetrics::TgiMetrics(const run::ServedModel& model, prometheus::Registry& registry)
    : batches_(*model.tgi),
      speed_(model.speed),
      waiting_tokens_(static_cast<std::size_t>(model.replicas), 1),
      requests_(Makers(registry).Counter("tgi_request_count", "Requests.")),
      successes_(Makers(registry).Counter("tgi_request_success", "Completed requests.")),
      failures_(Makers(registry).Counters("tgi_request_failure", "Requests without an answer.")),
      concats_(Makers(registry).Counters("tgi_batch_concat", "Batches that joined a running one.")),
      duration_(Makers(registry).Duration("tgi_request_duration", "From a request to its answer.")),
      validation_(Makers(registry).Duration("tgi_request_validation_duration",
                                            "Reading and tokenizing a request.")),
      queue_(Makers(registry).Duration("tgi_request_queue_duration", "In the queue.")),
      inference_(Makers(registry).Duration("tgi_request_inference_duration",
                                           "From the queue to the last token.")),
      per_token_(Makers(registry).Duration("tgi_request_mean_time_per_token_duration",
                                           "The inference duration per generated token.")),
      input_length_(Makers(registry).Histogram("tgi_request_input_length", "Prompt tokens.",
                                               LengthBounds(model.max_model_length - 1))),
      generated_(Makers(registry).Histogram("tgi_request_generated_tokens", "Generated tokens.",
                                            LengthBounds(model.max_model_length))),
      max_new_tokens_(Makers(registry).Histogram("tgi_request_max_new_tokens", "Asked tokens.",
                                                 LengthBounds(model.max_model_length))),
      next_size_(Makers(registry).Histogram(
          "tgi_batch_next_size", "Requests that left the queue together.", SizeBounds())),
      calls_{
          {{Makers(registry).Counter("tgi_batch_inference_count", kCalls, {{"method", "prefill"}}),
            Makers(registry).Counter("tgi_batch_inference_success", kSuccesses,
                                     {{"method", "prefill"}}),
            Makers(registry).Duration("tgi_batch_inference_duration", kInference,
                                      {{"method", "prefill"}}),
            Makers(registry).Duration("tgi_batch_forward_duration", kForward,
                                      {{"method", "prefill"}})},
           {Makers(registry).Counter("tgi_batch_inference_count", kCalls, {{"method", "decode"}}),
            Makers(registry).Counter("tgi_batch_inference_success", kSuccesses,
                                     {{"method", "decode"}}),
            Makers(registry).Duration("tgi_batch_inference_duration", kInference,
                                      {{"method", "decode"}}),
            Makers(registry).Duration("tgi_batch_forward_duration", kForward,
                                      {{"method", "decode"}})}}} {}

void TgiMetrics::CountFailure(const std::string& reason) {
  failures_.Add({{"err", reason}}).Increment();
}

void TgiMetrics::ObserveEnd(const EndedAnswer& ended) {
  const run::GenerationEnd& end = ended.end;
  input_length_.Observe(static_cast<double>(ended.prompt_tokens));
  max_new_tokens_.Observe(ended.max_tokens);
  switch (end.reason) {
    case run::EndReason::kRejected:
      return CountFailure("overloaded");
    case run::EndReason::kAborted:
      return CountFailure("incomplete");
    case run::EndReason::kCancelled:
      if (!ended.stopped) return CountFailure("dropped");
      break;
    case run::EndReason::kStop:
    case run::EndReason::kStopToken:
    case run::EndReason::kLength:
      break;
  }
  successes_.Increment();
  CHECK(end.last_token != TimePoint::max() && end.generated_tokens > 0);
  const double queue_s = Seconds(end.first_scheduled - end.arrived);
  const double inference_s = Seconds(end.last_token - end.first_scheduled);
  validation_.Observe(ended.validation_s * speed_);
  queue_.Observe(queue_s);
  inference_.Observe(inference_s);
  per_token_.Observe(inference_s / end.generated_tokens);
  duration_.Observe(ended.front_s * speed_ + queue_s + inference_s);
  generated_.Observe(end.generated_tokens);
}

void TgiMetrics::OnStep(const run::StepListener::Step& step) {
  if (step.requests == 0) return;  // a step that only releases blocks
  if (step.admitted > 0) CountJoining(step);
  std::int32_t& waiting_tokens = waiting_tokens_.at(static_cast<std::size_t>(step.replica));
  const Method method = step.prefill_tokens > 0 ? kPrefill : kDecode;
  waiting_tokens = method == kPrefill ? 1 : waiting_tokens + 1;
  Calls& calls = calls_.at(method);
  calls.count.Increment();
  calls.success.Increment();
  calls.inference.Observe(Seconds(step.since_planned));
  calls.forward.Observe(Seconds(step.since_started));
}

void TgiMetrics::CountJoining(const run::StepListener::Step& step) {
  next_size_.Observe(static_cast<double>(step.admitted));
  if (step.running == step.admitted) return;  // there was no batch
  const char* reason = "backpressure";
  if (batches_.chunks_prefills) {
    reason = "chunking";
  } else if (waiting_tokens_.at(static_cast<std::size_t>(step.replica)) >=
             batches_.max_waiting_tokens) {
    reason = "wait_exceeded";
  }
  concats_.Add({{"reason", reason}}).Increment();
}

}  // namespace twin::serve
