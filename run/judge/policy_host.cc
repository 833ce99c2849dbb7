#include "run/judge/policy_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <utility>
#include <variant>

#include "core/printable.h"
#include "core/statistics.h"
#include "run/judge/judged_traits.h"
#include "run/judge/repeated_calls.h"
#include "sched/step_builder.h"

namespace twin::run {
namespace {

HostCommand& GivenCommand() {
  static HostCommand command;
  return command;
}

HostCommand Command() {
  if (!GivenCommand().program.empty()) return GivenCommand();
  return {.program = std::filesystem::read_symlink("/proc/self/exe").string(),
          .arguments = {"twinserve", "judge", "--host"},
          .paths = {}};
}

// The files that the policy may read.
FileView ViewOf(const PolicyFile& file, const HostOptions& options) {
  const HostCommand command = Command();
  FileView view;
  view.ShowSystem();
  view.Show(command.program);
  for (const std::string& path : command.paths) view.Show(path);
  for (const std::string& path : options.paths) view.Show(path);
  for (const char* const name : {"PYTHONPATH", "LD_LIBRARY_PATH"}) {
    if (const char* const paths = std::getenv(name)) view.ShowList(paths);
  }
  if (!file.path.empty()) {
    view.ShowWithFolder(file.path);
  } else if (file.class_name) {
    view.Show(std::filesystem::current_path().string());  // where modules are looked for
  }
  return view;
}

constexpr const char* kNoValidMessage = "the policy's process sent no valid message";
// An answer that takes longer than its CPU time by less than this was on its way.
constexpr double kWaySeconds = 1e-3;

double SteadySeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
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
    message.Append(tap_.events().bytes());
    tap_.Clear();
    double planning_s = 0;
    MessageReader reader = host_.Measure(message, HostMessage::kPlanned, planning_s);
    PlanAnswer answer;
    try {
      answer = GetAnswer(reader);
      GetCalls(reader, calls_);
      reader.End();
    } catch (const BadMessage&) {
      host_.Fail(FailureKind::kEnded, kNoValidMessage);
    }
    host_.planning_s_.push_back(planning_s);
    host_.planned_s_ += planning_s;
    host_.planned_in_run_s_ += planning_s;
    if (host_.planned_in_run_s_ > host_.options_.planning_s) {
      host_.Fail(FailureKind::kTooSlow,
                 fmt::format("plans for more than {:g} s in one run", host_.options_.planning_s));
    }
    return answer;
  }

  PolicyHost& host_;
  Tap& tap_;
  RepeatedCalls repeated_;
  StepCalls calls_;
  std::uint64_t steps_ = 0;
  TimePoint wake_at_ = kTimeNever;
};

PolicyHost::PolicyHost(const PolicyFile& file, const HostOptions& options, bool waits)
    : options_(options),
      file_(file),
      sandbox_(Command().program, Command().arguments, ViewOf(file, options)),
      problem_(sandbox_.problem()),
      policy_(std::make_shared<OwnPolicy>()) {
  if (!waits) Load();
}

PolicyHost::~PolicyHost() = default;

void PolicyHost::Load() {
  MessageWriter message;
  message.Put(SandboxMessage::kPrepare);
  PutFile(message, file_);
  const auto answer = sandbox_.Ask(message.bytes());
  if (!answer) throw std::runtime_error("the program that hosts policies does not start");
  const std::string refusal = MessageReader(*answer).GetText();
  if (!refusal.empty()) Fail(FailureKind::kRefused, refusal);
  StartProcess();
  policy_->name = policy_->traits.name;
  policy_->make = [this](const KvPoolConfig& kv) -> std::unique_ptr<Policy> {
    if (in_run_ || tap_ == nullptr) {
      throw PolicyFailure("the judge serves one engine at a time; allowed: one replica");
    }
    MessageWriter begin;
    begin.Put(HostMessage::kBegin);
    begin.Put(kv);
    double begin_s = 0;
    (void)Measure(begin, HostMessage::kReady, begin_s);
    loaded_s_ += begin_s;
    planned_in_run_s_ = 0;
    began_ = in_run_ = true;
    return std::make_unique<RemotePolicy>(*this, *tap_);
  };
}

void PolicyHost::StartProcess() {
  process_.reset();
  try {
    process_ = std::make_unique<SandboxedProcess>(sandbox_, options_.limits);
  } catch (const std::exception& error) {
    Fail(FailureKind::kEnded, error.what());
  }
  pipe_.emplace(process_->from(), process_->to());
  began_ = false;
  cpu_s_ = 0;
  waited_s_ = process_->WaitedSeconds();
  if (!Receive(HostMessage::kHello).Get<bool>() && problem_.empty()) {
    problem_ = "the kernel has no filter of system calls";
  }
  if (ping_s_ < 0) MeasurePings();
  LoadFile();
}

