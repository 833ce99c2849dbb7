// The least device time that requests take, whatever schedules them. Proofs: docs/bounds.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

// A step takes at least token_s for each token that it computes, plus context_s for each token of
// the contexts of the requests that get a token from it.
struct WorkRate {
  double token_s = 0;
  double context_s = 0;
};

// Work that a request needs. Tokens whose keys and values another request of the workload can
// supply (prefix caching) are `shared`: they need not be computed or held for this request alone.
struct RequestWork {
  TimePoint arrival;
  std::int32_t prompt_tokens = 0;  // >= 1
  std::int32_t output_tokens = 0;  // >= 1, as many as it got
  std::int32_t shared_tokens = 0;  // of the prompt; < prompt_tokens

  [[nodiscard]] std::int32_t own_prompt() const { return prompt_tokens - shared_tokens; }
  // Tokens that must be computed: the own prompt, and each output token but the last.
  [[nodiscard]] std::int64_t tokens() const { return own_prompt() + output_tokens - 1; }
  // Tokens that the request alone holds, summed over the steps that give it its first `outputs`
  // tokens.
  [[nodiscard]] std::int64_t contexts(std::int32_t outputs) const {
    const std::int64_t n = outputs;
    return n * own_prompt() + n * (n - 1) / 2;
  }
};

// Lower bounds on the work of one replica with one stage. REQUIRES: its cost model neither
// decreases with any total of a step nor grows faster than in proportion (a step costs no more than
// the two steps that it can be cut into).
class WorkFloor {
 public:
  // `cache_tokens` >= 1: tokens that the KV cache holds. Cost: a million calls of the cost model.
  WorkFloor(const sim::StepCost& cost, std::int64_t cache_tokens);

  // Rates of steps, from one that charges tokens alone to one that charges contexts alone. Each
  // rate is a valid lower bound.
  [[nodiscard]] std::span<const WorkRate> rates() const { return rates_; }

  // Seconds that the steps of the request take, if it has the device for itself: until its first
  // token, and from its first to its last one.
  [[nodiscard]] double UntilFirstToken(const RequestWork& request) const;
  [[nodiscard]] double BehindFirstToken(const RequestWork& request);

 private:
  [[nodiscard]] double Seconds(const StepTotals& totals) const;
  [[nodiscard]] double LeastStep(std::int64_t tokens, std::int64_t contexts) const;
  void FindRates(std::int64_t cache_tokens);

  const sim::StepCost& cost_;
  double host_s_;  // before the first step of a request
  std::vector<WorkRate> rates_;
  std::vector<double> decodes_{0.0};  // [c]: seconds of decodes with contexts 1 to c, one each
};

}  // namespace twin::run
