#include "apps/serve/metrics/front_metrics.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "apps/serve/metrics/prometheus_text.h"
#include "apps/serve/metrics/service_families.h"

namespace twin::serve {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// vLLM 0.33's buckets, in seconds and tokens.
const Buckets kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                             1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kTokenGap = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                           .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const Buckets kRequestTime = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                              30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kStepTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kAnswers = {1, 2, 5, 10, 20};
const Buckets kPreemptions = {1, 2, 3, 4, 5, 10, 20};
// Buckets of the instrumentation in front of vLLM.
const Buckets kHttpTime = {.1, .5, 1};
const Buckets kHttpFineTime = {.01, .025, .05, .075, .1,  .25, .5,  .75, 1,  1.5, 2,
                               2.5, 3,    3.5, 4,    4.5, 5,   7.5, 10,  30, 60};
// Buckets for the front's own part, which is too short for the engine's buckets.
const Buckets kFrontTime = {1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
                            5e-3, 1e-2, 2e-2, 5e-2, .1,   .2,   .5,   1};

// 1, 2, 5, 10, 20, 50 and so on up to the model's length.
Buckets LengthBuckets(std::int32_t length) {
  Buckets buckets;
  for (std::int64_t decade = 1; decade <= length; decade *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      if (decade * digit <= length) buckets.push_back(static_cast<double>(decade * digit));
    }
  }
  return buckets;
}

const char* ReasonOf(const run::GenerationEnd& end, bool stopped) {
  if (stopped) return "stop";
  switch (end.reason) {
    case run::EndReason::kStop:
    case run::EndReason::kStopToken:
      return "stop";
    case run::EndReason::kLength:
      return "length";
    case run::EndReason::kRejected:
      return "error";
    case run::EndReason::kCancelled:
    case run::EndReason::kAborted:
      break;
  }
  return "abort";
}

}  // namespace

