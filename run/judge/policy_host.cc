#include "run/judge/policy_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <utility>
#include <variant>

#include "core/printable.h"
#include "run/judge/judged_traits.h"
#include "run/judge/repeated_calls.h"
#include "sched/step_builder.h"

namespace twin::run {
namespace {

HostCommand& GivenCommand() {
  static HostCommand command;
  return command;
}

// Found where it is needed: a policy's own process does not see /proc.
HostCommand Command() {
  if (!GivenCommand().program.empty()) return GivenCommand();
  return {.program = std::filesystem::read_symlink("/proc/self/exe").string(),
          .arguments = {"twinserve", "judge", "--host"}};
}

}  // namespace

void SetHostCommand(HostCommand command) { GivenCommand() = std::move(command); }

// Collects the events of a run for the policy's process. Step ids are the judge's engine's.
class PolicyHost::Tap final : public RunObserver {
 public:
  Tap(const RunDisguise& disguise, bool passes_keys)
      : disguise_(disguise), passes_keys_(passes_keys) {}

  void OnInstant(const Instant& instant) override {
    now_ = instant.now;
    for (const Event& event : instant.events) {
      if (const auto* finished = std::get_if<StepFinished>(&event)) PutFinished(*finished);
      if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
        events_.Put(HostEvent::kCancelled);
        events_.Put(Shifted(cancelled->request));
      }
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& /*plan*/) override {}

  // The engine shows the request to its policy. Arrivals come last in an instant.
  void PutArrival(const Sequence& s) {
    events_.Put(HostEvent::kArrived);
    Request request{.id = Shifted(s.id),
                    .arrival = s.arrival,
                    .prompt_tokens = s.prompt_tokens,
                    .max_output_tokens = s.max_output_tokens,
                    .priority = s.priority,
                    .tenant = s.tenant,
                    .ignore_eos = s.ignore_eos,
                    .predicted_output_tokens = s.predicted_output_tokens};
    events_.Put(request);
    keys_.clear();
    if (passes_keys_) keys_.assign(s.keys.begin(), s.keys.end());
    for (BlockKey& key : keys_) key = Disguised(key);
    events_.PutList(std::span<const BlockKey>(keys_));
  }

  // A step that the policy's process planned under the second id.
  void Launched(StepId here, StepId there) { steps_[here] = there; }

  [[nodiscard]] const MessageWriter& events() const { return events_; }
  void Clear() { events_.Clear(); }
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] const RunDisguise& disguise() const { return disguise_; }

 private:
  [[nodiscard]] RequestId Shifted(RequestId id) const {
    return RequestId{Index(id) + disguise_.id_shift};
  }
  // Equal keys stay equal, and private ones private.
  [[nodiscard]] BlockKey Disguised(BlockKey key) const {
    const std::uint64_t hash = KeyedHash(disguise_.keys, static_cast<std::uint64_t>(key));
    return IsPrivate(key) ? PrivateKey(hash) : SharedKey(hash);
  }

  void PutFinished(const StepFinished& finished) {
    const auto step = steps_.find(finished.step);
    if (step == steps_.end()) return;  // it holds rejections of the engine alone
    events_.Put(HostEvent::kStepFinished);
    events_.Put(step->second);
    events_.Put(Nanoseconds(finished.started));
    steps_.erase(step);
    outcomes_.assign(finished.outcomes.begin(), finished.outcomes.end());
    for (ItemOutcome& outcome : outcomes_) outcome.request = Shifted(outcome.request);
    events_.PutList(std::span<const ItemOutcome>(outcomes_));
    filled_.clear();
    if (passes_keys_) filled_.assign(finished.filled.begin(), finished.filled.end());
    for (BlockFilled& filled : filled_) {
      filled = {Shifted(filled.request), Disguised(filled.key)};
    }
    events_.PutList(std::span<const BlockFilled>(filled_));
  }

  RunDisguise disguise_;
  bool passes_keys_;
  TimePoint now_ = kTimeZero;
  MessageWriter events_;
  std::map<StepId, StepId> steps_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<BlockKey> keys_;
};

// Asks the policy's process for each step and repeats its calls.
class PolicyHost::RemotePolicy final : public Policy {
 public:
  RemotePolicy(PolicyHost& host, Tap& tap)
      : host_(host), tap_(tap), repeated_(tap.disguise().id_shift) {}
  ~RemotePolicy() override { host_.in_run_ = false; }

