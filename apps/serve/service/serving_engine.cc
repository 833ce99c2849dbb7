#include "apps/serve/service/serving_engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "apps/serve/service/answers.h"
#include "apps/serve/service/draft_counts.h"
#include "apps/serve/service/live_requests.h"
#include "apps/serve/service/served_system.h"
#include "core/check.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "run/config_warnings.h"
#include "run/deployed_groups.h"
#include "run/files/record_file.h"
#include "run/make_engines.h"
#include "run/record/recording_world.h"
#include "run/record/request_tracker.h"
#include "run/record/run_measurements.h"
#include "run/run_files.h"
#include "sched/serve.h"

namespace twin::run {
namespace {

// Calls `before_wait` before each wait, when all work of the latest instant has been planned.
class LoopWorld final : public World {
 public:
  LoopWorld(World& inner, std::function<void()> before_wait)
      : inner_(inner), before_wait_(std::move(before_wait)) {}

  Instant Advance(TimePoint wake_at) override {
    before_wait_();
    return inner_.Advance(wake_at);
  }
  void Launch(const StepPlan& plan) override { inner_.Launch(plan); }
  void Transfer(const KvTransfer& transfer) override { inner_.Transfer(transfer); }

 private:
  World& inner_;
  std::function<void()> before_wait_;
};

// The files of a service, if it writes any.
struct ServedFiles {
  ServedFiles(const Deployment& deployment, const std::filesystem::path& out, RunControl& control)
      : resolved(WriteResolved(deployment.config)),
        directory(out, &control, RunDirectory::Appearance::kAtOnce),
        files(deployment, resolved, directory) {
    directory.WriteText("config.resolved.textproto", resolved);
  }

  std::string resolved;
  RunDirectory directory;
  RunFiles files;
};

class LiveService final : public ServingEngine, private RunListener {
 public:
  LiveService(std::unique_ptr<ServedSystem> system, const ServingOptions& options,
              RunControl& control);
  ~LiveService() override;

  [[nodiscard]] const ServedModel& model() const override { return model_; }
  [[nodiscard]] ServiceState state() const override;
  [[nodiscard]] TimePoint now() const override { return system_->now(); }
  std::variant<GenerationId, Refusal> Submit(GenerationRequest request,
                                             std::shared_ptr<GenerationSink> sink) override;
  void Cancel(GenerationId id, CancelReason reason) override;
  void SetStepListener(StepListener* listener) override { step_listener_ = listener; }
  void Drain() override;
  [[nodiscard]] std::string Record() const override;

  void Commence() override;
  bool AwaitDrained(std::chrono::milliseconds patience) override;
  RunOutcome Finish() override;

 private:
  void Run(World& world);
  void Stop();
  void BeforeWait();
  void OnStepEnded(const EndedStep& step) override;
  // REQUIRES: mutex_ is held.
  [[nodiscard]] std::optional<Refusal> Refuse(std::int64_t prompt_tokens) const;
  void WriteRefusals(std::span<const RefusedRequest> refused);
  RunOutcome Complete();

  const std::unique_ptr<ServedSystem> system_;
  const ServingOptions options_;
  RunControl& control_;
  const ServedModel model_;
  const std::int32_t kv_blocks_;  // of all replicas
  LiveRequests requests_;
  Answers answers_;
  std::optional<ServedFiles> written_;
  std::optional<RunMetrics> metrics_;
  std::atomic<StepListener*> step_listener_ = nullptr;
  std::atomic<std::uint64_t> submitted_ = 0;  // numbers requests for their seeds
  AnswerCounts told_;    // already subtracted from waiting_; of the world's thread
  ServiceState latest_;  // of the world's thread
  std::exception_ptr failure_;
  bool interrupted_ = false;  // answers were aborted
  bool commenced_ = false;    // Commence() was called
  bool finished_ = false;     // Finish() was called

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable ended_changed_;
  std::uint32_t next_id_ = 0;
  std::int64_t waiting_ = 0;  // accepted, and not carried by a step yet
  std::int64_t waiting_prompt_tokens_ = 0;
  std::int64_t refused_ = 0;
  std::vector<RefusedRequest> unwritten_;
  bool draining_ = false;
  bool ended_ = false;
  ServiceState state_;

