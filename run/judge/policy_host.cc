#include "run/judge/policy_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <unordered_set>
#include <utility>
#include <variant>

#include "core/printable.h"
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

constexpr const char* kLost =
    "the policy's process and the judge no longer agree on the state of the KV cache";

}  // namespace

void SetHostCommand(HostCommand command) { GivenCommand() = std::move(command); }

// Collects the events of a run for the policy's process. Step ids are the judge's engine's.
class PolicyHost::Tap final : public RunObserver {
 public:
  Tap(std::uint32_t id_shift, bool passes_keys) : id_shift_(id_shift), passes_keys_(passes_keys) {}

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
    events_.PutList(passes_keys_ ? std::span<const BlockKey>(s.keys) : std::span<const BlockKey>());
  }

  // A step that the policy's process planned under the second id.
  void Launched(StepId here, StepId there) { steps_[here] = there; }

  [[nodiscard]] const MessageWriter& events() const { return events_; }
  void Clear() { events_.Clear(); }
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] RequestId Shifted(RequestId id) const { return RequestId{Index(id) + id_shift_}; }
  [[nodiscard]] RequestId Unshifted(RequestId id) const { return RequestId{Index(id) - id_shift_}; }

 private:
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
    for (BlockFilled& filled : filled_) filled.request = Shifted(filled.request);
    events_.PutList(std::span<const BlockFilled>(filled_));
  }

  std::uint32_t id_shift_;
  bool passes_keys_;
  TimePoint now_ = kTimeZero;
  MessageWriter events_;
  std::map<StepId, StepId> steps_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
};

// Asks the policy's process for each step and repeats its calls.
class PolicyHost::RemotePolicy final : public Policy {
 public:
  RemotePolicy(PolicyHost& host, Tap& tap) : host_(host), tap_(tap) {}
  ~RemotePolicy() override { host_.in_run_ = false; }

  [[nodiscard]] const PolicyTraits& traits() const override { return host_.traits(); }
  void Enqueue(const Sequence& sequence) override {
    live_.insert(Index(sequence.id));
    tap_.PutArrival(sequence);
  }
  void Remove(const Sequence& sequence) override { live_.erase(Index(sequence.id)); }
  void Idle() override {
    if (!tap_.events().empty()) Ask(tap_.now());
  }
  void Plan(StepBuilder& step) override {
    const PlanAnswer answer = Ask(step.now());
    wake_at_ = TimePoint(Duration(answer.wake_at));
    // A plan that holds rejections of the engine alone has no counterpart.
    if (answer.has_plan) tap_.Launched(step.plan().id, StepId{++steps_});
    decodes_ = 0;
    for (const StepCall& call : calls_.calls) Repeat(step, call);
    if (step.pool().free() != answer.free_blocks) host_.Fail(FailureKind::kEnded, kLost);
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
    const auto answer = reader.Get<PlanAnswer>();
    GetCalls(reader, calls_);
    reader.End();
    const double planning_s = 1e-9 * static_cast<double>(answer.planning_ns);
    host_.planning_s_.push_back(planning_s);
    host_.planned_s_ += planning_s;
    return answer;
  }

  // Ends the run unless the call is one that the engine can answer. What the engine itself checks
  // throws InvariantViolation later.
  void Require(bool allowed) {
    if (!allowed) host_.Fail(FailureKind::kEnded, kLost);
  }

  const Sequence& Known(const StepBuilder& step, RequestId id) {
    Require(live_.contains(Index(id)));
    return step.sequence(id);
  }

  void Repeat(StepBuilder& step, const StepCall& call) {
    using Kind = StepCall::Kind;
    if (call.kind == Kind::kScheduleDecodes) return RepeatDecodes(step, call);
    const RequestId id = tap_.Unshifted(call.request);
    const Sequence& s = Known(step, id);
    const bool runs = s.state == SequenceState::kRunning;
    switch (call.kind) {
      case Kind::kAdmit:
        Require(s.state == SequenceState::kWaiting);
        return step.Admit(id);
      case Kind::kGrow:
        Require(runs && call.a > 0);
        return Require(step.Grow(id, call.a));
      case Kind::kReserve:
        Require(runs && call.a >= 0);
        return Require(step.Reserve(id, call.a));
      case Kind::kSchedule:
        Require(runs && (call.b == 0 || call.b >= call.a));
        return step.Schedule(id, call.a, call.b);
      case Kind::kUnschedule:
        Require(std::ranges::find(step.plan().work, id, &WorkItem::request) !=
                step.plan().work.end());
        return step.Unschedule(id);
      case Kind::kPreempt:
        Require(runs);
        return step.PreemptByRecompute(id);
      case Kind::kSwapOut:
        Require(runs && s.in_flight == 0);
        return Require(step.SwapOut(id));
      case Kind::kSwapIn:
        Require(s.state == SequenceState::kSwapped);
        return Require(step.SwapIn(id));
      case Kind::kReject:
        return RepeatReject(step, s, call);
      case Kind::kAttachPrefix:
        Require(runs && s.computed == 0 && s.blocks.held() == 0 && call.a >= 0 &&
                call.a <= step.LookupPrefix(id).blocks);
        return step.AttachPrefix(id, call.a);
      case Kind::kPublishPrefix:
        Require(runs && call.a >= 0 &&
                call.a <= std::min({s.computed, s.known, s.blocks.capacity_tokens}));
        return step.PublishPrefix(s, call.a);
      case Kind::kScheduleDecodes:
        break;
    }
  }

  void RepeatReject(StepBuilder& step, const Sequence& s, const StepCall& call) {
    const bool waits = s.state == SequenceState::kWaiting || s.state == SequenceState::kSwapped;
    Require(waits && s.blocks.held() == 0 && s.blocks.reserved_blocks == 0 && call.a >= 0 &&
            call.a <= static_cast<int>(RejectReason::kOverloaded));
    const RequestId id = s.id;
    live_.erase(Index(id));
    step.Reject(id, static_cast<RejectReason>(call.a));
  }

  void RepeatDecodes(StepBuilder& step, const StepCall& call) {
    const auto count = static_cast<std::size_t>(std::max(0, call.a));
    Require(count <= calls_.decodes.size() - decodes_);
    ids_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      ids_.push_back(tap_.Unshifted(calls_.decodes[decodes_++]));
      (void)Known(step, ids_.back());
    }
    const DecodeLimits limits{.computed_max = call.b, .free_blocks_min = call.c};
    Require(step.ScheduleDecodes(ids_, limits) == count);
  }

  PolicyHost& host_;
  Tap& tap_;
  std::unordered_set<std::uint32_t> live_;
  StepCalls calls_;
  std::size_t decodes_ = 0;
  std::vector<RequestId> ids_;
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
    policy_->traits = GetTraits(answer, names_);
  } catch (const BadMessage& error) {
    Fail(FailureKind::kRefused, error.what());
  }
  policy_->name = names_.name;
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

RunObserver& PolicyHost::BeginRun(std::uint32_t id_shift, bool in_child) {
  if (began_) {
    MessageWriter end;
    end.Put(HostMessage::kEnd);
    (void)Exchange(end, HostMessage::kReady);
  }
  began_ = in_run_ = false;
  in_child_ = in_child;
  tap_ = std::make_unique<Tap>(id_shift, traits().caches_prefixes);
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
