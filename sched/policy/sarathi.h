// Sarathi-Serve: chunked prefill fills what decodes leave of a token budget.
//
// A long prompt in a batch delays the next token of every decode in it. Sarathi-Serve bounds that
// delay: each step carries all decodes first, then chunks of the prompts that have begun, then of
// waiting ones, up to chunk_size tokens together. Decodes never stall and every step takes about
// the same time.
//
// Source: Agrawal et al., OSDI'24; Sarathi-Serve, revision 96f99117, decisions observed. Field
// names are Sarathi-Serve's.
//
// Easy to get wrong:
// - An admission takes the blocks of the whole prompt and leaves a watermark free, although only a
//   chunk is computed now. Chunks therefore never run out of memory; decodes can.
// - A decode is granted only while a block is free, whether or not it needs one. The victim is the
//   latest arrival not yet visited, or the decode itself; it goes to the front of the
//   queue, starts over, and may be admitted again in the same step.
// - More decodes than chunk_size are allowed: the budget left is clamped at zero, so chunk_size
//   bounds no step.
// - With several steps in flight, a request that is in another step is carried over untouched.
// - Dynamic chunking chooses the chunk by the prompt tokens already processed, not by the step.
// - With slack_chunking all prompts that fit hold memory from their arrival on, and a step begins
//   with the most urgent one, whichever began before.
// - The schedulers that Sarathi-Serve compares itself with (config.scheduler) share its memory
//   rules, even if the original's rules differ: vLLM without chunks, and turns of prefills and
//   decodes, of which one can be empty.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"
#include "sched/policy/slack_chunking.h"

namespace twin {

struct SarathiConfig {
  static constexpr const char* kName = "sarathi";

  enum class Scheduler : std::uint8_t {
    kSarathi,         // decodes and chunks in one step
    kVllm,            // whole prompts and decodes in separate steps (Sarathi-Serve's vllm)
    kSimpleChunking,  // chunks and decodes in turn
  };
  Scheduler scheduler = Scheduler::kSarathi;
  std::int32_t chunk_size = 512;  // token budget of a step; kVllm: also the longest prompt
  std::int32_t max_num_seqs = 128;
  std::int32_t max_model_len = 0;           // prompt limit; 0 = the model's context
  double watermark = 0.01;                  // share of blocks that an admission leaves free
  std::int32_t pipeline_parallel_size = 1;  // steps in flight
  // Chunk sizes falling linearly from high to low over `stages` stages of a prompt of max_tokens.
  bool enable_dynamic_chunking_schedule = false;
  std::int32_t low_chunk_size = 0;
  std::int32_t high_chunk_size = 0;
  std::int32_t chunk_schedule_max_tokens = 0;
  std::int32_t chunk_schedule_stages = 0;
  std::optional<OrderConfig> order = {};             // of admission, not Sarathi-Serve's
  std::optional<SlackChunking> slack_chunking = {};  // Niyama; with an order by deadlines

  static constexpr ContextField kContextField = {"max_model_len", &SarathiConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const SarathiConfig&) const = default;
};

class SarathiPolicy final : public Policy {
 public:
  // `blocks` = usable blocks of the KV pool.
  SarathiPolicy(const SarathiConfig& config, std::int32_t blocks);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;
  [[nodiscard]] bool WantsAnotherCall() const override { return turn_was_empty_; }

 private:
  struct Victim {
    RequestId id{};
    std::int32_t remaining = 0;  // tokens of prefill that it still had when it was preempted
  };

  void PlanHybrid(StepBuilder& step);
  void PlanPrefillsFirst(StepBuilder& step);
  void PlanTurn(StepBuilder& step);
  void PlanWithinSlack(StepBuilder& step);
  void AdmitPrompts(StepBuilder& step);
  void SortPrompts(const StepBuilder& step);
  void SchedulePrefills(StepBuilder& step);
  void ScheduleDecodes(StepBuilder& step);
  void RunningPass(StepBuilder& step);
  // Schedules leading decodes of visiting_; how many.
  std::size_t ServeAllDecoding(StepBuilder& step);
  // False if `id` was itself the last possible victim. `next` = the first not yet visited.
  bool MakeRoom(StepBuilder& step, RequestId id, std::size_t next);
  void Preempt(StepBuilder& step, RequestId id);
  void WaitingPass(StepBuilder& step);
  // True if the head of the queue can never be served; it is rejected.
  bool RejectIfNever(StepBuilder& step, RequestId id);
  [[nodiscard]] bool HasRoom(const StepBuilder& step, const Sequence& s) const;
  [[nodiscard]] std::int32_t Remaining(const Sequence& s) const;
  [[nodiscard]] std::int32_t Chunk(std::int32_t processed, std::int32_t remaining) const;

  SarathiConfig config_;
  PolicyTraits traits_;
  std::int32_t watermark_blocks_;
  std::vector<std::int32_t> stage_sizes_;  // dynamic chunking, first stage first
  std::int32_t stage_tokens_ = 0;          // prompt tokens per stage
  OrderedQueue waiting_;
  std::vector<RequestId> running_;
  bool prefilling_ = false;    // some of running_ were in their prompts when the latest call ended
  bool decodes_next_ = false;  // kSimpleChunking: whose turn the next call is
  bool turn_was_empty_ = false;    // kSimpleChunking: of the latest call
  std::set<RequestId> relegated_;  // slack_chunking
  // Scratch of the present call.
  std::vector<RequestId> visiting_;
  std::vector<RequestId> prefills_;
  std::vector<RequestId> decodes_;
  std::vector<Victim> victims_;
  std::int32_t tokens_ = 0;
  std::int32_t chunk_limit_ = 0;
};

}  // namespace twin