void PolicyHost::LoadFile() {
  MessageWriter message;
  message.Put(HostMessage::kLoad);
  PutFile(message, file_);
  (void)TakeCpuSeconds();
  double load_s = 0;
  MessageReader answer = Measure(message, HostMessage::kTraits, load_s);
  loaded_s_ += load_s;
  std::deque<std::string> texts;
  PolicyTraits traits;
  try {
    traits = GetTraits(answer, texts);
  } catch (const BadMessage&) {
    Fail(FailureKind::kRefused, kNoValidMessage);
  }
  if (policy_->make && traits != policy_->traits) Fail(FailureKind::kRefused, kTraitsChange);
  if (policy_->make) return;
  texts_ = std::move(texts);  // its texts stay where they are
  policy_->traits = traits;
}

void PolicyHost::MeasurePings() {
  constexpr std::size_t kPings = 31;
  MessageWriter ping;
  ping.Put(HostMessage::kPing);
  ping_s_ = 0;
  std::vector<double> costs;
  for (std::size_t i = 0; i < kPings; ++i) {
    (void)Exchange(ping, HostMessage::kReady);
    costs.push_back(TakeCpuSeconds());
  }
  ping_s_ = Quantile(costs, 0.5);
}

double PolicyHost::TakeCpuSeconds() {
  const double before = std::exchange(cpu_s_, process_->CpuSeconds());
  return std::max(0.0, cpu_s_ - before - ping_s_);
}

MessageReader PolicyHost::Measure(const MessageWriter& message, HostMessage expected,
                                  double& seconds) {
  const double asked = SteadySeconds();
  MessageReader answer = Exchange(message, expected);
  const double took = SteadySeconds() - asked;
  seconds = TakeCpuSeconds();
  if (took - seconds <= kWaySeconds) return answer;
  const double before = std::exchange(waited_s_, process_->WaitedSeconds());
  seconds = std::max(seconds, took - kWaySeconds - (waited_s_ - before));
  return answer;
}

RunObserver& PolicyHost::BeginRun(const RunDisguise& disguise, bool fresh) {
  if (fresh && began_) StartProcess();
  if (loaded_s_ > options_.loading_s) {
    Fail(
        FailureKind::kTooSlow,
        fmt::format("loading it and beginning runs takes {:.1f} s of CPU time; allowed in all runs "
                    "together: {:g} s",
                    loaded_s_, options_.loading_s));
  }
  in_run_ = false;
  tap_ = std::make_unique<Tap>(disguise, traits().caches_prefixes);
  return *tap_;
}

void PolicyHost::ForgetPlanning() {
  planning_s_.clear();
  planned_s_ = 0;
}

void PolicyHost::Fail(FailureKind kind, const std::string& text) {
  if (process_ != nullptr) (void)process_->Stop(false);
  throw CandidateFailure(kind, Printable(text, kMessageBytesMax));
}

void PolicyHost::FailAsEnded() {
  // One that does not end at the first signal meets a second one.
  const bool is_late = process_->CpuSeconds() > static_cast<double>(options_.limits.cpu_seconds);
  const int status = process_->Stop(true);
  Fail(is_late || UsedUpCpu(status) ? FailureKind::kTooSlow : FailureKind::kEnded,
       "its process " + EndingText(status, options_.limits));
}

MessageReader PolicyHost::Exchange(const MessageWriter& message, HostMessage expected) {
  if (pipe_->HasInput())
    Fail(FailureKind::kEnded, "its process sent a message that nobody asked for");
  if (!pipe_->Send(message.bytes(), options_.patience_s) && !pipe_->timed_out()) FailAsEnded();
  return Receive(expected);
}

MessageReader PolicyHost::Receive(HostMessage expected) {
  try {
    const auto bytes = pipe_->timed_out() ? std::nullopt : pipe_->Receive(options_.patience_s);
    if (!bytes && pipe_->timed_out()) {
      Fail(FailureKind::kTooSlow, fmt::format("gave no answer within {} s", options_.patience_s));
    }
    if (!bytes) FailAsEnded();
    MessageReader answer(*bytes);
    const auto kind = answer.Get<HostMessage>();
    if (kind == expected) return answer;
    if (kind != HostMessage::kFailure) throw BadMessage();
    const auto failure = answer.Get<FailureKind>();
    Fail(std::min(failure, FailureKind::kEnded), answer.GetText());
  } catch (const BadMessage&) {
    Fail(FailureKind::kEnded, kNoValidMessage);
  }
}

}  // namespace twin::run
