// Ship: slots of a pipeline.
//
// A pipeline of S stages holds S steps at a time. Here each of them is a slot: a step returns, and
// the next step of its slot goes in. A running request keeps its slot, so that a turn of the pipe
// gives every request one token, and a request never waits for a step that carries all the others.
// Made for machines whose stages take a constant time and keep the weights on the chip: there a
// step of few tokens costs as much as a step of one.
//
// A visit of a slot carries one token for each of its requests that decode, and then prompt tokens
// up to fill_tokens: the number from which multiplying takes longer than bringing the weights to
// the multipliers. A waiting request is admitted by the first slot visited of those with the fewest
// requests. So a slot never gets more than ceil(users / S) of them.
//
// The rules are this project's: no scheduler of such a machine is public.
//
// Easy to get wrong:
// - With PromptSlots::kAll the chunks of a prompt follow each other through free slots, those
//   without requests. Such a request is in several steps in flight, in the order of its tokens. It
//   decodes in its own slot, once its first token has returned.
// - A free slot that carries somebody's chunk is taken for a turn: whoever arrives then gets
//   another one, or waits for its return.
// - An admission takes the blocks of all known tokens, so that only decodes can lack a block. The
//   victim is the request of the same slot that was admitted last, maybe the decode itself:
//   requests of other slots are in flight. Nobody is admitted in a step that preempts.
// - Whoever was preempted waits until the tokens that it has in flight are back, and those behind
//   it wait, too.
// - Slots are not levelled out when requests end: moving a request would make it wait.
// - Where decodes alone reach fill_tokens, a visit still computes one prompt token, so that prompts
//   go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ring_queue.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/policy.h"
#include "sched/policy/waiting_queue.h"

namespace twin {

struct ShipConfig {
  static constexpr const char* kName = "ship";

  // The slots that compute a prompt.
  enum class PromptSlots : std::uint8_t {
    kAll,  // the request's own, and those without requests
    kOwn,
  };
  std::int32_t pipeline_parallel_size = 1;  // slots, each of which is a step in flight
  // Decodes and prompt tokens of a visit. 20: of the first LPU, which in a cycle brings 5,120
  // weights of 2 bytes to its multipliers and multiplies 102,400 times.
  std::int32_t fill_tokens = 20;
  PromptSlots prompt_slots = PromptSlots::kAll;
  std::int32_t max_num_seqs = 512;  // requests in all slots
  std::int32_t max_model_len = 0;   // prompt + output tokens of one request; 0 = the model's
  // Share of the blocks that an admission leaves free while others run.
  double watermark = 0.01;

  static constexpr ContextField kContextField = {"max_model_len", &ShipConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const {}  // the fields fit each other in any case
  static std::span<const CaseName> CaseNames();
  bool operator==(const ShipConfig&) const = default;
};

class ShipPolicy final : public Policy {
 public:
  // `blocks` = usable blocks of the KV pool.
  ShipPolicy(const ShipConfig& config, std::int32_t blocks);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override { waiting_.PushArrival(sequence.id, 0); }
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;

 private:
  struct Slot {
    std::vector<RequestId> requests;  // in order of admission
    bool in_flight = false;
  };

  // The next idle slot that has work for the step; slots_.size() if none has.
  std::size_t VisitSlots(StepBuilder& step);
  void Visit(StepBuilder& step, Slot& slot);
  void Decode(StepBuilder& step, Slot& slot);
  // False if the decode slot.requests[index] was itself preempted.
  [[nodiscard]] bool MakeRoom(StepBuilder& step, Slot& slot, std::size_t index);
  void Admit(StepBuilder& step, Slot& slot, std::int32_t room);
  enum class Head : std::uint8_t { kFits, kRejected, kWaits };
  // Looks at the front of the queue.
  [[nodiscard]] Head TryHead(StepBuilder& step) const;
  // Chunks of prompts in a slot without requests, as VisitSlots.
  std::size_t LendSlot(StepBuilder& step);
  // Schedules up to `room` tokens of the prompt; how many.
  std::int32_t ScheduleChunk(StepBuilder& step, RequestId id, std::int32_t room);
  void CountFewest();

  ShipConfig config_;
  PolicyTraits traits_;
  std::int32_t watermark_blocks_;
  WaitingQueue waiting_{QueueOrder::kFcfs};
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;         // the first to be visited by the next call
  RingQueue<std::size_t> in_flight_;  // slots of the steps in flight; slots_.size(): of none
  // Requests of slots_ with prompt tokens that no step has computed yet, in order of admission.
  std::vector<RequestId> prompts_;
  std::int32_t running_ = 0;  // requests in slots_
  // These are of the present call.
  std::size_t fewest_ = 0;  // requests of the emptiest slot
  bool admits_ = false;     // waiting requests may be admitted
};

}  // namespace twin
