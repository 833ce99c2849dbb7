// Orca: a batch is selected anew for every iteration; memory is reserved to completion.
//
// The policy that introduced iteration-level scheduling. For each step it walks through all
// requests that are not in another step, in order of arrival: admitted ones continue, and a waiting
// one joins with its whole prompt if the memory that it can ever need is free. The walk ends at
// max_bs requests or at the first waiting request that does not fit. Prefill and decode mix, which
// selective batching makes possible: only attention is computed per request.
// n_workers batches (pipeline stages) are in flight; they have no request in common.
//
// Sources: Yu et al., OSDI'22, Algorithm 1 (kRequest); the orca scheduler of Sarathi-Serve
// (kModel).
//
// Easy to get wrong:
// - The reservation is the memory limit, not the blocks in use: a request reserves prompt plus
//   output limit (kRequest) or max_model_len (kModel) at admission. That is why nothing is ever
//   preempted, and why few requests run at once.
// - There is no token budget. A long prompt lengthens the step of all decodes in it.
// - A later request that would fit never overtakes a head that does not.
// - With several workers the scheduler fills the pipeline before it waits for the oldest batch, and
//   a batch may be empty.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"

namespace twin {

struct OrcaConfig {
  static constexpr const char* kName = "orca";

  enum class Reservation : std::uint8_t {
    kRequest,  // prompt + output limit of the request
    kModel,    // max_model_len, whatever the request asks for
  };
  Reservation reservation = Reservation::kRequest;
  std::int32_t n_workers = 1;             // batches in flight = pipeline stages
  std::int32_t max_bs = 128;              // requests per batch
  std::int32_t max_model_len = 0;         // tokens of one request; 0 = the model's context
  bool prefills_first = false;            // order within the batch; otherwise by arrival
  std::optional<OrderConfig> order = {};  // of admission, not Orca's

  static constexpr ContextField kContextField = {"max_model_len", &OrcaConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const OrcaConfig&) const = default;
};

class OrcaPolicy final : public Policy {
 public:
  explicit OrcaPolicy(const OrcaConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  // False if the selection ends at this head.
  bool SelectHead(StepBuilder& step);
  void ScheduleAll(StepBuilder& step, std::span<const RequestId> ids);
  void Schedule(StepBuilder& step, RequestId id);

  OrcaConfig config_;
  PolicyTraits traits_;
  OrderedQueue waiting_;
  std::vector<RequestId> running_;   // admitted, in order of admission
  std::vector<RequestId> selected_;  // of the present call: decodes, then new requests
};

}  // namespace twin
