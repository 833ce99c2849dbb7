// FastServe: preemption after every token, by queues of several levels, with swapping ahead of
// need.
//
// Requests wait in queues of falling priority. A request that has computed for longer than the
// quantum of its queue goes down to the next one, so that short answers overtake long ones although
// nobody knows their lengths. The length of the prompt is known: a request joins the first queue
// whose quantum holds its first step (skip-join). Each step takes the first requests of all queues.
// Preempted requests keep their KV cache; where memory is short, that of the last requests goes to
// the host, and comes back before it is needed.
//
// Sources: Wu et al., 2023 (FastServe); its code, revision 187a2742, as in the policy notes,
// section 9.4. Field names are the code's.
//
// Easy to get wrong:
// - The quanta are times. A step counts from its plan to the next plan, for all requests in it: a
//   short decode beside a long prompt is charged the time of the prompt.
// - A request is demoted if it has exceeded its quantum, not if it has used it up.
// - A request that computed goes to the front of its queue, a new one to the back. Several are put
//   there one by one, so that the last of the batch is the first of the queue.
// - Prompts are not divided, and prompts and decodes share a step.
// - Room for max_batch_size blocks is kept free beyond what the batch needs (proactive_offloading),
//   by swapping; it is a wish, and never takes requests out of the batch.
// - Swaps are part of a plan: the step waits for them. The original overlaps them with other work.
// - Where the swap space is full, a request is preempted by recompute (the original stops).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/time.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/place_heap.h"
#include "sched/policy/policy.h"
#include "sched/policy/waiting_queue.h"

namespace twin {

struct FastServeConfig {
  static constexpr const char* kName = "fastserve";

  std::int32_t max_batch_size = 128;         // requests per step
  std::int32_t max_tokens_per_batch = 8192;  // prompt tokens per step
  std::int32_t max_model_len = 0;            // tokens of one request; 0 = the model's context
  bool use_skip_join = true;                 // otherwise all requests join the first queue
  Duration base_quantum = std::chrono::milliseconds(10);  // of the first queue
  double threshold = 2;                                   // quantum of a queue over the one before
  std::int32_t num_queues = 16;
  // Time of a request's first step, per step and per prompt token: by it the request skips queues.
  Duration prefill_time = std::chrono::milliseconds(8);
  Duration prefill_token_time = std::chrono::microseconds(40);
  std::int32_t starvation_period = 1000;  // steps between two looks for requests that starve
  Duration starvation_threshold = std::chrono::seconds(3);  // idle time
  bool proactive_offloading = true;
  std::int32_t num_min_free_blocks_threshold = 0;  // blocks kept free, if more than max_batch_size

