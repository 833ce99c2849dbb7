#include "exec/grid_backend.h"

#include <exception>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/check.h"
#include "exec/comm/message.h"
#include "sched/step_plan.h"

namespace twin::exec {
namespace {

// The sizes of a plan's members. A new member changes the sum and has to be sent as well.
constexpr std::size_t kLists = 9;
constexpr std::size_t kNumbers = 8;  // 7, and a flag with the space after it
static_assert(sizeof(StepPlan) == sizeof(StepId) + kLists * sizeof(std::vector<int>) +
                                      sizeof(StepTotals) + kNumbers * sizeof(std::int32_t));

// Calls list(l) for every list of a plan and value(v) for everything else.
template <class Plan, class ListAction, class ValueAction>
void ForEachMember(Plan& plan, const ListAction& list, const ValueAction& value) {
  value(plan.id);
  value(plan.replica);
  value(plan.repeats);
  list(plan.kv);
  list(plan.work);
  list(plan.preempted);
  list(plan.admitted);
  list(plan.resumed);
  list(plan.released);
  list(plan.padding_rows);
  list(plan.rejected);
  list(plan.hits);
  value(plan.totals);
  value(plan.free_blocks_before);
  value(plan.free_blocks);
  value(plan.free_host_blocks);
  value(plan.waiting);
  value(plan.running);
  value(plan.swapped);
}

void PutPlan(const StepPlan& plan, MessageWriter& message) {
  ForEachMember(
      plan, [&](const auto& list) { message.PutList(list); },
      [&](const auto& value) { message.Put(value); });
}

// Replaces the plan's content, keeps its memory.
void TakePlan(MessageReader& message, StepPlan& plan) {
  ForEachMember(
      plan, [&](auto& list) { message.GetList(list); },
      [&](auto& value) { value = message.Get<std::decay_t<decltype(value)>>(); });
}

enum class CommandKind : std::uint8_t { kBegin, kOpen, kClose, kStep, kCollect, kEnd };

// The state that a follower keeps between commands. Prompts and plans are part of their command.
struct Follower {
  std::optional<RankExecutor> executor;
  StepPlan plan;
  std::vector<std::int32_t> prompt;
};

// False if the command was the last one.
bool CarryOut(DeviceModel& model, MessageReader& command, Follower& follower) {
  switch (command.Get<CommandKind>()) {
    case CommandKind::kBegin:
      follower.executor.emplace(model, command.Get<RankExecutorConfig>());
      break;
    case CommandKind::kOpen: {
      const auto id = command.Get<RequestId>();
      const auto sampling = command.Get<kernels::SamplingParameters>();
      command.GetList(follower.prompt);
      follower.executor->Open(id, follower.prompt, sampling);
      break;
    }
    case CommandKind::kClose:
      follower.executor->Close(command.Get<RequestId>());
      break;
    case CommandKind::kStep:
      TakePlan(command, follower.plan);
      follower.executor->Execute(follower.plan);
      break;
    case CommandKind::kCollect:
      follower.executor->Collect();
      break;
    case CommandKind::kEnd:
      return false;
  }
  command.End();
  return true;
}

}  // namespace

GridBackend::GridBackend(DeviceModel& model, Communicator& world, const RankExecutorConfig& config)
    : world_(world),
      first_stage_ranks_(model.links().place.grid.tensor),
      exceptions_(std::uncaught_exceptions()) {
  CHECK(world.rank() == 0 && world.size() == model.links().place.grid.devices());
  command_.Put(CommandKind::kBegin);
  command_.Put(config);
  SendToRanks(world_.size());
  // The ranks of a stage may have to make their executors at the same time.
  executor_.emplace(model, config);
}

GridBackend::~GridBackend() {
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    command_.Put(CommandKind::kEnd);
    SendToRanks(world_.size());
  } catch (const CommunicationError&) {
    // The other ranks have ended already; whoever waits for them reports why.
  }
}

void GridBackend::SendToRanks(std::int32_t ranks) {
  for (std::int32_t rank = 1; rank < ranks; ++rank) SendSized(world_, command_.bytes(), rank);
  command_.Clear();
}

void GridBackend::Open(RequestId id, std::span<const std::int32_t> prompt,
                       const kernels::SamplingParameters& sampling) {
  command_.Put(CommandKind::kOpen);
  command_.Put(id);
  command_.Put(sampling);
  command_.PutList(prompt);
  SendToRanks(world_.size());
  executor_->Open(id, prompt, sampling);
}

void GridBackend::Close(RequestId id) {
  command_.Put(CommandKind::kClose);
  command_.Put(id);
  SendToRanks(world_.size());
  executor_->Close(id);
}

void GridBackend::Launch(const StepPlan& plan) {
  command_.Put(CommandKind::kStep);
  PutPlan(plan, command_);
  SendToRanks(world_.size());
  executor_->Execute(plan);
}

ComputedStep GridBackend::Collect() {
  command_.Put(CommandKind::kCollect);
  SendToRanks(first_stage_ranks_);
  const StepResult& step = executor_->Collect();
  return {.sampled = step.sampled,
          .started = step.started,
          .finished = step.finished,
          .parts = step.parts,
          .logits = step.rows,
          .logprobs = step.logprobs};
}

void Follow(DeviceModel& model, Communicator& world) {
  Follower follower;
  std::vector<std::byte> bytes;
  for (bool more = true; more;) {
    ReceiveSized(world, 0, Patience::kUnbounded, bytes);
    MessageReader command(bytes);
    more = CarryOut(model, command, follower);
  }
}

}  // namespace twin::exec
