// Instants and plans drawn from a seed: every kind of event and list, in an order that a world may
// tell, without an engine behind them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/random.h"
#include "run/record/run_observer.h"

namespace twin {

// Tells one observer a run of `instants` instants.
class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed) : random_(seed, "run") {}

  void TellTo(RunObserver& observer, int instants) {
    for (int i = 0; i < instants; ++i) {
      now_ += Duration{random_.UniformInt(0, 5'000'000)};
      const bool finishes = planned_ > finished_ && random_.UniformInt(0, 2) > 0;
      std::vector<Event> events;
      keys_.clear();
      if (finishes) events.push_back(Finish());
      if (arrived_ > 0 && random_.UniformInt(0, 9) == 0) {
        const RequestId request = AnyRequest();
        events.push_back(RequestCancelled{request, random_.Next() % 2 == 0});
      }
      for (std::int64_t n = random_.UniformInt(0, 2); n > 0 || arrived_ == 0; --n) {
        events.push_back(Arrive());
      }
      if (events.empty()) events.push_back(WakeUp{});
      observer.OnInstant({now_, events});
      for (std::int64_t n = random_.UniformInt(0, 2); n > 0; --n) {
        Plan();
        observer.OnPlan(now_, plans_.back());
      }
    }
  }

 private:
  std::int32_t Number(std::int32_t max) {
    return static_cast<std::int32_t>(random_.UniformInt(0, max));
  }
  RequestId AnyRequest() {
    return RequestId{static_cast<std::uint32_t>(random_.UniformInt(0, arrived_ - 1))};
  }

  StepFinished Finish() {
    outcomes_.clear();
    filled_.clear();
    for (std::int32_t n = Number(3); n > 0; --n) {
      outcomes_.push_back({AnyRequest(), Number(3), static_cast<FinishReason>(Number(2))});
    }
    for (std::int32_t n = Number(2); n > 0; --n) {
      filled_.push_back({AnyRequest(), BlockKey{random_.Next()}});
    }
    return {StepId{++finished_}, now_ - Duration{Number(1000)}, outcomes_, filled_};
  }

  RequestArrived Arrive() {
    Request request;
    request.id = RequestId{static_cast<std::uint32_t>(arrived_++)};
    request.arrival = now_ - Duration{Number(1000)};
    request.prompt_tokens = 1 + Number(4000);
    request.max_output_tokens = 1 + Number(500);
    request.priority = Number(5) - 2;
    request.tenant = static_cast<std::uint32_t>(Number(3));
    request.ignore_eos = Number(1) == 1;
    request.predicted_output_tokens = Number(4) - 1;
    std::vector<BlockKey>& keys = keys_.emplace_back();
    for (std::int32_t n = Number(3); n > 0; --n) keys.push_back(BlockKey{random_.Next()});
    request.prefix_keys = keys;
    return {request};
  }

  void Plan() {
    StepPlan& plan = plans_.emplace_back();  // observers may look at it until it ends
    plan.id = StepId{++planned_};
    const bool padded = Number(3) == 0;
    for (std::int32_t n = Number(6); n > 0; --n) {
      plan.work.push_back({AnyRequest(), Number(3000), 1 + Number(500), padded ? Number(600) : 0,
                           static_cast<Phase>(Number(1)), Number(1) == 1});
    }
    for (std::int32_t n = Number(6); n > 0; --n) {
      plan.kv.push_back({static_cast<KvOperation::Kind>(Number(5)), AnyRequest(),
                         BlockId{Number(9999) - 1}, BlockId{Number(2) - 1}});
    }
    if (Number(3) == 0) plan.preempted.push_back({AnyRequest(), Preemption::How::kSwap});
    if (Number(3) == 0) plan.admitted.push_back(AnyRequest());
    if (Number(3) == 0) plan.resumed.push_back(AnyRequest());
    if (Number(3) == 0) plan.released.push_back(AnyRequest());
    if (Number(3) == 0) plan.padding_rows.push_back(AnyRequest());
    if (Number(3) == 0) {
      plan.rejected.push_back({AnyRequest(), static_cast<RejectReason>(Number(2))});
    }
    if (Number(3) == 0) plan.hits.push_back({AnyRequest(), Number(100)});
    plan.totals.prefill_tokens = Number(10000);
    plan.totals.prefill_attention_pairs = std::int64_t{Number(1 << 30)} << 20;
    plan.totals.padding_tokens = Number(10);
    RecomputeContextMaxima(plan);
    plan.free_blocks_before = Number(5000);
    plan.free_blocks = Number(5000);
    plan.free_host_blocks = Number(5000);
    plan.waiting = Number(50);
    plan.running = Number(50);
    plan.swapped = Number(50);
  }

  Random random_;
  TimePoint now_ = kTimeZero;
  std::uint64_t planned_ = 0;
  std::uint64_t finished_ = 0;
  std::int64_t arrived_ = 0;
  std::deque<StepPlan> plans_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::deque<std::vector<BlockKey>> keys_;  // of the arrivals of this instant
};

}  // namespace twin