  std::thread thread_;  // last: it uses all other members
};

LiveService::LiveService(std::unique_ptr<ServedSystem> system, const ServingOptions& options,
                         RunControl& control)
    : system_(std::move(system)),
      options_(options),
      control_(control),
      model_(system_->model()),
      kv_blocks_(KvBlocksOf(system_->deployment().engines())),
      answers_(system_->emulated(), system_->deployment().traits.delivery, model_.end_tokens) {
  const Deployment& deployment = system_->deployment();
  for (const std::string& warning : WarningsOf(deployment)) control.OnWarning(warning);
  if (!options.out.empty()) written_.emplace(deployment, options.out, control);
  World& world = system_->Start(requests_, answers_, written_ ? &written_->directory : nullptr,
                                written_ ? &written_->files : nullptr);
  RunWatchers watchers;
  if (written_) watchers = written_->files.watchers();
  watchers.listeners.push_back(&answers_);
  if (RunListener* const meter = system_->lateness_meter()) watchers.listeners.push_back(meter);
  watchers.listeners.push_back(this);
  metrics_.emplace(deployment, watchers);
  latest_.ready = true;
  state_ = latest_;
  thread_ = std::thread([this, &world] { Run(world); });
}

LiveService::~LiveService() {
  if (finished_) return;
  try {
    if (commenced_) {
      (void)Finish();
    } else {
      Stop();
    }
  } catch (...) {  // the caller did not ask
  }
}

void LiveService::Run(World& world) {
  system_->OnWorldThread();
  std::vector<RunObserver*> observers = {&answers_};
  observers.insert(observers.end(), metrics_->observers().begin(), metrics_->observers().end());
  RecordingWorld recorded(world, observers);
  LoopWorld loop(recorded, [this] { BeforeWait(); });
  const auto serve = [&](auto& scheduler) {
    Serve(scheduler, loop);
    if (!system_->stopped_early()) scheduler.CheckDrained();
  };
  try {
    if (system_->deployment().config.system.replicas == 1) {
      serve(*MakeEngine(system_->deployment()));
    } else {
      serve(*MakeCluster(system_->deployment()));
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;  // nothing would serve new requests
  }
  interrupted_ = metrics_->tracker().live() > 0;
  answers_.AbortAll();
  const std::lock_guard lock(mutex_);
  state_.ready = false;
  state_.running = state_.waiting = 0;
  ended_ = true;
  ended_changed_.notify_all();
}

void LiveService::BeforeWait() {
  const AnswerCounts& counts = answers_.counts();
  const Load& load = metrics_->tracker().load();
  latest_.now = system_->now();
  latest_.running = load.running;
  latest_.kv_usage = static_cast<double>(load.used_blocks) / static_cast<double>(kv_blocks_);
  latest_.prompt_tokens = counts.prompt_tokens;
  latest_.cached_prompt_tokens = counts.cached_prompt_tokens;
  latest_.generated_tokens = counts.generated_tokens;
  latest_.cache_queried_tokens = counts.cache_queried_tokens;
  latest_.cache_hit_tokens = counts.cache_hit_tokens;
  latest_.preemptions = counts.preemptions;
  latest_.reserved_tokens = counts.reserved_tokens;
  latest_.late_steps = system_->late_steps();
  std::vector<RefusedRequest> refused;
  {
    const std::lock_guard lock(mutex_);
    waiting_ -= counts.left_queue - told_.left_queue;
    waiting_prompt_tokens_ -= counts.left_queue_prompt_tokens - told_.left_queue_prompt_tokens;
    told_ = counts;
    refused.swap(unwritten_);
    state_ = latest_;
    // Preempted requests wait, too. So do accepted requests that the engine has not heard of.
    state_.waiting = std::max<std::int64_t>(load.waiting + load.swapped, waiting_);
  }
  WriteRefusals(refused);
  if (written_ && written_->files.record() != nullptr) written_->files.record()->Flush();
}

void LiveService::WriteRefusals(std::span<const RefusedRequest> refused) {
  if (!written_ || written_->files.record() == nullptr) return;
  for (const RefusedRequest& one : refused) written_->files.record()->OnRefused(one);
}

void LiveService::OnStepEnded(const EndedStep& step) {
  const StepTotals& totals = step.plan.totals;
  ++latest_.steps;
  latest_.step_prefill_tokens = totals.prefill_tokens;
  latest_.step_decode_tokens = totals.decode_items;
  if (totals.draft_items > 0) CountDrafts(step, latest_.drafts);
  StepListener* const listener = step_listener_.load();
  if (listener == nullptr) return;
  listener->OnStep({.now = step.finished,
                    .replica = step.plan.replica,
                    .since_planned = step.finished - step.planned,
                    .since_started = step.finished - step.started,
                    .prefill_tokens = totals.prefill_tokens,
                    .decode_tokens = totals.decode_items,
                    .requests = static_cast<std::int64_t>(step.plan.work.size()),
                    .admitted = static_cast<std::int64_t>(step.plan.admitted.size()),
                    .running = step.plan.running,
                    .lateness = system_->lateness()});
}

ServiceState LiveService::state() const {
  const std::lock_guard lock(mutex_);
  ServiceState state = state_;
  state.draining = draining_;
  state.waiting_prompt_tokens = waiting_prompt_tokens_;
  if (!ended_) state.waiting = std::max(state.waiting, waiting_);
  state.refused_requests = refused_;
  return state;
}

std::optional<Refusal> LiveService::Refuse(std::int64_t prompt_tokens) const {
  if (draining_) return Refusal::kDraining;
  if (waiting_ >= options_.waiting_requests_max) return Refusal::kQueueFull;
  // One request is accepted whatever its length.
  const bool fits = waiting_prompt_tokens_ + prompt_tokens <= options_.waiting_prompt_tokens_max;
  if (!fits && waiting_ > 0) return Refusal::kQueueFull;
  return std::nullopt;
}

std::variant<GenerationId, Refusal> LiveService::Submit(GenerationRequest request,
                                                        std::shared_ptr<GenerationSink> sink) {
  CHECK(!request.prompt.empty() && request.max_tokens >= 1 && sink != nullptr);
  const std::uint64_t number = ++submitted_;
  AcceptedRequest accepted;
  TracedRequest traced;
  if (const EmulatedModel* const emulated = system_->emulated()) {
    accepted.emulated = emulated->Plan(request, number);
    traced =
        emulated->Traced(request, accepted.emulated, system_->deployment().world.named_block_size);
  } else {
    const std::uint64_t drawn = MixWords(system_->deployment().config.seed, number);
    accepted.seed = request.sampling.seed.value_or(drawn);
    traced.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    traced.output_tokens = traced.max_output_tokens = request.max_tokens;
    traced.priority = request.priority;
    traced.tenant = request.tenant;
    traced.session = request.session;
    traced.ignore_eos = request.ignore_eos && request.stop_token_ids.empty();
  }
  accepted.request = std::move(request);
  accepted.sink = std::move(sink);
  const std::int32_t prompt_tokens = traced.prompt_tokens;
  std::uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    traced.arrival = system_->now();  // in order, because it is read under the lock
    if (const std::optional<Refusal> refusal = Refuse(prompt_tokens)) {
      if (*refusal == Refusal::kQueueFull) ++refused_;
      if (ended_) return *refusal;
      unwritten_.push_back({.time = traced.arrival,
                            .prompt_tokens = prompt_tokens,
                            .max_output_tokens = traced.max_output_tokens,
                            .priority = traced.priority,
                            .tenant = traced.tenant,
                            .session = traced.session,
                            .draining = *refusal == Refusal::kDraining});
      return *refusal;
    }
    id = next_id_++;
    ++waiting_;
    waiting_prompt_tokens_ += prompt_tokens;
    accepted.id = RequestId{id};
    answers_.Add(std::move(accepted));
    requests_.Push(std::move(traced));
  }
  system_->Wake();
  return GenerationId{id};
}

void LiveService::Cancel(GenerationId id, CancelReason reason) {
  system_->Cancel(RequestId{static_cast<std::uint32_t>(id)}, reason == CancelReason::kStopString);
}

void LiveService::Drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  requests_.Close();
  system_->Wake();
}

std::string LiveService::Record() const {
  if (!written_ || written_->files.record() == nullptr) return "";
  std::ifstream file(written_->directory.File("record.pb"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void LiveService::Commence() {
  commenced_ = true;
  if (written_) written_->directory.Commit();
}

bool LiveService::AwaitDrained(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return ended_changed_.wait_for(lock, patience, [this] { return ended_; });
}

void LiveService::Stop() {
  Drain();
  system_->Stop();
  thread_.join();
}

RunOutcome LiveService::Finish() {
  CHECK(!finished_);
  finished_ = true;
  Stop();
  if (failure_) std::rethrow_exception(failure_);
  return Complete();
}

RunOutcome LiveService::Complete() {
  Summary more = system_->Finish();
  SummariseRefusals(MetricWriter(more), refused_);
  WriteRefusals(unwritten_);
  if (written_) written_->files.Finish(*metrics_);
  const Deployment& deployment = system_->deployment();
  RunOutcome outcome = SumUp(deployment, *metrics_, more, interrupted_);
  ReportLosses(outcome, control_);
  if (!written_) return outcome;
  CompleteDirectory(deployment, written_->resolved, options_.command_line, system_->provenance(),
                    outcome, written_->directory);
  return outcome;
}

}  // namespace

std::unique_ptr<ServingEngine> StartServing(const ExperimentConfig& config,
                                            const ServingOptions& options, RunControl& control) {
  if (config.metrics.head_share + config.metrics.tail_share > 0) {
    throw InputError(
        InputError::Kind::kUsage,
        config.metrics.head_share > 0 ? "metrics.head_share" : "metrics.tail_share",
        "is a share of all requests, whose number a service does not know; allowed: 0");
  }
  return std::make_unique<LiveService>(MakeServedSystem(config, options, control), options,
                                       control);
}

}  // namespace twin::run