  [[nodiscard]] const PolicyTraits& traits() const override { return host_.traits(); }
  void Enqueue(const Sequence& sequence) override {
    repeated_.Enqueue(sequence.id);
    tap_.PutArrival(sequence);
  }
  void Remove(const Sequence& sequence) override { repeated_.Remove(sequence.id); }
  void Idle() override {
    if (!tap_.events().empty()) Ask(tap_.now());
  }
  void Plan(StepBuilder& step) override {
    const PlanAnswer answer = Ask(step.now());
    wake_at_ = TimePoint(Duration(answer.wake_at));
    // A plan that holds rejections of the engine alone has no counterpart.
    if (answer.has_plan) tap_.Launched(step.plan().id, StepId{++steps_});
    try {
      repeated_.Repeat(calls_, step);
      if (step.pool().free() != answer.free_blocks) throw ImpossibleCall();
    } catch (const ImpossibleCall& call) {
      host_.Fail(FailureKind::kEnded, call.what());
    }
  }
  [[nodiscard]] TimePoint WakeAt() const override { return wake_at_; }

 private:
  PlanAnswer Ask(TimePoint now) {
    MessageWriter message;
    message.Put(HostMessage::kPlan);
    message.Put(Nanoseconds(now));
    message.Append(tap_.events());
    tap_.Clear();
    MessageReader reader = host_.Exchange(message, HostMessage::kPlanned);
    PlanAnswer answer;
    try {
      answer = GetAnswer(reader);
      GetCalls(reader, calls_);
      reader.End();
    } catch (const BadMessage& error) {
      host_.Fail(FailureKind::kEnded, error.what());
    }
    const double planning_s = 1e-9 * static_cast<double>(answer.planning_ns);
    host_.planning_s_.push_back(planning_s);
    host_.planned_s_ += planning_s;
    return answer;
  }

  PolicyHost& host_;
  Tap& tap_;
  RepeatedCalls repeated_;
  StepCalls calls_;
  std::uint64_t steps_ = 0;
  TimePoint wake_at_ = kTimeNever;
};

PolicyHost::PolicyHost(const PolicyFile& file, const HostOptions& options)
    : options_(options),
      process_(Command().program, Command().arguments, options.limits),
      pipe_(process_.from(), process_.to()),
      policy_(std::make_shared<OwnPolicy>()) {
  MessageWriter message;
  message.Put(HostMessage::kLoad);
  PutFile(message, file);
  MessageReader answer = Exchange(message, HostMessage::kTraits);
  try {
    policy_->traits = GetTraits(answer, texts_);
  } catch (const BadMessage& error) {
    Fail(FailureKind::kRefused, error.what());
  }
  policy_->name = policy_->traits.name;
  policy_->make = [this](const KvPoolConfig& kv) -> std::unique_ptr<Policy> {
    if (in_run_ || tap_ == nullptr) {
      throw PolicyFailure("the judge serves one engine at a time; allowed: one replica");
    }
    MessageWriter begin;
    begin.Put(HostMessage::kBegin);
    begin.Put(in_child_);
    begin.Put(kv);
    (void)Exchange(begin, HostMessage::kReady);
    began_ = in_run_ = true;
    return std::make_unique<RemotePolicy>(*this, *tap_);
  };
}

PolicyHost::~PolicyHost() = default;

RunObserver& PolicyHost::BeginRun(const RunDisguise& disguise, bool in_child) {
  if (began_) {
    MessageWriter end;
    end.Put(HostMessage::kEnd);
    (void)Exchange(end, HostMessage::kReady);
  }
  began_ = in_run_ = false;
  in_child_ = in_child;
  tap_ = std::make_unique<Tap>(disguise, traits().caches_prefixes);
  return *tap_;
}

void PolicyHost::Fail(FailureKind kind, const std::string& text) {
  process_.Kill();
  throw CandidateFailure(kind, Printable(text, kMessageBytesMax));
}

void PolicyHost::FailAsEnded() {
  const int status = process_.Wait();
  Fail(UsedUpCpu(status) ? FailureKind::kTooSlow : FailureKind::kEnded,
       "its process " + EndingText(status, options_.limits));
}

MessageReader PolicyHost::Exchange(const MessageWriter& message, HostMessage expected) {
  if (!pipe_.Send(message.bytes())) {
    FailAsEnded();
  }
  try {
    const auto bytes = pipe_.Receive(options_.patience_s);
    if (!bytes && pipe_.timed_out()) {
      Fail(FailureKind::kTooSlow, fmt::format("gave no answer within {} s", options_.patience_s));
    }
    if (!bytes) FailAsEnded();
    MessageReader answer(*bytes);
    const auto kind = answer.Get<HostMessage>();
    if (kind == expected) return answer;
    if (kind != HostMessage::kFailure) throw BadMessage();
    const auto failure = answer.Get<FailureKind>();
    Fail(std::min(failure, FailureKind::kEnded), answer.GetText());
  } catch (const BadMessage& error) {
    Fail(FailureKind::kEnded, error.what());
  }
}

}  // namespace twin::run
