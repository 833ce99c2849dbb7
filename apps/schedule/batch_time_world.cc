#include "apps/schedule/batch_time_world.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "sched/policy/triton.h"

namespace twin::run {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

TimePoint AtMicroseconds(std::int64_t us) { return kTimeZero + microseconds(us); }

std::int64_t MicrosecondsOf(TimePoint t) {
  return duration_cast<microseconds>(t.time_since_epoch()).count();
}

}  // namespace

Instant BatchTimeWorld::Advance(TimePoint wake_at) {
  events_.clear();
  TimePoint next = wake_at;
  for (const RunningBatch& batch : running_) next = std::min(next, batch.ends);
  if (next_arrival_ < case_.requests.size()) {
    next = std::min(next, AtMicroseconds(case_.requests[next_arrival_].arrival_us));
  }
  if (next == kTimeNever) return {now_, {}};
  now_ = std::max(now_, next);
  ReturnBatches();
  while (next_arrival_ < case_.requests.size() &&
         AtMicroseconds(case_.requests[next_arrival_].arrival_us) <= now_) {
    Announce(next_arrival_++);
  }
  if (events_.empty()) events_.emplace_back(WakeUp{});
  return {now_, events_};
}

void BatchTimeWorld::ReturnBatches() {
  const auto first = std::stable_partition(running_.begin(), running_.end(),
                                           [this](const RunningBatch& b) { return b.ends > now_; });
  returned_.assign(std::make_move_iterator(first), std::make_move_iterator(running_.end()));
  running_.erase(first, running_.end());
  for (const RunningBatch& batch : returned_) {
    events_.emplace_back(StepFinished{batch.plan->id, batch.started, batch.outcomes, {}});
  }
}

void BatchTimeWorld::Announce(std::size_t index) {
  const ScheduleRequest& request = case_.requests[index];
  events_.emplace_back(RequestArrived{{.id = RequestId{static_cast<std::uint32_t>(index)},
                                       .arrival = AtMicroseconds(request.arrival_us),
                                       .prompt_tokens = request.prompt_tokens,
                                       .max_output_tokens = request.max_output_tokens,
                                       .priority = request.priority}});
}

void BatchTimeWorld::Launch(const StepPlan& plan) {
  const auto size = static_cast<std::int64_t>(plan.work.size());
  const microseconds takes(case_.batch_time->base_us + case_.batch_time->per_request_us * size);
  RunningBatch batch{&plan, now_, now_ + takes, {}};
  nlohmann::ordered_json ids = nlohmann::ordered_json::array();
  for (const WorkItem& item : plan.work) {
    batch.outcomes.push_back({item.request, 1, FinishReason::kLength});
    ids.push_back(Index(item.request));
  }
  batches_.push_back({{"t_us", MicrosecondsOf(now_)},
                      {"ids", std::move(ids)},
                      {"end_us", MicrosecondsOf(batch.ends)}});
  running_.push_back(std::move(batch));
}

void BatchTimeWorld::OnPlanned(const Policy& policy) {
  for (const Gauge& gauge : policy.Gauges()) {
    if (gauge.name != kBatchReasonGauge) continue;
    const auto reason = static_cast<BatchReason>(static_cast<int>(gauge.value));
    batches_.back()["reason"] = BatchReasonName(reason);
  }
}

}  // namespace twin::run