FrontMetrics::FrontMetrics(const run::Service& service)
    : service_(service),
      labels_({{"model_name", service.model().name}, {"engine", "0"}}),
      first_token_(NewHistogram("vllm:time_to_first_token_seconds",
                                "From the arrival at the front to the first token.", kFirstToken)),
      token_gap_(NewHistogram("vllm:inter_token_latency_seconds", "Between outputs of one request.",
                              kTokenGap)),
      time_per_token_(NewHistogram("vllm:request_time_per_output_token_seconds",
                                   "(Last - first token) / (tokens - 1) of a request.", kTokenGap)),
      e2e_(NewHistogram("vllm:e2e_request_latency_seconds",
                        "From the arrival at the front to the last token.", kRequestTime)),
      queue_(NewHistogram("vllm:request_queue_time_seconds",
                          "From the arrival at the engine to the first step.", kRequestTime)),
      prefill_(NewHistogram("vllm:request_prefill_time_seconds",
                            "From the first step to the first token.", kRequestTime)),
      decode_(NewHistogram("vllm:request_decode_time_seconds", "From the first to the last token.",
                           kRequestTime)),
      inference_(NewHistogram("vllm:request_inference_time_seconds",
                              "From the first step to the last token.", kRequestTime)),
      prompt_tokens_(NewHistogram("vllm:request_prompt_tokens", "Prompt tokens of a request.",
                                  LengthBuckets(service.model().max_model_length))),
      generation_tokens_(NewHistogram("vllm:request_generation_tokens",
                                      "Generated tokens of a request.",
                                      LengthBuckets(service.model().max_model_length))),
      max_tokens_(NewHistogram("vllm:request_params_max_tokens", "max_tokens of a request.",
                               LengthBuckets(service.model().max_model_length))),
      generated_max_(NewHistogram("vllm:request_max_num_generation_tokens",
                                  "Generated tokens of the longest answer to a prompt.",
                                  LengthBuckets(service.model().max_model_length))),
      computed_tokens_(NewHistogram("vllm:request_prefill_kv_computed_tokens",
                                    "Prompt tokens of a request that were not cached.",
                                    LengthBuckets(service.model().max_model_length))),
      answers_(NewHistogram("vllm:request_params_n", "n of a request.", kAnswers)),
      preemptions_(
          NewHistogram("vllm:request_num_preemptions", "Preemptions of a request.", kPreemptions)),
      step_tokens_(NewHistogram("vllm:iteration_tokens_total", "Tokens of a step.", kStepTokens)),
      front_receive_(NewHistogram("twinserve:front_receive_seconds",
                                  "From a request's first byte to its last.", kFrontTime)),
      front_parse_(NewHistogram("twinserve:front_parse_seconds", "Reading the JSON.", kFrontTime)),
      front_tokenize_(NewHistogram("twinserve:front_tokenize_seconds",
                                   "Chat template and tokenizer.", kFrontTime)),
      front_submit_(NewHistogram("twinserve:front_submit_seconds",
                                 "From a request's first byte to the engine.", kFrontTime)),
      front_send_(NewHistogram("twinserve:front_send_seconds",
                               "From when a token was due to when the socket had it.", kFrontTime)),
      successes_(NewCounters("vllm:request_success_total", "Finished requests.")),
      rejections_(NewCounters("vllm:admission_rejections_total", "Requests that were refused.")),
      ignored_fields_(NewCounters("twinserve:ignored_fields_total",
                                  "Fields of requests that have no effect here.")),
      merged_tokens_(NewCounters("twinserve:merged_tokens_total",
                                 "Tokens that joined another one's event: the client was slow.")
                         .Add({})),
      http_requests_(prometheus::BuildCounter()
                         .Name("http_requests_total")
                         .Help("Answered HTTP requests.")
                         .Register(registry_)),
      http_seconds_(prometheus::BuildHistogram()
                        .Name("http_request_duration_seconds")
                        .Help("From a request's first byte to its answer's last.")
                        .Register(registry_)),
      http_fine_seconds_(prometheus::BuildHistogram()
                             .Name("http_request_duration_highr_seconds")
                             .Help("The same in finer buckets, of all routes.")
                             .Register(registry_)
                             .Add({}, kHttpFineTime)),
      http_request_bytes_(prometheus::BuildSummary()
                              .Name("http_request_size_bytes")
                              .Help("Bytes of the requests' bodies.")
                              .Register(registry_)),
      http_response_bytes_(prometheus::BuildSummary()
                               .Name("http_response_size_bytes")
                               .Help("Bytes of the answers.")
                               .Register(registry_)) {
  // Registered at the start, so that a rate over the first request is not lost.
  for (const char* reason : {"stop", "length", "abort", "error", "repetition"}) {
    successes_.Add({{"finished_reason", reason}});
  }
  if (service.model().tgi) tgi_.emplace(service.model(), registry_);
}

prometheus::Histogram& FrontMetrics::NewHistogram(const std::string& name, const std::string& help,
                                                  const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Labels(labels_).Register(registry_).Add(
      {}, buckets);
}

prometheus::Family<prometheus::Counter>& FrontMetrics::NewCounters(const std::string& name,
                                                                   const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Labels(labels_).Register(registry_);
}

void FrontMetrics::CountRequest() {
  if (tgi_) tgi_->CountRequest();
}

void FrontMetrics::CountInvalid() {
  if (tgi_) tgi_->CountFailure("validation");
}

void FrontMetrics::ObserveFront(const FrontTimes& times) {
  front_receive_.Observe(times.receive);
  front_parse_.Observe(times.parse);
  front_tokenize_.Observe(times.tokenize);
  front_submit_.Observe(times.submit);
}

bool FrontMetrics::CountIgnoredField(const std::string& field) {
  bool first = false;
  std::string name = field;
  {
    const std::lock_guard lock(mutex_);
    if (!field_names_.contains(field)) {
      first = field_names_.size() < kFieldNamesMax;
      if (first) field_names_.insert(field);
      if (!first) name = "(other)";
    }
  }
  ignored_fields_.Add({{"field", name}}).Increment();
  return first;
}

