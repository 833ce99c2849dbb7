#include "exec/grid_backend.h"

#include <exception>
#include <optional>
#include <vector>

#include "core/check.h"
#include "exec/plan_message.h"

namespace twin::exec {
namespace {

enum class CommandKind : std::uint8_t { kBegin, kOpen, kClose, kStep, kCollect, kEnd };

// Prompts and plans come with their command; what a follower keeps between two is in here.
struct Follower {
  std::optional<RankExecutor> executor;
  StepPlan plan;
  std::vector<std::int32_t> prompt;
};

// False: the last command.
bool CarryOut(DeviceModel& model, MessageReader& command, Follower& follower) {
  switch (command.Take<CommandKind>()) {
    case CommandKind::kBegin:
      follower.executor.emplace(model, command.Take<RankExecutorConfig>());
      break;
    case CommandKind::kOpen: {
      const auto id = command.Take<RequestId>();
      const auto sampling = command.Take<kernels::SamplingParameters>();
      command.TakeList(follower.prompt);
      follower.executor->Open(id, follower.prompt, sampling);
      break;
    }
    case CommandKind::kClose:
      follower.executor->Close(command.Take<RequestId>());
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
  CHECK(command.done());
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
  TellAll(world_.size());
  // Making an executor may take all ranks at once: those of a stage compute together.
  executor_.emplace(model, config);
}

GridBackend::~GridBackend() {
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    command_.Put(CommandKind::kEnd);
    TellAll(world_.size());
  } catch (const CommunicationError&) {
    // They have ended already: whoever waits for them will say why.
  }
}

void GridBackend::TellAll(std::int32_t ranks) {
  for (std::int32_t rank = 1; rank < ranks; ++rank) SendSized(world_, command_.bytes(), rank);
  command_.Clear();
}

void GridBackend::Open(RequestId id, std::span<const std::int32_t> prompt,
                       const kernels::SamplingParameters& sampling) {
  command_.Put(CommandKind::kOpen);
  command_.Put(id);
  command_.Put(sampling);
  command_.PutList(prompt);
  TellAll(world_.size());
  executor_->Open(id, prompt, sampling);
}

void GridBackend::Close(RequestId id) {
  command_.Put(CommandKind::kClose);
  command_.Put(id);
  TellAll(world_.size());
  executor_->Close(id);
}

void GridBackend::Launch(const StepPlan& plan) {
  command_.Put(CommandKind::kStep);
  PutPlan(plan, command_);
  TellAll(world_.size());
  executor_->Execute(plan);
}

ComputedStep GridBackend::Collect() {
  command_.Put(CommandKind::kCollect);
  TellAll(first_stage_ranks_);
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
