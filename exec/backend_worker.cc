#include "exec/backend_worker.h"

#include <utility>

namespace twin::exec {
namespace {

constexpr std::chrono::microseconds kNone{0};
constexpr std::chrono::microseconds kIdle = std::chrono::microseconds::max();  // for ever

}  // namespace

BackendWorker::BackendWorker(Backend& backend, StepInbox& inbox, std::int32_t replica)
    : backend_(backend), inbox_(inbox), replica_(replica), thread_([this] { Work(); }) {}

BackendWorker::~BackendWorker() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  commanded_.notify_one();
  thread_.join();
}

void BackendWorker::Open(RequestId id, std::vector<std::int32_t> prompt,
                         const kernels::SamplingParameters& sampling) {
  Send(OpenCommand{id, std::move(prompt), sampling});
}

void BackendWorker::Close(RequestId id) { Send(CloseCommand{id}); }

void BackendWorker::Launch(const StepPlan& plan) { Send(&plan); }

void BackendWorker::Transfer(BlockTransfer transfer) { Send(std::move(transfer)); }

void BackendWorker::Send(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  commanded_.notify_one();
}

void BackendWorker::Work() {
  try {
    std::vector<Command> taken;
    std::chrono::microseconds patience = kIdle;
    while (TakeCommands(patience, taken)) {
      for (Command& command : taken) Execute(command);
      taken.clear();
      CopyDue();
      patience = kIdle;
      if (launched_ == collected_) continue;
      // The device or other ranks compute: a step that is planned meanwhile can be launched.
      patience = backend_.RestBetweenQuestions();
      if (!backend_.Collectable()) continue;
      Deliver(backend_.Collect());
      ++collected_;
      CopyDue();
      patience = launched_ == collected_ ? kIdle : kNone;
    }
  } catch (...) {
    inbox_.Fail(std::current_exception());
  }
}

void BackendWorker::Execute(Command& command) {
  if (const auto* open = std::get_if<OpenCommand>(&command)) {
    backend_.Open(open->id, open->prompt, open->sampling);
  } else if (const auto* close = std::get_if<CloseCommand>(&command)) {
    backend_.Close(close->id);
  } else if (auto* const transfer = std::get_if<BlockTransfer>(&command)) {
    transfers_.PushBack({std::move(*transfer), launched_});
  } else {
    backend_.Launch(*std::get<const StepPlan*>(command));
    ++launched_;
  }
}

void BackendWorker::CopyDue() {
  while (!transfers_.empty() && transfers_.front().after_steps <= collected_) {
    const BlockTransfer transfer = transfers_.PopFront().transfer;
    const auto started = StepInbox::Clock::now();
    backend_.CopyBlocks(*transfer.source, transfer.copies);
    inbox_.Deliver(ReturnedTransfer{transfer.request, transfer.from, replica_, started});
  }
}

bool BackendWorker::TakeCommands(std::chrono::microseconds patience, std::vector<Command>& taken) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return closing_ || !commands_.empty(); };
  if (patience == kIdle) {
    commanded_.wait(lock, has_news);
  } else {
    commanded_.wait_for(lock, patience, has_news);
  }
  taken.swap(commands_);
  return !closing_;
}

void BackendWorker::Deliver(const ComputedStep& step) {
  inbox_.Deliver({.replica = replica_,
                  .sampled = {step.sampled.begin(), step.sampled.end()},
                  .started = step.started,
                  .finished = step.finished,
                  .parts = step.parts,
                  .drafts = {step.drafts.begin(), step.drafts.end()},
                  .logprobs = {step.logprobs.begin(), step.logprobs.end()}});
}

}  // namespace twin::exec
