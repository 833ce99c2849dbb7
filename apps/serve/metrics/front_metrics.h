// The metrics of the front: vLLM's as far as they exist here, TGI's for its policies, and the
// front's own part of the latency.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/http/http_server.h"
#include "apps/serve/metrics/tgi_metrics.h"
#include "apps/serve/service/service.h"

namespace twin::serve {

inline constexpr std::size_t kFieldNamesMax = 64;

// Times that the front itself takes for a request, in seconds of the wall clock.
struct FrontTimes {
  double receive = 0;   // first byte to the end of the body
  double parse = 0;     // JSON to a request
  double tokenize = 0;  // the chat template included
  double submit = 0;    // first byte to the service: all of the above and the waits between
};

// An HTTP request that was answered, or whose client left.
struct AnsweredHttp {
  std::string_view route;
  std::string_view method;
  int status = 0;
  double seconds = 0;  // first byte of the request to the last one of the answer
  std::size_t request_bytes = 0;
  std::uint64_t response_bytes = 0;
};

// Thread-safe. Times of the engine are in its own seconds, which pass `speed` times as fast as the
// wall clock's.
class FrontMetrics final : public run::StepListener {
 public:
  // `service` must outlive the metrics.
  explicit FrontMetrics(const run::Service& service);

  // Counts a request for text, whatever becomes of it.
  void CountRequest();
  // Counts a request that was refused because it is invalid.
  void CountInvalid();
  // To be called when a request has been submitted.
  void ObserveFront(const FrontTimes& times);
  // True for the first field of that name. Clients choose names, so only the first kFieldNamesMax
  // have a counter of their own.
  bool CountIgnoredField(const std::string& field);
  void CountRejection(const std::string& reason);
  void CountMergedTokens(std::int64_t count);

  // Times of outputs: of first tokens, since the arrival at the front; of later ones, since the
  // output before.
  void ObserveOutputs(std::span<const Duration> first_tokens, std::span<const Duration> token_gaps);
  // The tokens that were due at `due` were given to the socket at `sent`.
  void ObserveSent(std::span<const TimePoint> due, TimePoint sent);
  void ObserveEnd(const EndedAnswer& ended);
  // To be called when all answers to a prompt have ended; the longest one has `generated_max`
  // tokens.
  void ObservePrompt(std::int32_t answers, std::int32_t generated_max);
  void CountHttp(const AnsweredHttp& answered);

  void OnStep(const Step& step) override;

  // Everything in Prometheus' text format. Takes no lock of the service's steps.
  [[nodiscard]] std::string Text(const HttpCounts& http) const;

 private:
  using Buckets = prometheus::Histogram::BucketBoundaries;

  prometheus::Histogram& NewHistogram(const std::string& name, const std::string& help,
                                      const Buckets& buckets);
  prometheus::Family<prometheus::Counter>& NewCounters(const std::string& name,
                                                       const std::string& help);
  void ObserveEngine(prometheus::Histogram& histogram, TimePoint from, TimePoint to,
                     double more_s = 0);

  const run::Service& service_;
  prometheus::Registry registry_;
  std::mutex mutex_;  // of field_names_
  std::set<std::string> field_names_;
  prometheus::Labels labels_;

  prometheus::Histogram& first_token_;
  prometheus::Histogram& token_gap_;
  prometheus::Histogram& time_per_token_;
  prometheus::Histogram& e2e_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& prefill_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& inference_;
  prometheus::Histogram& prompt_tokens_;
  prometheus::Histogram& generation_tokens_;
  prometheus::Histogram& max_tokens_;
  prometheus::Histogram& generated_max_;
  prometheus::Histogram& computed_tokens_;
  prometheus::Histogram& answers_;
  prometheus::Histogram& preemptions_;
  prometheus::Histogram& step_tokens_;

  prometheus::Histogram& front_receive_;
  prometheus::Histogram& front_parse_;
  prometheus::Histogram& front_tokenize_;
  prometheus::Histogram& front_submit_;
  prometheus::Histogram& front_send_;

  prometheus::Family<prometheus::Counter>& successes_;
  prometheus::Family<prometheus::Counter>& rejections_;
  prometheus::Family<prometheus::Counter>& ignored_fields_;
  prometheus::Counter& merged_tokens_;
  prometheus::Family<prometheus::Counter>& http_requests_;
  prometheus::Family<prometheus::Histogram>& http_seconds_;
  prometheus::Histogram& http_fine_seconds_;
  prometheus::Family<prometheus::Summary>& http_request_bytes_;
  prometheus::Family<prometheus::Summary>& http_response_bytes_;
  std::optional<TgiMetrics> tgi_;  // for TGI's policies
};

}  // namespace twin::serve
