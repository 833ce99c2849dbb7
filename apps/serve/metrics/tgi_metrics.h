// The metrics of TGI's router, which its policies have beside vLLM's.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/serve/service/service.h"

namespace twin::serve {

// An answer that has ended, as the metrics see it.
struct EndedAnswer {
  const run::GenerationEnd& end;
  std::int64_t prompt_tokens = 0;
  std::int32_t max_tokens = 0;
  bool stopped = false;     // by a stop string
  double front_s = 0;       // FrontTimes::submit of the request
  double validation_s = 0;  // reading and tokenizing it
};

// Names, labels and buckets of TGI 3.3. Counters have no "_total". Missing are times of parts of
// TGI's model server that no step here has (batch_decode_duration, batch_filter_duration,
// batch_concat_duration), and request_skipped_tokens, because TGI's policies do not speculate here.
//
// Thread-safe. Times are in seconds of the engine.
class TgiMetrics {
 public:
  // Registers everything; `registry` must outlive this object. REQUIRES: model.tgi.
  TgiMetrics(const run::ServedModel& model, prometheus::Registry& registry);

  void CountRequest() { requests_.Increment(); }
  // `reason`: TGI's word, "validation" or "overloaded".
  void CountFailure(const std::string& reason);
  void ObserveEnd(const EndedAnswer& ended);
  // Called by one thread.
  void OnStep(const run::StepListener::Step& step);

 private:
  enum Method : std::uint8_t { kPrefill, kDecode };
  // Metrics of the calls of one method.
  struct Calls {
    prometheus::Counter& count;
    prometheus::Counter& success;
    prometheus::Histogram& inference;
    prometheus::Histogram& forward;
  };

  void CountJoining(const run::StepListener::Step& step);

  const run::TgiBatches batches_;
  const double speed_;
  std::vector<std::int32_t> waiting_tokens_;  // decodes since the latest prefill + 1, by replica

  prometheus::Counter& requests_;
  prometheus::Counter& successes_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Family<prometheus::Counter>& concats_;
  prometheus::Histogram& duration_;
  prometheus::Histogram& validation_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& inference_;
  prometheus::Histogram& per_token_;
  prometheus::Histogram& input_length_;
  prometheus::Histogram& generated_;
  prometheus::Histogram& max_new_tokens_;
  prometheus::Histogram& next_size_;
  std::array<Calls, 2> calls_;  // by Method
};

}  // namespace twin::serve
