// SGLang: prefill first, decodes wait; computed prefixes stay in a radix tree; admission bets on
// outputs that are shorter than their limits.
//
// A step is a batch of prompts, if one can be built, or one token for every running request. A
// request is admitted if what it needs, with its whole output limit, fits beside what the running
// ones are expected to need: a share of their limits that falls with every decode step that fits.
// When the bet is lost, running requests are retracted: their memory is freed, and they join the
// waiting list at its end. At most one prompt is divided into chunks at a time. Blocks of finished
// requests stay in the tree until their memory is needed, the least recently used first.
//
// Another order (order_config.h) takes the place of the orders of SGLang's waiting list: it decides
// who is offered a batch, retracted requests included, and who is retracted: the last one in it.
//
// Source: SGLang 0.5.23, decisions observed. Field names are SGLang's.
//
// Easy to get wrong:
// - `full` (no admissions until the running batch shrinks) belongs to the running batch: what was
//   set while nothing ran is lost when a prefill batch becomes the running batch.
// - The admission test uses what is left of the output limit, the charge the whole limit; both add
//   a page.
// - The path of a hit is locked before the test, so that it does not count as evictable.
// - Retraction takes the request with the fewest output tokens, and the survivors stay sorted.
//   Its output leaves the cache; its prompt stays in the tree.
// - The ratio changes in decode steps only, and starts over when the engine is idle.
// - scheduler_recv_interval counts in the phase of the steps, not from an arrival: while all steps
//   decode, a request waits half of it in the mean. After a step with prompts, or where nobody
//   runs, it is taken at once.
// - An overlapped step is planned without the results of the latest one. A request that is certain
//   to end with them is left out; a token that returns for a retracted request is thrown away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sched/cache/prefix_cache.h"
#include "sched/cache/windowed_radix_cache.h"
#include "sched/policy/new_token_ratio.h"
#include "sched/policy/policy.h"
#include "sched/policy/sglang_config.h"
#include "sched/policy/sglang_queue.h"

namespace twin {

// The lists that a request passes through:
//
//   arrived_ -> waiting_ -> last_batch_ (prefill_ builds it; chunked_ is its divided prompt)
//            -> running_ -> taken_out_ (its last token is in flight) -> ended_ -> releases_
//
// A retracted request goes back from running_ to waiting_. A request that ends, or is cancelled,
// leaves its list for ended_ while it holds blocks.
class SglangPolicy final : public Policy {
 public:
  // REQUIRES: a config that Validate accepts.
  SglangPolicy(const SglangConfig& config, const KvPoolConfig& kv);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void UpdateTree(const StepPlan& plan, KvEditor& blocks) override;
  void CollectReleases(std::vector<RequestId>& finished) override;
  void Idle() override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] TimePoint WakeAt() const override { return refuses_at_; }
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;
  [[nodiscard]] bool ContinueDecodeStreak(StepBuilder& step) override;

  // "ratio": the share of their output limits that running requests are expected to use.
  [[nodiscard]] std::span<const Gauge> Gauges() const override { return {&gauge_, 1}; }
  [[nodiscard]] std::optional<WindowPoolState> window_pool() const override;
  [[nodiscard]] bool Audit(const SequenceTable& sequences) const override;

 private:
  struct Item {
    RequestId id{};
    std::int32_t tokens = 0;
  };
  // One attempt to build a prefill batch.
  struct Prefill {
    std::vector<Item> batch;
    std::vector<RequestId> preempted;
    std::size_t admitted = 0;         // leading requests of the waiting list that joined
    std::int64_t input_left = 0;      // tokens
    std::int64_t chunk_left = 0;      // tokens; unused without chunks
    double future = 0;                // tokens charged against all of the cache
    std::int64_t charged = 0;         // the part of `future` that this step needs
    std::int64_t window_charged = 0;  // tokens, against all of the window pool
    // Tokens that a request will still take of the cache, and tokens that it then holds
    // (OfferIgnoringEnd).
    struct FutureOf {
      double left = 0;
      std::int64_t held = 0;
    };
    std::vector<FutureOf> futures;
    bool lists_futures = false;
  };
  enum class State : std::uint8_t { kContinue, kNoToken, kOther };

  // Whether this step takes the requests that have arrived.
  [[nodiscard]] bool Receives();
  void CountStep(std::int64_t weight);
  void TakeArrivals(StepBuilder& step);
  void TakeBack(const StepBuilder& step);
  void CheckpointChunk(StepBuilder& step);
  void MergeLastBatch();

