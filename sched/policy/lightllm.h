// LightLLM: a request is admitted if the peak of memory to come stays within the cache.
//
// Iterations either compute the prompts of new requests or decode all running ones. Requests are
// admitted in order of arrival, or in another one (order_config.h), when nobody runs, and otherwise
// after max_waiting_iters decode iterations since the latest prompts. The head is admitted if, with
// all requests running on to their output limits, the tokens in the cache never reach its size;
// they are most at the moments at which requests end. That is less strict than the sum of all
// prompts and limits, because requests end at different times, and still nobody is ever preempted.
//
// Source: ModelTC/lightllm, router/req_queue; the same rule in the artifacts of S-LoRA and VTC.
//
// Easy to get wrong:
// - A new request counts one token more than it holds after its prompt: as (prompt + 1, limit - 1).
// - The peak must be below the size of the cache, not equal to it.
// - The original has a token per block. With larger blocks each request may waste all but one token
//   of its last one, and that is added to the peak.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"

namespace twin {

struct LightllmConfig {
  static constexpr const char* kName = "lightllm";

  std::int32_t running_max_req_size = 1000;  // requests
  // Prompt tokens of an iteration. 0 = the larger of a sixth of the cache and max_model_len.
  std::int32_t batch_max_tokens = 0;
  std::int32_t max_waiting_iters = 10;  // decode iterations between admissions
  std::int32_t max_model_len = 0;       // tokens of one request; 0 = the model's context
  std::optional<OrderConfig> order = std::nullopt;  // unset: fcfs

  static constexpr ContextField kContextField = {"max_model_len", &LightllmConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const LightllmConfig&) const = default;
};

// Tokens that a request holds in the cache, and tokens that it may still add.
struct CacheGrowth {
  std::int64_t held = 0;
  std::int64_t left = 0;
};

// The most tokens in the cache from now on if all requests run to their ends side by side, with
// `waste` tokens lost per request. REQUIRES: descending by `left`. Cost: linear.
std::int64_t FuturePeakTokens(std::span<const CacheGrowth> requests, std::int64_t waste);

class LightllmPolicy final : public Policy {
 public:
  LightllmPolicy(const LightllmConfig& config, const KvPoolConfig& kv);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  [[nodiscard]] bool AdmissionIsDue(const StepBuilder& step) const;
  // Computes the prompts of the requests that can be admitted; false if none can.
  [[nodiscard]] bool Prefill(StepBuilder& step);
  void ReadGrowths(const StepBuilder& step);
  // Adds the request to growths_ if the peak allows it.
  [[nodiscard]] bool FitsFuture(const Sequence& s);
  [[nodiscard]] bool RejectsHead(StepBuilder& step);
  void Decode(StepBuilder& step);

  LightllmConfig config_;
  PolicyTraits traits_;
  std::int64_t block_size_;
  std::int64_t cache_tokens_;
  std::int64_t prompt_tokens_max_;  // of an iteration
  OrderedQueue waiting_;
  std::vector<RequestId> running_;    // in order of admission
  std::vector<CacheGrowth> growths_;  // scratch, descending by `left`
  StepId latest_prefill_{0};
};

}  // namespace twin
