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

void BackendWorker::Open(RequestId id, std::vector<std::int32_t> prompt) {
  Send(OpenCommand{id, std::move(prompt)});
}

void BackendWorker::Close(RequestId id) { Send(CloseCommand{id}); }

void BackendWorker::Launch(const StepPlan& plan) { Send(&plan); }

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
    std::int64_t launched = 0;
    std::chrono::microseconds patience = kIdle;
    while (TakeCommands(patience, taken)) {
      for (const Command& command : taken) {
        if (const auto* open = std::get_if<OpenCommand>(&command)) {
          backend_.Open(open->id, open->prompt, {});
        } else if (const auto* close = std::get_if<CloseCommand>(&command)) {
          backend_.Close(close->id);
        } else {
          backend_.Launch(*std::get<const StepPlan*>(command));
          ++launched;
        }
      }
      taken.clear();
      patience = kIdle;
      if (launched == 0) continue;
      // Others are at work: a step that is planned meanwhile can be launched.
      patience = backend_.RestBetweenQuestions();
      if (!backend_.Collectable()) continue;
      Deliver(backend_.Collect());
      patience = --launched == 0 ? kIdle : kNone;
    }
  } catch (...) {
    inbox_.Fail(std::current_exception());
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
                  .drafts = {step.drafts.begin(), step.drafts.end()}});
}

}  // namespace twin::exec