void FrontMetrics::CountRejection(const std::string& reason) {
  rejections_.Add({{"reason", reason}}).Increment();
  if (tgi_ && reason == "queue_full") tgi_->CountFailure("overloaded");
}

void FrontMetrics::CountMergedTokens(std::int64_t count) {
  merged_tokens_.Increment(static_cast<double>(count));
}

void FrontMetrics::ObserveOutputs(std::span<const Duration> first_tokens,
                                  std::span<const Duration> token_gaps) {
  for (const Duration time : first_tokens) first_token_.Observe(Seconds(time));
  for (const Duration gap : token_gaps) token_gap_.Observe(Seconds(gap));
}

void FrontMetrics::ObserveSent(std::span<const TimePoint> due, TimePoint sent) {
  const double speed = service_.model().speed;
  for (const TimePoint time : due) front_send_.Observe(Seconds(sent - time) / speed);
}

void FrontMetrics::ObserveEngine(prometheus::Histogram& histogram, TimePoint from, TimePoint to,
                                 double more_s) {
  if (from == TimePoint::max() || to == TimePoint::max()) return;  // was not reached
  histogram.Observe(Seconds(to - from) + more_s);
}

void FrontMetrics::ObserveEnd(const EndedAnswer& ended) {
  const run::GenerationEnd& end = ended.end;
  successes_.Add({{"finished_reason", ReasonOf(end, ended.stopped)}}).Increment();
  prompt_tokens_.Observe(static_cast<double>(ended.prompt_tokens));
  computed_tokens_.Observe(static_cast<double>(ended.prompt_tokens - end.cached_prompt_tokens));
  generation_tokens_.Observe(end.generated_tokens);
  max_tokens_.Observe(ended.max_tokens);
  preemptions_.Observe(end.preemptions);
  ObserveEngine(e2e_, end.arrived, end.last_token, ended.front_s * service_.model().speed);
  ObserveEngine(queue_, end.arrived, end.first_scheduled);
  ObserveEngine(prefill_, end.first_scheduled, end.first_token);
  ObserveEngine(decode_, end.first_token, end.last_token);
  ObserveEngine(inference_, end.first_scheduled, end.last_token);
  if (end.generated_tokens > 1 && end.last_token != TimePoint::max()) {
    time_per_token_.Observe(Seconds(end.last_token - end.first_token) / (end.generated_tokens - 1));
  }
  if (tgi_) tgi_->ObserveEnd(ended);
}

void FrontMetrics::ObservePrompt(std::int32_t answers, std::int32_t generated_max) {
  answers_.Observe(answers);
  generated_max_.Observe(generated_max);
}

void FrontMetrics::CountHttp(const AnsweredHttp& answered) {
  const std::string handler(answered.route);
  const std::string verb(answered.method);
  const std::string status = fmt::format("{}xx", answered.status / 100);
  http_requests_.Add({{"handler", handler}, {"method", verb}, {"status", status}}).Increment();
  http_seconds_.Add({{"handler", handler}, {"method", verb}}, kHttpTime).Observe(answered.seconds);
  http_fine_seconds_.Observe(answered.seconds);
  const prometheus::Summary::Quantiles none;
  http_request_bytes_.Add({{"handler", handler}}, none)
      .Observe(static_cast<double>(answered.request_bytes));
  http_response_bytes_.Add({{"handler", handler}}, none)
      .Observe(static_cast<double>(answered.response_bytes));
}

void FrontMetrics::OnStep(const Step& step) {
  step_tokens_.Observe(static_cast<double>(step.prefill_tokens + step.decode_tokens));
  if (tgi_) tgi_->OnStep(step);
}

std::string FrontMetrics::Text(const HttpCounts& http) const {
  auto families = ServiceFamilies(service_.model(), service_.state(), labels_);
  const auto append = [&](std::vector<prometheus::MetricFamily> more) {
    families.insert(families.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  if (tgi_) append(TgiFamilies(service_.model(), service_.state()));
  append(ProcessFamilies(http));
  append(registry_.Collect());
  return PrometheusText(families);
}

}  // namespace twin::serve
