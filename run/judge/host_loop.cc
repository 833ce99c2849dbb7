#include "run/judge/host_loop.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/input_error.h"
#include "run/judge/host_messages.h"
#include "run/judge/judged_traits.h"
#include "run/judge/message_pipe.h"
#include "run/judge/sandbox.h"
#include "sched/engine.h"
#include "sched/invariant.h"
#include "sched/policy/own_policy.h"

namespace twin::run {
namespace {

// Records the calls with which a policy builds its steps.
class RecordedPolicy final : public Policy {
 public:
  RecordedPolicy(std::unique_ptr<Policy> inner, StepCalls& calls)
      : inner_(std::move(inner)), calls_(calls) {}

  [[nodiscard]] const PolicyTraits& traits() const override { return inner_->traits(); }
  void Enqueue(const Sequence& sequence) override { inner_->Enqueue(sequence); }
  void Remove(const Sequence& sequence) override { inner_->Remove(sequence); }
  void StepReturned(const StepPlan& plan) override { inner_->StepReturned(plan); }
  void Idle() override { inner_->Idle(); }
  void Plan(StepBuilder& step) override {
    step.Record(calls_);
    inner_->Plan(step);
  }
  // No decode streaks: the judge's engine asks for every step.
  [[nodiscard]] bool WantsAnotherCall() const override { return inner_->WantsAnotherCall(); }
  [[nodiscard]] TimePoint WakeAt() const override { return inner_->WakeAt(); }

 private:
  std::unique_ptr<Policy> inner_;
  StepCalls& calls_;
};

void SendFailure(MessagePipe& pipe, FailureKind kind, const std::string& text) {
  MessageWriter answer;
  answer.Put(HostMessage::kFailure);
  answer.Put(kind);
  answer.PutText(text);
  pipe.Send(answer.bytes());
}

void SendReady(MessagePipe& pipe) {
  MessageWriter answer;
  answer.Put(HostMessage::kReady);
  pipe.Send(answer.bytes());
}

// Calls work() and reports what it throws; false if it threw.
template <class Work>
bool Report(MessagePipe& pipe, Work work) {
  try {
    work();
    return true;
  } catch (const InvariantViolation& error) {
    SendFailure(pipe, FailureKind::kInvariant, error.what());
  } catch (const InputError& error) {
    SendFailure(pipe, FailureKind::kRefused, error.what());
  } catch (const std::bad_alloc&) {
    SendFailure(pipe, FailureKind::kException, "ran out of memory");
  } catch (const std::exception& error) {
    SendFailure(pipe, FailureKind::kException, error.what());
  }
  return false;
}

// One run of the policy.
class Session {
 public:
  Session(const OwnPolicy& policy, const KvPoolConfig& kv)
      : engine_({.kv = kv}, std::make_unique<RecordedPolicy>(policy.make(kv), calls_)) {}

  // Handles the events of the message and plans.
  void Plan(MessageReader& message, MessageWriter& answer) {
    const TimePoint now{Duration(message.Get<std::int64_t>())};
    const auto begin = std::chrono::steady_clock::now();
    while (!message.empty()) HandleEvent(message);
    calls_.Clear();
    const StepPlan* const plan = engine_.PlanStep(now);
    const auto end = std::chrono::steady_clock::now();
    if (plan != nullptr && !plan->padding_rows.empty()) {
      throw std::runtime_error(
          "pads batches with finished requests, which the judge cannot follow");
    }
    answer.Put(HostMessage::kPlanned);
    PutAnswer(
        answer,
        {.has_plan = plan != nullptr,
         .wake_at = Nanoseconds(engine_.wake_at()),
         .planning_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count(),
         .free_blocks = engine_.pool().free()});
    PutCalls(answer, calls_);
  }

 private:
  void HandleEvent(MessageReader& message) {
    switch (message.Get<HostEvent>()) {
      case HostEvent::kStepFinished: {
        StepFinished finished;
        finished.step = message.Get<StepId>();
        finished.started = TimePoint(Duration(message.Get<std::int64_t>()));
        message.GetList(outcomes_);
        message.GetList(filled_);
        finished.outcomes = outcomes_;
        finished.filled = filled_;
        return engine_.Handle(finished);
      }
      case HostEvent::kCancelled:
        return engine_.Handle(RequestCancelled{message.Get<RequestId>()});
      case HostEvent::kArrived: {
        auto arrived = RequestArrived{message.Get<Request>()};
        message.GetList(keys_);
        arrived.request.prefix_keys = keys_;
        return engine_.Handle(arrived);
      }
    }
    throw BadMessage();
  }

  StepCalls calls_;
  Engine engine_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<BlockKey> keys_;
};

constexpr double kForever = std::numeric_limits<double>::infinity();

// Serves one run. False at the end of the stream.
bool ServeSession(const OwnPolicy& policy, const KvPoolConfig& kv, MessagePipe& pipe) {
  std::optional<Session> session;
  if (!Report(pipe, [&] { session.emplace(policy, kv); })) return true;
  SendReady(pipe);
  MessageWriter answer;
  while (const auto bytes = pipe.Receive(kForever)) {
    MessageReader message(*bytes);
    if (message.Get<HostMessage>() == HostMessage::kEnd) {
      session.reset();
      SendReady(pipe);
      return true;
    }
    answer.Clear();
    if (!Report(pipe, [&] { session->Plan(message, answer); })) return true;
    pipe.Send(answer.bytes());
  }
  return false;
}

// Serves one run in a child, so that this process stays as it was after loading.
bool ServeInChild(const OwnPolicy& policy, const KvPoolConfig& kv, MessagePipe& pipe) {
  const SandboxLimits limits;
  const pid_t child = policy.fork ? policy.fork() : fork();
  if (child < 0) {
    SendFailure(pipe, FailureKind::kEnded, "no process could be made for a run");
    return true;
  }
  if (child == 0) {
    LimitToOneProcess(limits);
    _exit(ServeSession(policy, kv, pipe) ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1) return false;
  SendFailure(pipe, UsedUpCpu(status) ? FailureKind::kTooSlow : FailureKind::kEnded,
              "its process " + EndingText(status, limits));
  return true;
}

}  // namespace

void HostPolicy(int in, int out) {
  MessagePipe pipe(in, out);
  std::shared_ptr<const OwnPolicy> policy;
  while (const auto bytes = pipe.Receive(kForever)) {
    MessageReader message(*bytes);
    const auto kind = message.Get<HostMessage>();
    if (kind == HostMessage::kLoad) {
      Report(pipe, [&] {
        policy = LoadPolicy(GetFile(message));
        MessageWriter answer;
        answer.Put(HostMessage::kTraits);
        PutTraits(answer, policy->traits);
        pipe.Send(answer.bytes());
      });
    } else if (kind == HostMessage::kBegin && policy != nullptr) {
      const bool in_child = message.Get<bool>();
      const auto kv = message.Get<KvPoolConfig>();
      if (!(in_child ? ServeInChild(*policy, kv, pipe) : ServeSession(*policy, kv, pipe))) return;
    }
    // Messages of a run that has failed are left over: they have no answer.
  }
}

}  // namespace twin::run
