// A world in which every iteration takes one unit of time. It shows what a policy decides, step by
// step, in the form of the case files.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/schedule/schedule_case.h"
#include "core/ring_queue.h"
#include "sched/cache/group_tables.h"
#include "sched/cache/kv_pool.h"
#include "sched/policy/policy.h"
#include "sched/stale_tokens.h"
#include "sched/world.h"

namespace twin::run {

struct UnitTimeOptions {
  ResultQueue queue = ResultQueue::kSynchronous;
  std::int32_t depth = 1;
  bool batch_delivery = false;              // rows of a batch are delivered together, at its end
  bool forgets_stale_tokens = false;        // PolicyTraits
  std::int32_t drafts_max = 0;              // offered with the results of an item, at most
  std::int32_t context_tokens_max = 0;      // longest sequence, as in SimWorld; 0 = no limit
  const GroupTables* groups = nullptr;      // Engine::group_tables()
  std::int64_t iterations_max = 1'000'000;  // after them the world reports no more events
};

// Time is the number of the iteration. Borrows the case and the engine's pool (for the counts of
// free blocks that it reports) for its lifetime.
class UnitTimeWorld final : public World {
 public:
  UnitTimeWorld(const ScheduleCase& schedule_case, const KvPool& pool,
                const UnitTimeOptions& options);

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;
  // The engine has handled the results of the instant, or all of its events, and has not planned
  // yet.
  void OnHandled(const Policy& policy);
  // It has planned, or has nothing to do.
  void OnPlanned(const Policy& policy);

  // One object per iteration, in the form of the case files.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& steps() const { return steps_; }

 private:
  struct RequestState {
    std::int32_t emitted = 0;
    std::int32_t items = 0;  // that emitted, for the script of speculation
    bool finished = false;   // or cancelled
    bool rejected = false;
    BlockKey last_key{};
    std::vector<std::int64_t> open_tokens;  // after the latest key
  };
  struct Batch {
    std::int64_t iteration = 0;
    const StepPlan* plan = nullptr;  // null: nothing was scheduled
  };

  void EndIteration();
  void ProcessOldest(nlohmann::ordered_json& step);
  [[nodiscard]] bool ResultsAreDue() const;
  void Emit(const WorkItem& item, std::vector<std::int32_t>& finished,
            nlohmann::ordered_json& step);
  void AppendToken(RequestId id, std::int64_t token, std::vector<BlockFilled>& filled);
  void TakeArrivals();
  void TakeCancellations();
  void Announce(std::int32_t index);
  [[nodiscard]] std::vector<BlockKey> PromptKeys(std::int32_t index);
  void Describe(const StepPlan& plan, nlohmann::ordered_json& step) const;
  // Blocks that each request holds in each KV group.
  [[nodiscard]] nlohmann::ordered_json Held() const;

  const ScheduleCase& case_;
  const KvPool& pool_;
  UnitTimeOptions options_;
  std::vector<RequestState> requests_;
  std::vector<nlohmann::ordered_json> steps_;
  RingQueue<Batch> batches_;
  StaleTokens stale_;
  std::int64_t iteration_ = 0;
  bool called_ = false;  // the scheduler is called in this iteration
  const StepPlan* launched_ = nullptr;
  // When planning ended.
  std::int32_t free_blocks_ = 0;
  std::int32_t cached_blocks_ = 0;
  nlohmann::ordered_json held_;
  std::int64_t evicted_blocks_ = 0;  // by it
  std::int64_t evicted_pages_ = 0;
  std::optional<WindowPoolState> window_pool_;
  std::vector<Gauge> gauges_;
  bool free_after_open_ = false;  // the latest record still lacks free_after
  std::size_t next_arrival_ = 0;
  std::vector<RequestId> departures_;  // requests that are to be cancelled, in order
  std::size_t next_departure_ = 0;
  std::vector<RequestId> cancelled_;  // before the call of this iteration
  std::int32_t unfinished_ = 0;       // arrived, and not finished, rejected or cancelled
  bool finished_since_call_ = false;  // or cancelled
  bool drains_ = false;  // nobody is left to schedule: this iteration only takes results in
  std::vector<Event> events_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<std::vector<BlockKey>> keys_;  // of the requests announced in this instant
};

}  // namespace twin::run
