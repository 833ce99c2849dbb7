// Orca: a batch is selected anew for every iteration; memory is reserved to completion.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ring_queue.h"
#include "sched/policy/policy.h"

namespace twin {

// Sources: Yu et al., OSDI'22, Algorithm 1 (kRequest); Sarathi-Serve's orca scheduler (kModel).
struct OrcaConfig {
  enum class Reservation : std::uint8_t {
    kRequest,  // prompt + output limit of the request
    kModel,    // max_model_len, whatever the request asks for
  };
  Reservation reservation = Reservation::kRequest;
  std::int32_t n_workers = 1;  // batches in flight = pipeline stages
  std::int32_t max_bs = 128;   // requests per batch
  std::int32_t max_model_len = 4096;
  bool prefills_first = false;  // order within the batch; otherwise by arrival

  [[nodiscard]] PolicyTraits Traits() const;
  bool operator==(const OrcaConfig&) const = default;
};

class OrcaPolicy final : public Policy {
 public:
  explicit OrcaPolicy(const OrcaConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;

 private:
  // False if the selection ends at this head.
  bool SelectHead(StepBuilder& step);
  void ScheduleAll(StepBuilder& step, std::span<const RequestId> ids);
  void Schedule(StepBuilder& step, RequestId id);

  OrcaConfig config_;
  PolicyTraits traits_;
  RingQueue<RequestId> waiting_;
  std::vector<RequestId> running_;   // admitted, in order of arrival
  std::vector<RequestId> selected_;  // of the present call: decodes, then new requests
};

}  // namespace twin
