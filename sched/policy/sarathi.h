// Sarathi-Serve: chunked prefill fills what decodes leave of a token budget; no decode ever stalls.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ring_queue.h"
#include "sched/policy/policy.h"

namespace twin {

// Field names are Sarathi-Serve's. Source: revision 96f99117, decisions observed; OSDI'24.
struct SarathiConfig {
  std::int32_t chunk_size = 512;  // token budget of a step
  std::int32_t max_num_seqs = 128;
  std::int32_t max_model_len = 4096;
  double watermark = 0.01;                  // share of blocks that an admission leaves free
  std::int32_t pipeline_parallel_size = 1;  // steps in flight
  // Chunk sizes falling linearly from high to low over `stages` stages of a prompt of max_tokens.
  bool enable_dynamic_chunking_schedule = false;
  std::int32_t low_chunk_size = 0;
  std::int32_t high_chunk_size = 0;
  std::int32_t chunk_schedule_max_tokens = 0;
  std::int32_t chunk_schedule_stages = 0;

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;  // throws InputError where fields contradict each other
  bool operator==(const SarathiConfig&) const = default;
};

// Memory: blocks for the whole prompt at admission, then one at a time; a decode is granted only
// while a block is free, whether or not it needs one.
class SarathiPolicy final : public Policy {
 public:
  // `blocks` = usable blocks of the KV pool.
  SarathiPolicy(const SarathiConfig& config, std::int32_t blocks);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;

 private:
  struct Victim {
    RequestId id{};
    std::int32_t remaining = 0;  // tokens of prefill that it still had when it was preempted
  };

  void RunningPass(StepBuilder& step);
  // Schedules leading decodes of visiting_; how many.
  std::size_t ServeAllDecoding(StepBuilder& step);
  // False if `id` was itself the last possible victim. `next` = the first not yet visited.
  bool MakeRoom(StepBuilder& step, RequestId id, std::size_t next);
  void Preempt(StepBuilder& step, RequestId id);
  void WaitingPass(StepBuilder& step);
  [[nodiscard]] std::int32_t Remaining(const Sequence& s) const;
  [[nodiscard]] std::int32_t Chunk(std::int32_t processed, std::int32_t remaining) const;

  SarathiConfig config_;
  PolicyTraits traits_;
  std::int32_t watermark_blocks_;
  std::vector<std::int32_t> stage_sizes_;  // dynamic chunking, first stage first
  std::int32_t stage_tokens_ = 0;          // prompt tokens per stage
  RingQueue<RequestId> waiting_;
  std::vector<RequestId> running_;
  bool prefilling_ = false;  // some of running_ were in their prompts when the latest call ended
  // Of the present call.
  std::vector<RequestId> visiting_;
  std::vector<RequestId> prefills_;
  std::vector<RequestId> decodes_;
  std::vector<Victim> victims_;
  std::int32_t tokens_ = 0;
};

}  // namespace twin
