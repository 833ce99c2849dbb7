#include "run/judge/host_loop.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/input_error.h"
#include "run/judge/host_messages.h"
#include "run/judge/judged_traits.h"
#include "run/judge/message_pipe.h"
#include "run/judge/sandbox_inside.h"
#include "run/judge/system_calls.h"
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

std::unique_ptr<Policy> MakeAsPromised(const OwnPolicy& policy, const KvPoolConfig& kv) {
  std::unique_ptr<Policy> made = policy.make(kv);
  PolicyTraits traits = made->traits();
  traits.name = policy.traits.name;
  if (traits != policy.traits) throw InputError(InputError::Kind::kUsage, "", kTraitsChange);
  return made;
}

// One run of the policy.
class Session {
 public:
  Session(const OwnPolicy& policy, const KvPoolConfig& kv)
      : engine_({.kv = kv}, std::make_unique<RecordedPolicy>(MakeAsPromised(policy, kv), calls_)) {}

  // Handles the events of the message and plans.
  void Plan(MessageReader& message, MessageWriter& answer) {
    const TimePoint now{Duration(message.Get<std::int64_t>())};
    while (!message.empty()) HandleEvent(message);
    calls_.Clear();
    const StepPlan* const plan = engine_.PlanStep(now);
    if (plan != nullptr && !plan->padding_rows.empty()) {
      throw std::runtime_error(
          "pads batches with finished requests, which the judge cannot follow");
    }
    answer.Put(HostMessage::kPlanned);
    PutAnswer(answer, {.has_plan = plan != nullptr,
                       .wake_at = Nanoseconds(engine_.wake_at()),
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

// Instead of the answer for which the judge waits. Calls nothing that a signal handler may not.
void RefuseCall(const char* call) {
  constexpr std::string_view kWhat = "made a system call that policies may not make: ";
  const std::string_view name = call;
  std::array<char, 128> message{};
  std::size_t bytes = sizeof(std::uint32_t);
  const auto put = [&](const void* from, std::size_t size) {
    std::memcpy(message.data() + bytes, from, size);
    bytes += size;
  };
  constexpr auto kMessage = HostMessage::kFailure;
  constexpr auto kKind = FailureKind::kEnded;
  const auto length = static_cast<MessageCount>(kWhat.size() + name.size());
  put(&kMessage, sizeof kMessage);
  put(&kKind, sizeof kKind);
  put(&length, sizeof length);
  put(kWhat.data(), kWhat.size());
  put(name.data(), name.size());
  const auto rest = static_cast<std::uint32_t>(bytes - sizeof(std::uint32_t));
  std::memcpy(message.data(), &rest, sizeof rest);
  (void)!write(kSandboxOut, message.data(), bytes);
  _exit(1);
}

// Answers the judge in a process of the sandbox.
class Host {
 public:
  Host() : pipe_(kSandboxIn, kSandboxOut) {}

  // Up to the end of the stream, or a failure.
  void Serve() {
    MessageWriter hello;
    hello.Put(HostMessage::kHello);
    hello.Put(FilterSystemCalls(&RefuseCall));
    pipe_.Send(hello.bytes());
    while (const auto bytes = pipe_.Receive(kForever)) {
      MessageReader message(*bytes);
      answer_.Clear();
      if (!Report(pipe_, [&] { Answer(message); })) return;
      pipe_.Send(answer_.bytes());
    }
  }

 private:
  void Answer(MessageReader& message) {
    switch (message.Get<HostMessage>()) {
      case HostMessage::kPing:
        return answer_.Put(HostMessage::kReady);
      case HostMessage::kLoad:
        policy_ = LoadPolicy(GetFile(message));
        answer_.Put(HostMessage::kTraits);
        return PutTraits(answer_, policy_->traits);
      case HostMessage::kBegin:
        session_.reset();
        session_.emplace(*policy_, message.Get<KvPoolConfig>());
        return answer_.Put(HostMessage::kReady);
      case HostMessage::kPlan:
        return session_->Plan(message, answer_);
      default:
        throw BadMessage();
    }
  }

  MessagePipe pipe_;
  MessageWriter answer_;
  std::shared_ptr<const OwnPolicy> policy_;
  std::optional<Session> session_;
};

// Empty, or why the policy cannot be prepared.
std::string Prepare(MessageReader& message) {
  try {
    PreparePolicy(GetFile(message));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The status of a process, which is killed unless it ends by itself within moments.
int StatusOf(pid_t process, bool ends) {
  constexpr int kPolls = 200;
  constexpr int kPollMicroseconds = 1000;
  int status = 0;
  for (int i = 0; ends && i < kPolls; ++i) {
    if (waitpid(process, &status, WNOHANG) == process) return status;
    usleep(kPollMicroseconds);
  }
  kill(process, SIGKILL);
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// The new process; does not return in it. The judge learns of a failure.
pid_t StartProcess(SandboxControl& control, MessageReader& message) {
  const auto limits = message.Get<SandboxLimits>();
  const std::string folder = message.GetText();
  ForgetProcessNumbers();
  const pid_t process = ForkForPolicy();
  if (process == 0) {
    EnterSandbox(control, limits, folder);
    Host().Serve();
    _exit(0);
  }
  control.CloseDescriptors();
  constexpr auto kFailed = SandboxMessage::kStop;
  if (process < 0) control.Send(std::as_bytes(std::span(&kFailed, 1)));
  return process;
}

}  // namespace

void HostPolicies() {
  prctl(PR_SET_DUMPABLE, 0);  // the processes must not see into this one
  SandboxControl control(kSandboxControl);
  pid_t process = -1;
  while (control.Receive()) {
    MessageReader message(control.message());
    MessageWriter answer;
    switch (message.Get<SandboxMessage>()) {
      case SandboxMessage::kPrepare:
        answer.PutText(Prepare(message));
        break;
      case SandboxMessage::kStart:
        process = StartProcess(control, message);
        continue;
      case SandboxMessage::kStop:
        answer.Put(StatusOf(process, message.Get<bool>()));
        break;
      case SandboxMessage::kStarted:
        return;
    }
    control.Send(answer.bytes());
  }
}

}  // namespace twin::run