  bool PlanPrefill(StepBuilder& step);
  void OpenPrefill(const StepBuilder& step);
  void ContinueChunked(StepBuilder& step);
  void OfferWaiting(StepBuilder& step);
  State TryAdmit(StepBuilder& step, RequestId id);
  State OfferIgnoringEnd(StepBuilder& step, RequestId id);
  [[nodiscard]] bool RunsOutOfMemory(const StepBuilder& step, const Sequence& candidate,
                                     std::int64_t left);
  void ListFutures(const StepBuilder& step, const Sequence& candidate);
  void Join(StepBuilder& step, RequestId id, const TreeHold& hit, std::int32_t tokens);
  void Charge(std::int64_t tokens, std::int64_t output);
  [[nodiscard]] State StateOf(const StepBuilder& step) const;
  [[nodiscard]] double TotalLeft(const StepBuilder& step) const;
  [[nodiscard]] bool PreemptFor(StepBuilder& step, RequestId id);
  bool Issue(StepBuilder& step);
  [[nodiscard]] bool Take(StepBuilder& step, const Item& item);
  void PutBack(StepBuilder& step, RequestId id);
  void MixDecodes(StepBuilder& step);

  // With a window pool (sglang_window.cc).
  [[nodiscard]] std::int64_t WindowNeed(std::int64_t tokens, std::int64_t output) const;
  [[nodiscard]] std::int64_t WindowLeft() const;
  [[nodiscard]] bool FitsWindow(std::int64_t tokens, std::int64_t output,
                                std::int64_t& chunk_most) const;
  void FreeBehindChunks(const StepBuilder& step);
  void FreeBehindDecodes(const StepBuilder& step);
  void TakeDecodePages(const StepBuilder& step);
  void RefuseWhatCannotRun(StepBuilder& step);

  void PlanDecode(StepBuilder& step);
  bool TakeOutEnding(const StepBuilder& step);
  [[nodiscard]] bool DecodesFit(StepBuilder& step, std::span<const RequestId> ids);
  void IssueDecodes(StepBuilder& step);
  void Retract(StepBuilder& step);
  void SortForRetraction(const StepBuilder& step);
  void Release(StepBuilder& step, RequestId id, std::size_t left);
  void Abort(StepBuilder& step, RequestId id);
  void Requeue(StepBuilder& step, RequestId id);

  // Prompt and output tokens of one request, whatever its client asked for.
  [[nodiscard]] std::int64_t LongestRequest() const;
  [[nodiscard]] std::int64_t Available(const StepBuilder& step) const;
  [[nodiscard]] std::int64_t RoundUp(std::int64_t tokens) const {
    return (tokens + page_ - 1) / page_ * page_;
  }
  [[nodiscard]] bool MakeFree(StepBuilder& step, std::int64_t tokens);
  [[nodiscard]] std::int64_t Clipped(std::int64_t tokens) const;
  // Tokens that a running request is expected to need yet.
  [[nodiscard]] double ExpectedFutureTokens(const Sequence& s) const;
  [[nodiscard]] static std::int32_t Output(const Sequence& s) { return s.known - s.prompt_tokens; }
  [[nodiscard]] bool chunks() const { return config_.chunked_prefill_size > 0; }

  SglangConfig config_;
  PolicyTraits traits_;
  std::int64_t page_;
  std::int64_t cache_tokens_;
  std::unique_ptr<PrefixCache> cache_;
  WindowedRadixCache* windows_;  // cache_, if there is a window pool; else nullptr
  NewTokenRatio ratio_;
  Gauge gauge_;
  SglangRequests requests_;
  SglangQueue waiting_;
  std::int64_t entries_ = 0;         // into the waiting list
  std::int64_t unreceived_ = 0;      // weight of the steps since requests were taken
  bool latest_has_prompts_ = false;  // the latest step
  std::vector<RequestId> arrived_;
  std::vector<RequestId> running_;     // in the order of joining, or of the latest retraction
  std::vector<RequestId> last_batch_;  // if it was a prefill: in its order
  std::vector<RequestId> taken_out_;   // certain to end with the step in flight
  TimePoint refuses_at_ = kTimeNever;  // where nothing can be scheduled: when a request is refused
  std::optional<RequestId> chunked_;
  bool parked_ = false;  // chunked_ is in no batch: the window pool has no room for a chunk
  bool full_ = false;    // no admissions until the running batch shrinks; the next two say it has
  bool last_batch_shrank_ = false;
  bool running_shrank_ = false;
  struct Ended {
    RequestId id{};
    std::int32_t in_flight = 0;  // steps
  };
  std::vector<Ended> ended_;  // they hold blocks
  std::vector<RequestId> releases_;
  Prefill prefill_;
  struct Rank {
    std::int64_t importance = 0;
    std::int32_t output = 0;
    std::int32_t prompt = 0;
    std::int64_t queued_at = 0;
    std::size_t place = 0;
    RequestId id{};
  };
  std::vector<Rank> ranks_;
};

}  // namespace twin
