// Static (request-level) batching: a batch enters and leaves together.
//
// The baseline. While the queue is not empty and no batch runs, requests are taken from it, in
// order of arrival or in another one (order_config.h), until max_batch_size rows are found or the
// next one does not fit into memory; the head of the queue is never skipped. The batch then runs to
// its end (sched/policy/closed_batch.h).
//
// Sources: Hugging Face generate() and FasterTransformer (padded); the faster_transformer scheduler
// of Sarathi-Serve (trimmed).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sched/policy/case_name.h"
#include "sched/policy/closed_batch.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"

namespace twin {

struct StaticConfig {
  static constexpr const char* kName = "static";

  // True: rows are padded to the longest prompt, finished rows are computed until the last one
  // ends, and clients get their tokens then. False: finished rows drop out, nothing is padded.
  bool padded = true;
  std::int32_t max_batch_size = 8;
  // Trimmed: each request reserves this many tokens, and longer prompts are rejected. 0 = the
  // model's context.
  std::int32_t max_model_len = 0;
  std::optional<OrderConfig> order = std::nullopt;  // unset: fcfs

  static constexpr ContextField kContextField = {"max_model_len", &StaticConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const StaticConfig&) const = default;
};

class StaticPolicy final : public Policy {
 public:
  explicit StaticPolicy(const StaticConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void CollectReleases(std::vector<RequestId>& finished) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  StaticConfig config_;
  PolicyTraits traits_;
  OrderedQueue waiting_;
  ClosedBatch batch_;
};

}  // namespace twin
