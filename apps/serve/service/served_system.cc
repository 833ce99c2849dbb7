#include "apps/serve/service/served_system.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "core/input_error.h"
#include "exec/real_world.h"
#include "run/available_memory.h"
#include "run/config_warnings.h"
#include "run/lateness_meter.h"
#include "run/machine_load.h"
#include "run/part_totals.h"
#include "run/real/machine_gpus.h"
#include "run/real/model_device.h"
#include "run/real/real_system.h"
#include "sched/policy/registry.h"
#include "sim/world/emulated_world.h"
#include "sim/world/wall_clock.h"

namespace twin::run {
namespace {

bool OrdersByPriority(const PolicyConfig& policy) {
  return VisitPolicy(policy, [](const auto& config) {
    bool reads = false;
    if constexpr (requires { config.order->kind; }) {
      reads = config.order && config.order->kind == OrderConfig::Kind::kPriority;
    }
    if constexpr (requires { config.policy == QueueOrder::kPriority; }) {
      reads = reads || config.policy == QueueOrder::kPriority;
    }
    if constexpr (requires { config.enable_priority_scheduling; }) {
      reads = reads || config.enable_priority_scheduling;
    }
    if constexpr (requires { config.priority_levels; }) {
      reads = reads || config.priority_levels > 0;
    }
    return reads;
  });
}

std::optional<TgiBatches> TgiBatchesOf(const Deployment& deployment) {
  if (deployment.config.own_policy != nullptr) return std::nullopt;
  return VisitPolicy(deployment.config.policy,
                     [&](const auto& config) -> std::optional<TgiBatches> {
                       if constexpr (requires { config.Options().waiting_served_ratio; }) {
                         const TgiRouterOptions options = config.Options();
                         const KvPoolConfig& kv = deployment.engine.kv;
                         const std::int64_t all = std::int64_t{kv.blocks} * kv.block_size;
                         return TgiBatches{.max_total_tokens = options.max_batch_total_tokens > 0
                                                                   ? options.max_batch_total_tokens
                                                                   : all,
                                           .max_waiting_tokens = options.max_waiting_tokens,
                                           .chunks_prefills = options.chunks_prefills};
                       } else {
                         return std::nullopt;
                       }
                     });
}

// The parts of the description that both kinds of systems share.
ServedModel Describe(const Deployment& deployment) {
  const ExperimentConfig& config = deployment.config;
  const std::filesystem::path name(config.system.model);
  ServedModel model;
  model.name = name.filename() == "config.json" ? name.parent_path().filename().string()
                                                : name.filename().string();
  if (model.name.empty()) model.name = config.name;
  model.vocabulary = config.system.model_spec.vocab;
  model.max_model_length = deployment.context_tokens_max;
  model.uses_priorities = config.own_policy == nullptr && OrdersByPriority(config.policy);
  model.policy = std::string(deployment.traits.name);
  model.replicas = config.system.replicas;
  model.block_size = deployment.engine.kv.block_size;
  model.blocks = deployment.engine.kv.blocks;
  model.resolved_config = WriteResolved(config);
  if (config.speculation && config.speculation->rules.on()) {
    model.drafts_max = config.speculation->rules.num_speculative_tokens;
  }
  model.tgi = TgiBatchesOf(deployment);
  return model;
}

class EmulatedSystem final : public ServedSystem {
 public:
  EmulatedSystem(const ExperimentConfig& config, const ServingOptions& options)
      : deployment_(Resolve(WithoutBoundary(config))),
        world_config_(std::get<EmulatedWorldConfig>(config.world)),
        end_tokens_(options.end_tokens),
        clock_(options.clock),
        model_(options.drawn_tokens, config.system.model_spec.vocab, options.end_tokens,
               world_config_.output, config.seed) {}

  [[nodiscard]] const Deployment& deployment() const override { return deployment_; }
  [[nodiscard]] ServedModel model() const override {
    ServedModel model = Describe(deployment_);
    model.end_tokens = end_tokens_;
    model.emulated = true;
    model.speed = world_config_.speed;
    return model;
  }
  [[nodiscard]] const EmulatedModel* emulated() const override { return &model_; }

  World& Start(ArrivalSource& source, Answers& /*answers*/, const RunDirectory* /*directory*/,
               const RunFiles* /*files*/) override {
    if (clock_ == nullptr) clock_ = &steady_.emplace();
    world_.emplace(source, *deployment_.cost, deployment_.world, *clock_, world_config_.speed);
    lateness_.emplace(*world_, world_config_.speed);
    return *world_;
  }
  void OnWorldThread() override { sim::WakeThisThreadOnTime(); }

  void Cancel(RequestId id, bool answered) override { world_->Cancel(id, answered); }
  void Wake() override { world_->Wake(); }
  void Stop() override { world_->Stop(); }
  [[nodiscard]] TimePoint now() const override { return world_->now(); }
  [[nodiscard]] bool stopped_early() const override { return world_->stopped_early(); }
  [[nodiscard]] Duration lateness() const override { return world_->lateness(); }
  [[nodiscard]] RunListener* lateness_meter() override { return &*lateness_; }
  [[nodiscard]] std::int64_t late_steps() const override { return lateness_->late_steps(); }

  Summary Finish() override {
    Summary summary;
    lateness_->Summarise(MetricWriter(summary));
    return summary;
  }

 private:
  // Real clients have delays of their own.
  static ExperimentConfig WithoutBoundary(ExperimentConfig config) {
    config.system.boundary = sim::BoundaryConfig{};
    return config;
  }

