// The interface of a scheduling policy, and its traits.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "core/time.h"
#include "sched/cache/kv_pool.h"
#include "sched/sequence.h"

namespace twin {

class KvEditor;
class StepBuilder;
struct StepPlan;

// When clients receive their tokens.
enum class Delivery : std::uint8_t {
  kPerStep,   // at the end of the step that produced them
  kBatchEnd,  // when every request admitted in the same step has finished
};

// When the results of a step reach the policy, relative to its next calls.
enum class ResultQueue : std::uint8_t {
  kSynchronous,  // each step returns before the next one is planned
  kPipeline,    // the oldest of steps_in_flight_max steps returns once so many are out; a call that
                // plans nothing takes a place too
  kAsync,       // the next step is planned before the latest one returns (vLLM up to 0.15)
  kBatchQueue,  // as kPipeline, but after a call that planned nothing while no request is
                // unfinished the oldest one returns at once (vLLM 0.33)
  kOverlap,     // the next step is planned before the latest one returns; a call that plans nothing
                // returns nothing (SGLang)
  kInstances,  // steps_in_flight_max copies of the model run a step each, which return in any order
};

// Everything that code outside sched/policy/ may ask about a configured policy. The engine enforces
// the limits and promises (docs/INVARIANTS.md).
//
// Set these for a policy of your own; the defaults suit most policies:
// - name
// - tokens_per_step_max, sequences_per_step_max: the limits that it keeps, if any
// - preempts = false, if it reserves all blocks of a request on admission and never preempts
// - first_come_first_served = false, unless first admissions happen in order of arrival
// - caches_prefixes = true, if it calls StepBuilder::AttachPrefix and PublishPrefix
// - swaps_to_host, reads_predictions, receives_kv: the features that it uses
// - context_tokens_max, if it rejects requests beyond a limit of its own
// - step_engine and memory_rule: the system whose host times and size of the KV cache it gets
// The engine checks the limits, preempts and first_come_first_served in every plan. The other
// traits are for policies that decide as a particular system does.
struct PolicyTraits {
  std::string_view name;
  std::int32_t tokens_per_step_max = 0;     // I1; 0 = no such limit
  std::int32_t sequences_per_step_max = 0;  // I1; 0 = no such limit
  std::int32_t steps_in_flight_max = 1;
  ResultQueue result_queue = ResultQueue::kSynchronous;  // kSynchronous = one step in flight
  bool overlaps_own_steps = false;      // I5: may issue a sequence again before its result is back
  bool preempts = true;                 // I7: false for policies that reserve to completion
  bool first_come_first_served = true;  // I8: first admissions happen in order of arrival
  bool defers_release = false;          // finished sequences keep their blocks until Release()
  // Cancelled sequences do not keep their blocks for a step in flight: later steps run after it.
  bool frees_in_flight = false;
  bool caches_prefixes = false;       // looks up and publishes block keys
  bool publishes_at_end = false;      // only the blocks of the prompt, when the request ends
  bool keeps_prefix_tree = false;     // of its own, instead of publishing; with defers_release
  bool forgets_stale_tokens = false;  // a result issued before a preemption brings no token
  // The policy compares the content of requests by so many leading tokens, not by blocks alone; 0 =
  // it does not. With keeps_prefix_tree.
  std::int32_t compared_tokens = 0;
  bool publishes_returned_tokens = false;  // blocks are published again when tokens return
  bool swaps_to_host = false;              // preempts by swapping, which needs host blocks
  bool reserves_context = false;  // an admission reserves context_tokens_max, whatever it asks for
  bool receives_kv = false;       // of requests that another replica has prefilled
  bool needs_disaggregation = false;  // its system has no replicas that do both phases
  bool mixes_phases = false;  // an engine may prefill for other replicas and receive_kv at once
  bool reads_predictions = false;  // of output lengths; else it sees none
  // Speculative decoding: drafts that a sequence verifies in a step at most; 0 = none are made.
  std::int32_t drafts_max = 0;
  // The next step is planned before the drafts are known: it assumes drafts_max for each sequence
  // that emits. False: outcomes offer them.
  bool assumes_drafts = false;
  std::int32_t drafts_off_from_running = 0;  // no drafts with so many running requests; 0 = always
  // Serves models of several KV groups, or of one that does not keep all tokens (KvGroups).
  bool keeps_kv_groups = false;
  // For such models: every how many tokens the blocks of windows and states that a prefix of that
  // length needs stay in the prefix cache; see GroupLimits.
  std::int32_t retention_interval = 0;
  Delivery delivery = Delivery::kPerStep;
  ReleaseOrder release_order = ReleaseOrder::kBack;