  static constexpr ContextField kContextField = {"max_model_len", &FastServeConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const FastServeConfig&) const = default;
};

class FastServePolicy final : public Policy {
 public:
  explicit FastServePolicy(const FastServeConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;
  [[nodiscard]] std::span<const std::int32_t> DecodeStreakReversals() const override {
    return repeats_.level_ends;
  }
  [[nodiscard]] bool ContinueDecodeStreak(StepBuilder& step) override;

  // How many requests it has taken out of a queue to form batches so far: their cost, for tests.
  [[nodiscard]] std::int64_t requests_popped() const { return requests_popped_; }

 private:
  // Distance of two levels in the order of all requests, above the places within a level.
  static constexpr std::int64_t kLevelStride = std::int64_t{1} << 52;

  // Where the blocks of a request are.
  enum class Memory : std::uint8_t { kNone, kDevice, kHost };

  struct Progress {
    std::int32_t level = 0;
    Memory memory = Memory::kNone;
    bool in_batch = false;   // of the latest step
    bool set_aside = false;  // in set_aside_
    Duration served{0};      // in the present level
    TimePoint idle_since;    // when it last computed; at first, its arrival
    std::int64_t place = 0;  // in the order of all levels
  };

  // Steps of the same batch whose time is not yet in the progress of its requests.
  struct Repeats {
    bool prepared = false;                 // the next two members are up to date with batch_
    std::vector<std::int32_t> level_ends;  // in batch_: one after each level's last request
    Duration room{0};                      // time that may be charged before one is demoted
    Duration served{0};                    // charged so far
    TimePoint latest;
    std::int64_t steps = 0;
  };

  // If no request waits and none is demoted, the next step has the requests of the latest one, in
  // the order that returning them and taking them again would give: charges the latest step and
  // returns true. Otherwise changes nothing.
  [[nodiscard]] bool RepeatBatch(TimePoint now);
  // True if no request has to go for the next tokens of the batch, given that it only decodes.
  [[nodiscard]] bool FitsAhead(const StepBuilder& step) const;
  [[nodiscard]] bool promotes() const {
    return steps_ > 0 && steps_ % config_.starvation_period == 0;
  }
  void PrepareRepeats();
  // Writes the repeats into the progress of the batch. Called before anything else changes either.
  void SettleRepeats();
  // Charges the step that has returned, and puts its requests back.
  void ReturnBatch(TimePoint now);
  void PromoteStarving(TimePoint now);
  void FormBatch(StepBuilder& step);
  void JoinBatch(RequestId id);
  // Requests without blocks wait here while few blocks of the host are free, so that no step looks
  // at all of them: nobody takes one of them then, but where nobody else is there.
  void SetAside(RequestId id, bool is_long);
  RequestId PopSetAside();
  // True if the first of all waiting requests is set aside. REQUIRES: a request waits.
  [[nodiscard]] bool FirstIsSetAside() const;
  // True if a request is set aside between the first request of the batch and this one, and its
  // prompt does not fit beside the batch: no request overtakes it.
  [[nodiscard]] bool LongOneIsBefore(RequestId id) const;
  [[nodiscard]] bool RejectIfNever(StepBuilder& step, RequestId id);
  // Takes memory from requests at the end of the queues, then from the end of the batch. True if
  // nobody had to go.
  [[nodiscard]] bool MakeRoom(StepBuilder& step);
  // False if nobody outside the batch holds memory, or only recomputation could free it and
  // `recompute` is false.
  bool EvictLast(StepBuilder& step, bool recompute);
  void Evict(StepBuilder& step, RequestId id);
  void LoadAhead(StepBuilder& step);
  void AdmitBatch(StepBuilder& step);
  void ScheduleBatch(StepBuilder& step) const;
  // Blocks that the next steps take from the free ones.
  [[nodiscard]] static std::int32_t BlocksNeeded(const StepBuilder& step, RequestId id);
  [[nodiscard]] std::int32_t BlocksOfBatch(const StepBuilder& step) const;
  [[nodiscard]] std::int32_t SpareBlocks() const;
  [[nodiscard]] std::int32_t FirstLevel(std::int32_t prompt_tokens) const;
  // Puts a request at the front or the back of its level.
  void PushFront(RequestId id);
  void PushBack(RequestId id);
  // Puts a popped request back to its place. REQUIRES: of a level, the last one first.
  void Return(RequestId id);
  // Enters a request that is in no batch, under its new place, into the heap of its memory.
  void NotePlace(RequestId id, const Progress& progress);
  void DropFormerPlaces();
  // Whether an entry of on_device_ or of on_host_ holds.
  [[nodiscard]] bool IsOnDevice(RequestId id, std::int64_t key) const;
  [[nodiscard]] bool IsOnHost(RequestId id, std::int64_t key) const;
  void TakeFirstPlace(Progress& progress) {
    progress.place = progress.level * kLevelStride - ++front_places_;
  }
  [[nodiscard]] WaitingQueue& queue(std::int32_t level) {
    return queues_[static_cast<std::size_t>(level)];
  }
  // The first level with a request. REQUIRES: there is one.
  [[nodiscard]] WaitingQueue& first_queue() { return queue(std::countr_zero(nonempty_)); }
  [[nodiscard]] const WaitingQueue& first_queue() const {
    return queues_[static_cast<std::size_t>(std::countr_zero(nonempty_))];
  }
  RequestId PopFront();
  // True if no request is outside the batch.
  [[nodiscard]] bool nobody_waits() const { return nonempty_ == 0 && set_aside_.empty(); }

  FastServeConfig config_;
  PolicyTraits traits_;
  std::vector<Duration> quanta_;      // by level
  std::vector<WaitingQueue> queues_;  // by level; requests neither in batch_ nor in set_aside_
  std::uint64_t nonempty_ = 0;        // a bit for each level
  WaitingQueue set_aside_{QueueOrder::kPriority};  // by place
  std::set<std::int64_t> long_set_aside_;          // places of requests with too long a prompt
  std::int64_t front_places_ = 0;                  // given out so far, of all levels
  std::int64_t back_places_ = 0;
  IdMap<Progress> progress_;
  std::vector<RequestId> batch_;  // of the latest step
  Repeats repeats_;
  // Places of requests outside the batch; entries may be out of date.
  PlaceHeap on_device_;            // by falling place
  PlaceHeap on_host_;              // by place
  std::vector<RequestId> waited_;  // of the present call
  TimePoint planned_at_;           // the latest step
  std::int64_t steps_ = 0;
  std::int64_t requests_popped_ = 0;
};

}  // namespace twin