  Deployment deployment_;
  EmulatedWorldConfig world_config_;
  std::vector<std::int32_t> end_tokens_;
  sim::WallClock* clock_;
  std::optional<sim::SteadyWallClock> steady_;
  EmulatedModel model_;
  std::optional<sim::EmulatedWorld> world_;
  std::optional<LatenessMeter> lateness_;
};

// Passes measured times to the totals of parts, and tokens to the answers.
class MeasuredSteps final : public exec::RealWorldListener {
 public:
  MeasuredSteps(PartTotals& parts, Answers& answers) : parts_(parts), answers_(answers) {}

  void OnStep(std::int32_t replica, StepId id, const StepTimes& times) override {
    parts_.OnStep(replica, id, times);
  }
  void OnToken(RequestId id, std::int32_t token) override { answers_.OnToken(id, token); }
  void OnLogprobs(RequestId id, std::span<const kernels::TokenLogprob> logprobs) override {
    answers_.OnLogprobs(id, logprobs);
  }

 private:
  PartTotals& parts_;
  Answers& answers_;
};

class RealSystem final : public ServedSystem {
 public:
  RealSystem(ExperimentConfig config, RunControl& control)
      : config_(std::move(config)),
        served_(FindServedModels(config_)),
        device_(config_, served_, nullptr, control),
        deployment_(Resolve(config_)),
        backends_(device_.MakeBackends(deployment_.engine, config_.system.model_spec.kv_dtype)) {
    for (const auto& backend : backends_) driven_.push_back(backend.get());
  }

  [[nodiscard]] const Deployment& deployment() const override { return deployment_; }
  [[nodiscard]] ServedModel model() const override {
    ServedModel model = Describe(deployment_);
    model.vocabulary = device_.model_config().shape.vocab;
    model.end_tokens = device_.model_config().end_tokens;
    model.model_directory = served_.target.weights.string();
    model.samples = true;
    return model;
  }
  [[nodiscard]] const EmulatedModel* emulated() const override { return nullptr; }

  World& Start(ArrivalSource& source, Answers& answers, const RunDirectory* directory,
               const RunFiles* files) override {
    const bool writes = directory != nullptr && deployment_.config.outputs.record;
    if (writes) {
      parts_.emplace(directory->File("parts.csv"), deployment_.config.system.replicas);
    } else {
      parts_.emplace();
    }
    if (files != nullptr) parts_->DrawOn(files->perfetto());
    listener_.emplace(*parts_, answers);
    load_.Add(SampleMachine());
    start_ = exec::LapTimer::Clock::now();
    world_.emplace(source, driven_, OptionsOf(answers));
    return *world_;
  }

  void Cancel(RequestId id, bool answered) override { world_->Cancel(id, answered); }
  void Wake() override { world_->Wake(); }
  void Stop() override { world_->Stop(); }
  [[nodiscard]] bool stopped_early() const override { return world_->stopped_early(); }
  [[nodiscard]] TimePoint now() const override {
    return kTimeZero + std::chrono::duration_cast<Duration>(exec::LapTimer::Clock::now() - start_);
  }

  Summary Finish() override {
    load_.Add(SampleMachine());
    return parts_->Finish();
  }
  [[nodiscard]] std::optional<RealProvenance> provenance() const override {
    const auto& draft = served_.draft;
    return RealProvenance{.weights = served_.target.weights,
                          .draft_weights = draft ? std::optional(draft->weights) : std::nullopt,
                          .gpus = GpusOfRun(config_),
                          .load = load_.Result()};
  }

 private:
  exec::RealWorldOptions OptionsOf(Answers& answers) {
    const ExperimentConfig& config = deployment_.config;
    return {.max_model_length = deployment_.context_tokens_max,
            .named_block_size = KeyTokensOf(deployment_),
            .pins_output_lengths = false,
            .end_tokens = device_.model_config().end_tokens,
            .vocab = device_.model_config().shape.vocab,
            .seed = config.seed,
            .client_timeout = std::get<RealWorldConfig>(config.world).client_timeout,
            .prefill_replicas = config.system.disaggregation
                                    ? config.system.disaggregation->pools.prefill_replicas
                                    : 0,
            .listener = &*listener_,
            .contents = &answers,
            .start = start_};
  }

  ExperimentConfig config_;
  ServedModels served_;
  ServingDevice device_;
  Deployment deployment_;
  std::vector<std::unique_ptr<exec::Backend>> backends_;  // one for each replica
  std::vector<exec::Backend*> driven_;
  std::optional<PartTotals> parts_;
  std::optional<MeasuredSteps> listener_;
  MachineLoadMeter load_;
  exec::LapTimer::Clock::time_point start_;
  std::optional<exec::RealWorld> world_;  // last: its threads borrow the other members
};

}  // namespace

std::unique_ptr<ServedSystem> MakeServedSystem(const ExperimentConfig& config,
                                               const ServingOptions& options, RunControl& control) {
  if (std::holds_alternative<EmulatedWorldConfig>(config.world)) {
    return std::make_unique<EmulatedSystem>(config, options);
  }
  const auto* const real = std::get_if<RealWorldConfig>(&config.world);
  if (real == nullptr) {
    throw InputError(
        InputError::Kind::kUsage, "world",
        "is simulated; allowed in a service: world { real {} }, world { emulated {} }");
  }
  RequireDevice("world.real.device", real->device, "cpu");
  return std::make_unique<RealSystem>(ResolveForThisMachine(config, AvailableMemory()), control);
}

}  // namespace twin::run
