// A simulated world in which everything that may go wrong does, at random, from one seed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/ring_queue.h"
#include "run/hostile/group_shadow.h"
#include "run/hostile/kv_shadow.h"
#include "sched/stale_tokens.h"
#include "sched/world.h"

namespace twin {

struct HostileOptions {
  std::uint64_t seed = 0;
  Duration tick{1};  // all times are multiples, but for those that the policy waits for
  std::int32_t requests_max = 30;
  std::int32_t block_size = 4;
  std::int32_t key_tokens = 4;             // of prefixes; a whole number of keys in a block
  std::int32_t blocks = 16;                // the engine's pool: some prompts are larger than it
  std::optional<KvGroups> kv_groups = {};  // EngineConfig
  std::int32_t host_blocks = 0;
  std::int32_t context_tokens = 1 << 20;  // of the model: a sequence ends there
  bool shares_prefixes = false;           // prompts repeat parts of earlier requests
  bool priorities = false;                // and tenants, and wrong predictions of outputs
  bool forgets_stale_tokens = false;      // PolicyTraits, as the next two
  std::int32_t drafts_max = 0;
  bool assumes_drafts = false;
  bool cancels = true;
  bool silent_ends = true;            // some outputs end without a last token
  bool oversized = true;              // prompts that can never fit, or exceed the model's context
  std::int32_t replicas = 1;          // each with a pool of its own
  std::int32_t prefill_replicas = 0;  // of these; the others decode. 0: all do both
  bool mixes_phases = false;          // any replica may prefill for any other one
  std::int32_t further_blocks = 0;    // replica i has i times as many more than `blocks`

  [[nodiscard]] std::int32_t BlocksOf(std::int32_t replica) const {
    return blocks + replica * further_blocks;
  }
};

// Several replicas share the clock and the arrivals, and nothing else, but for the keys and values
// that are copied between them.
//
// Arrivals in bursts and at equal times, step durations from nothing to long, early stops,
// cancellations at any moment (of waiting, running and gone requests), idle wake-ups.
//
// It keeps its own account of every request and executes every plan on a KvShadow, to check what a
// device would have read. Equal options give equal worlds.
class HostileWorld final : public World {
 public:
  enum class Fate : std::uint8_t { kAhead, kLive, kFinished, kRejected, kCancelled };

  explicit HostileWorld(const HostileOptions& options);

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;
  // Ends parts at random moments, too. Equal to the run without parts: it draws the same numbers.
  void Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) override;
  void Continued(const StreakPart& part) override;
  void Transfer(const KvTransfer& transfer) override;

  [[nodiscard]] std::int32_t count(Fate fate) const {
    return counts_[static_cast<std::size_t>(fate)];
  }
  [[nodiscard]] std::int32_t requests() const { return static_cast<std::int32_t>(scripts_.size()); }
  [[nodiscard]] std::int32_t steps_in_flight(std::int32_t replica = 0) const {
    return static_cast<std::int32_t>(replicas_[static_cast<std::size_t>(replica)].in_flight.size());
  }
  [[nodiscard]] bool prefills(std::int32_t replica) const {
    return options_.mixes_phases || replica < options_.prefill_replicas;
  }
  // The first error of the engine that the world noticed; empty if none.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  struct Script {
    TimePoint arrival;
    TimePoint cancelled = kTimeNever;
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;
    std::int32_t max_output_tokens = 0;
    std::int32_t priority = 0;
    bool stops_silently = false;  // its end brings no token
    Fate fate = Fate::kAhead;
    std::int32_t replica = -1;  // that has worked on it
    bool moved = false;         // from the one that prefilled it
    std::int32_t emitted = 0;
    std::vector<std::uint64_t> content;  // one word per token, up to the context limit
    std::vector<BlockKey> keys;          // of all full blocks of `content`
  };
  struct Flight {
    const StepPlan* plan = nullptr;
    TimePoint started;
    TimePoint ends;
    std::vector<std::int32_t> accepted;  // drafts, by item; empty: there are none
  };

  struct Copy {
    KvTransfer transfer;
    TimePoint started;
    TimePoint ends;
  };

  struct Replica {
    KvShadow shadow;
    std::optional<GroupShadow> group_shadow;  // in its place, with several tables
    RingQueue<Flight> in_flight;
    StaleTokens stale;
  };

  [[nodiscard]] TimePoint Later(TimePoint t, std::int64_t ticks) const {
    return t + options_.tick * ticks;
  }
  // When something happens next.
  [[nodiscard]] TimePoint NextEvent() const;
  // Arrivals, cancellations and copies.
  [[nodiscard]] bool SomebodyComesOrGoesAt(TimePoint time) const;
  // Draws whether the engine is woken before anything happens, unless that was done before.
  [[nodiscard]] bool WakesEarly(TimePoint next);
  [[nodiscard]] Flight DrawFlight(const StepPlan& plan, const RingQueue<Flight>& in_flight,
                                  std::vector<std::int32_t> accepted);
  // Whether each item of the step yields one further token and nothing else.
  [[nodiscard]] bool IsExpected(const StepPlan& plan) const;
  // Checks and executes a plan.
  void Run(const StepPlan& plan, const std::vector<std::int32_t>& accepted);
  void DrawScripts();
  [[nodiscard]] Script DrawScript(std::size_t index, TimePoint arrival);
  void DrawContent(std::size_t index, Script& script);
  void DrawDeparture(Script& script);
  [[nodiscard]] std::int32_t DrawPrompt();
  void FinishTransfers();
  [[nodiscard]] std::uint64_t Word(RequestId id, std::int32_t position) const;
  void FinishSteps(Replica& replica);
  void FinishStep(const Flight& flight, StaleTokens& stale);
  void CheckRequests(const StepPlan& plan);
  [[nodiscard]] std::string Execute(KvShadow& shadow, const StepPlan& plan,
                                    const std::vector<std::int32_t>& accepted);
  void EmitTokens(Script& script, const WorkItem& item, std::int32_t accepted,
                  std::vector<ItemOutcome>& outcomes, std::vector<BlockFilled>& filled);
  [[nodiscard]] FinishReason EmitToken(Script& script, RequestId id, std::int32_t& emitted,
                                       std::vector<BlockFilled>& filled);
  void Cancel(RequestId id);
  void Announce(RequestId id);
  void Turn(Script& script, Fate fate);
  void Fail(const std::string& what);

  HostileOptions options_;
  Random random_;
  Random parts_random_;
  std::optional<bool> wakes_early_;  // drawn for the next instant
  StepPlan latest_;                  // of a part, until it is continued
  std::vector<Replica> replicas_;
  std::deque<Copy> copies_;
  std::vector<Script> scripts_;
  std::vector<RequestId> departures_;  // in order of their times
  std::size_t next_arrival_ = 0;
  std::size_t next_departure_ = 0;
  std::int32_t counts_[5] = {};
  TimePoint now_ = kTimeZero;
  std::string fault_;
  // Events of the present instant, and the data of their spans.
  std::vector<Event> events_;
  std::deque<std::vector<ItemOutcome>> outcomes_;
  std::deque<std::vector<BlockFilled>> filled_;
};

}  // namespace twin
