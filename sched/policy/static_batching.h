// Static (request-level) batching: a batch enters and leaves together.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ring_queue.h"
#include "sched/policy/policy.h"

namespace twin {

// Sources: HF generate and FasterTransformer (padded); Sarathi-Serve's faster_transformer scheduler
// (trimmed).
struct StaticConfig {
  // True: rows are padded to the longest prompt, finished rows are computed until the last one
  // ends, and clients get their tokens then. False: finished rows drop out, nothing is padded.
  bool padded = true;
  std::int32_t max_batch_size = 8;
  // Trimmed: every request reserves the blocks of so many tokens. Longer prompts are rejected.
  std::int32_t max_model_len = 4096;

  [[nodiscard]] PolicyTraits Traits() const;
  bool operator==(const StaticConfig&) const = default;
};

// Padded memory: rows * (longest prompt + largest output limit) slots, reserved for the whole
// batch.
class StaticPolicy final : public Policy {
 public:
  explicit StaticPolicy(const StaticConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void CollectReleases(std::vector<RequestId>& finished) override;
  void Plan(StepBuilder& step) override;

 private:
  void FormPaddedBatch(StepBuilder& step);
  void FormTrimmedBatch(StepBuilder& step);
  [[nodiscard]] bool RejectsHead(StepBuilder& step);

  StaticConfig config_;
  PolicyTraits traits_;
  RingQueue<RequestId> waiting_;
  std::vector<RequestId> live_;  // rows of the batch that have not finished, in order of admission
  std::vector<RequestId> done_;  // padded: rows that have
};

}  // namespace twin