  // The rule by which the policy's own system sizes its KV cache (sim/devices/kv_capacity.h).
  std::string_view memory_rule = "vllm_v1";  // name of a sim::MemoryRule
  std::int32_t sized_for_tokens = 0;         // largest step in tokens; 0 = tokens_per_step_max
  std::int32_t context_tokens_max = 0;       // prompt + output of one request; 0 = the model's
  // Layers with windows, of a model that has others, too: they have a pool of their own, with so
  // many tokens for each token of the other pool; 0 = all layers keep all tokens, in one pool.
  // kEqualWindowPool: as many bytes as the other pool. Unset: the policy knows no windows.
  std::optional<double> window_pool_ratio = std::nullopt;
  // The parameter by which the policy decides for two pools; empty: for one.
  std::string_view window_parameter = "";
  bool outputs_end_at_context = false;  // no token beyond context_tokens_max is ever computed

  // How the policy's own system prepares steps on the host (sim::StepEngine). It affects predicted
  // times only:
  //   v1    graphs and a lean host; with overlaps_own_steps the next step is prepared while the
  //         device works (vLLM V1, SGLang)
  //   v0    a slow host; prompts apart from decodes (vLLM before V1)
  //   tgis  static shapes without chunks, and a slow host (IBM's fork of Text Generation Inference)
  std::string_view step_engine = "v1";

  // Whether full blocks enter the prefix cache while their request runs.
  [[nodiscard]] bool publishes_in_steps() const {
    return caches_prefixes && !publishes_at_end && !keeps_prefix_tree;
  }
  // KvPoolConfig::key_tokens, so that keys end where the policy compares.
  [[nodiscard]] std::int32_t KeyTokens(std::int32_t block_size) const {
    return compared_tokens > 0 ? std::gcd(block_size, compared_tokens) : 0;
  }

  static constexpr double kEqualWindowPool = -1;

  bool operator==(const PolicyTraits&) const = default;
};

// Limits at which StepBuilder::ScheduleDecodes stops.
struct DecodeLimits {
  std::int32_t computed_max = std::numeric_limits<std::int32_t>::max();  // tokens of one sequence
  std::int32_t free_blocks_min = 0;  // free blocks required before each sequence, even if unused
  // In decode streaks alone: ContinueDecodeStreak() frees the blocks that the step takes, or
  // returns false.
  bool makes_room = false;
  // In decode streaks alone: ContinueDecodeStreak() must be called before each step; otherwise it
  // changes nothing and returns true.
  bool asks_each_step = false;
  // In decode streaks alone: the promise also holds if the latest step computed prompts or
  // admitted requests.
  bool after_prompts = false;
  // In decode streaks alone: if nobody waits, the promise also holds where requests of the latest
  // step have ended since, or have their last tokens in flight. The others go on without them.
  bool after_ends = false;
};

// A number that a policy goes by, for display.
struct Gauge {
  std::string_view name;
  double value = 0;
};

// A pool of pages that a policy keeps beside the engine's blocks (window_pool.h).
struct WindowPoolState {
  std::int32_t usable = 0;
  std::int32_t free = 0;
  std::int32_t cached = 0;   // in a prefix tree, not locked
  std::int64_t evicted = 0;  // so far
};

// Decides which requests are admitted, what a step computes, and who is preempted. Owns its queues.
// Deterministic: its decisions depend on the calls made to it and on nothing else. Used by one
// Engine, from one thread.
class Policy {
 public:
  virtual ~Policy() = default;

  [[nodiscard]] virtual const PolicyTraits& traits() const = 0;

  // A request arrived; it is waiting.
  virtual void Enqueue(const Sequence& sequence) = 0;

  // The sequence finished or was cancelled: the policy removes it from its queues. The engine frees
  // its blocks, unless traits().defers_release: then the policy does so in a later plan.
  virtual void Remove(const Sequence& sequence) = 0;

  // A step returned; its sequences are updated, and Remove was called for the ones that ended.
  virtual void StepReturned(const StepPlan& /*plan*/) {}

  // Only with traits().defers_release, after a step returned: appends the finished sequences whose
  // blocks are freed now. (StepBuilder::Release frees them in a plan instead.)
  virtual void CollectReleases(std::vector<RequestId>& /*finished*/) {}

  // Only with traits().keeps_prefix_tree, after StepReturned: enters what the step has computed
  // into the tree.
  virtual void UpdateTree(const StepPlan& /*plan*/, KvEditor& /*blocks*/) {}

  // An instant has left no request in the engine.
  virtual void Idle() {}

  // Decides one step through calls of `step`. An empty step means: nothing to do until the next
  // event.
  virtual void Plan(StepBuilder& step) = 0;

  // Limits within which the policy would repeat the latest step unchanged. While they hold, the
  // engine plans without asking the policy: neither Plan() nor StepReturned() is called.
  //
  // Asked when the latest plan gave all running requests a token and did nothing else but admit
  // some of them, no request has arrived or left since, and its tokens have returned or the policy
  // overlaps its own steps. If that plan admitted requests or computed prompts, limits without
  // after_prompts promise nothing. It is also asked if requests of the plan have ended since, where
  // limits without after_ends promise nothing. A value promises that Plan() would now decode the
  // same requests in the order of DecodeStreakReversals(), take blocks for their next tokens only,
  // and do nothing else; and that it would do so again after each such step while every request
  // stays within the limits.
  //
  // Time: the promise holds however much time passes. A policy whose choice depends on time returns
  // nullopt while that can come to matter: while a request waits that could be admitted, or could
  // change its place.
  // State: after the steps the policy is in the state it is in now, except for the changes that
  // ContinueDecodeStreak() makes.
  [[nodiscard]] virtual std::optional<DecodeLimits> DecodeStreakLimits() const {
    return std::nullopt;
  }

  // End indices of consecutive parts of the batch that each step reverses. Empty: the order stays.
  // Asked together with DecodeStreakLimits(). Valid until the next call.
  [[nodiscard]] virtual std::span<const std::int32_t> DecodeStreakReversals() const { return {}; }

  // Asked before each repeated step, if its blocks are free or limits.makes_room; a simulation
  // skips the call unless limits.asks_each_step. The policy does what Plan() would do beside the
  // decodes: it updates its own state and makes room in its prefix tree. True: the step takes
  // place. False, with nothing changed: the promise ends, and Plan() is called.
  [[nodiscard]] virtual bool ContinueDecodeStreak(StepBuilder& /*step*/) { return true; }

  // True if the latest call planned nothing because the requests that can run were not yet due in
  // their turn. If the engine may plan more than once in an instant, it then calls again, up to
  // steps_in_flight_max times. For pipelines whose steps take turns (Sarathi, vLLM V1).
  [[nodiscard]] virtual bool WantsAnotherCall() const { return false; }

  // Asked after Plan() planned nothing: when it must be called again even if nothing happens,
  // because a delay window or a time limit ends, later than now; kTimeNever: it need not. An empty
  // plan while nothing is in flight violates progress (I9) unless there is such a time.
  [[nodiscard]] virtual TimePoint WakeAt() const { return kTimeNever; }

  // Valid until the next call.
  [[nodiscard]] virtual std::span<const Gauge> Gauges() const { return {}; }

  [[nodiscard]] virtual std::optional<WindowPoolState> window_pool() const { return std::nullopt; }
  // Recounts what the policy itself keeps of the sequences' memory; false if that does not add up.
  // Cost: all blocks and sequences. For tests and audits.
  [[nodiscard]] virtual bool Audit(const SequenceTable& /*sequences*/) const { return true; }
};

}  // namespace twin
