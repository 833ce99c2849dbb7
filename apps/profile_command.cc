// twinserve profile: how long operations, whole steps and the host take on this machine.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "apps/commands.h"
#include "apps/measured_model_options.h"
#include "apps/terminal_control.h"
#include "core/input_error.h"
#include "core/random.h"
#include "exec/comm/mpi_ranks.h"
#include "lab/profile/measured_model.h"
#include "lab/profile/profile_cases.h"
#include "lab/profile/profile_file.h"
#include "lab/real/available_memory.h"
#include "lab/real/model_device.h"
#include "lab/version.h"

namespace twin::apps {
namespace {

struct ProfileArguments {
  lab::MeasuredModelOptions model;
  std::string dtype;  // empty: the usual one of the device
  std::string kv_dtype;
  std::string out;
  bool quick = false;
  std::optional<std::int32_t> tokens_max;
  std::optional<std::int32_t> context_max;
  std::optional<std::int32_t> batch_max;
  std::int32_t block_size = 16;
  std::int32_t rounds = 3;
};

constexpr std::int32_t kShortestModel = 64;
// Of a CPU; a device takes a quarter of its memory.
constexpr std::int64_t kCacheBytesMax = std::int64_t{1} << 30;
// What devices take at once is some times more.
constexpr exec::ProfileLimits kCudaLimits = {
    .tokens_max = 8192, .context_max = 8192, .batch_max = 256};

// Largest single measurement, so that slow machines and large models end in good time.
double LongestSeconds(const ProfileArguments& arguments) { return arguments.quick ? 0.5 : 4; }

exec::RepeatRule RuleOf(const ProfileArguments& arguments) {
  return {.count_min = 3,
          .count_max = arguments.quick ? 5 : 15,
          .seconds_max = arguments.quick ? 0.05 : 0.3,
          .relative_error = 0.01};
}

// Tokens that a step of the longest measurement has, by the speed of one of 32.
std::int32_t TokensWithin(double seconds, exec::SyntheticSteps& steps, std::int32_t most) {
  const std::vector<exec::StepItem> items = {exec::ChunkItem(0, 32, true)};
  steps.Run(items);
  const double per_token =
      exec::SpreadOf(exec::Repeat({.count_min = 3, .count_max = 5},
                                  [&] { return Seconds(steps.Run(items).device()); }))
          .median /
      32;
  const double tokens = std::max(seconds / per_token, 32.0);
  std::int32_t power = 32;
  while (power * 2 <= tokens && power * 2 <= most) power *= 2;
  return std::min(power * 2 > most && tokens >= most ? most : power, most);
}

exec::ProfileLimits LimitsOf(const ProfileArguments& arguments, const ModelSpec& model) {
  if (model.max_position < kShortestModel) {
    throw InputError(InputError::Kind::kData, arguments.model.model,
                     "the model has " + std::to_string(model.max_position) +
                         " positions; profiles need at least " + std::to_string(kShortestModel));
  }
  const bool cuda = arguments.model.device == lab::ModelDevice::kCuda;
  exec::ProfileLimits limits = cuda ? kCudaLimits : exec::ProfileLimits{};
  limits.context_max =
      std::min(arguments.context_max.value_or(limits.context_max), model.max_position);
  limits.tokens_max =
      std::min(arguments.tokens_max.value_or(limits.tokens_max), limits.context_max);
  limits.batch_max = arguments.batch_max.value_or(limits.batch_max);
  limits.coarse = arguments.quick;
  limits.mixes = arguments.quick ? 60 : 90;
  const std::int64_t quarter = lab::MemoryOf(arguments.model.device) / 4;
  const std::int64_t bytes = cuda ? quarter : std::min(kCacheBytesMax, quarter);
  limits.cache_tokens =
      std::clamp<std::int64_t>(bytes / KvBytesPerToken(model), limits.context_max,
                               std::int64_t{limits.batch_max} * limits.context_max);
  return limits;
}

// Of a device, threads of the host compute nothing.
lab::ProfileHeader HeaderOf(const ProfileArguments& arguments, const ModelSpec& model,
                            const lab::MeasuredModel& measured, const exec::ProfileLimits& limits) {
  return {.machine = measured.machine,
          .instruction_set = measured.instruction_set,
          .threads = arguments.model.device == lab::ModelDevice::kCpu
                         ? lab::ThreadsOf(arguments.model)
                         : 0,
          .commit = std::string(lab::kCommit) + (lab::kDirty ? "+changed" : ""),
          .block_size = arguments.block_size,
          .rounds = arguments.rounds,
          .model = model,
          .decode_buckets = measured.model().decode_buckets(),
          .limits = limits};
}

// A file that was begun keeps its limits: refuses an option that asks for others.
void RequireSameLimits(const ProfileArguments& arguments, const exec::ProfileLimits& in_file,
                       const exec::ProfileLimits& asked) {
  const auto refuse = [&](const char* option, std::int32_t there, std::int32_t here) {
    throw InputError(InputError::Kind::kUsage, option,
                     "asks for " + std::to_string(here) + ", " + arguments.out +
                         " was begun with " + std::to_string(there) +
                         "; allowed: the same, no such option, or another --out");
  };
  if (arguments.batch_max && asked.batch_max != in_file.batch_max) {
    refuse("--batch-max", in_file.batch_max, asked.batch_max);
  }
  if (arguments.context_max && asked.context_max != in_file.context_max) {
    refuse("--context-max", in_file.context_max, asked.context_max);
  }
  if (!arguments.tokens_max) return;
  if (asked.tokens_max < in_file.tokens_max) {
    refuse("--tokens-max", in_file.tokens_max, asked.tokens_max);
  }
  // The file's may be fewer than were asked for: those that the machine computes in good time.
  if (asked.tokens_max > in_file.tokens_max) {
    std::cerr << "note: " << arguments.out << " was begun with steps of up to "
              << in_file.tokens_max << " tokens, and goes on with them\n";
  }
}

// Measures what the file does not have yet, round by round, each in an order of its own: a slow
// minute of the machine then hits all sizes alike.
class ProfileRun {
 public:
  ProfileRun(const lab::ProfileHeader& header, const std::vector<lab::ProfileRow>& known,
             lab::ProfileWriter& writer)
      : header_(header), writer_(writer) {
    for (const lab::ProfileRow& row : known) known_.insert(KeyOf(row.key(), row.round));
  }

  // False after an interrupt.
  bool Run(const std::vector<lab::ProfileCase>& cases, lab::RunControl& control) {
    const auto rounds = static_cast<std::uint64_t>(header_.rounds);
    for (std::int32_t round = 0; round < header_.rounds; ++round) {
      for (const std::size_t index : Shuffled(cases.size(), round)) {
        if (control.StopRequested()) return false;
        Measure(cases[index], round);
        control.OnProgress("measurements", ++done_, rounds * cases.size());
      }
    }
    return true;
  }

  [[nodiscard]] std::uint64_t measured() const { return measured_; }

 private:
  static std::string KeyOf(const std::string& key, std::int32_t round) {
    return std::to_string(round) + "," + key;
  }

  static std::vector<std::size_t> Shuffled(std::size_t count, std::int32_t round) {
    Random random(static_cast<std::uint64_t>(round), "profile_order");
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto place =
          static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(i)));
      order[i] = order[place];
      order[place] = i;
    }
    return order;
  }

  void Measure(const lab::ProfileCase& c, std::int32_t round) {
    const bool known = std::all_of(c.keys.begin(), c.keys.end(), [&](const std::string& key) {
      return known_.contains(KeyOf(key, round));
    });
    if (known) return;
    std::vector<lab::ProfileRow> rows = c.measure();
    std::erase_if(
        rows, [&](const lab::ProfileRow& row) { return known_.contains(KeyOf(row.key(), round)); });
    for (lab::ProfileRow& row : rows) row.round = round;
    writer_.Add(rows);
    ++measured_;
  }

  const lab::ProfileHeader& header_;
  lab::ProfileWriter& writer_;
  std::set<std::string> known_;
  std::uint64_t done_ = 0;
  std::uint64_t measured_ = 0;
};

void RunProfile(const ProfileArguments& arguments, CommandContext& context) {
  if (!exec::RunsAlone("profile")) return;
  TerminalControl control;
  const lab::ModelDevice device = arguments.model.device;
  lab::RequireDevice("--device", device, "cpu");
  const DType dtype = lab::ParseDTypeOption("--dtype", arguments.dtype, lab::WeightFormats(device));
  exec::ModelConfig config = exec::ReadModelConfig(arguments.model.model);
  config.shape.weight_dtype = dtype;
  config.shape.kv_dtype =
      lab::ParseDTypeOption("--kv-dtype", arguments.kv_dtype, lab::KvFormats(device, dtype));
  const exec::ProfileLimits asked = LimitsOf(arguments, config.shape);
  exec::ProfileLimits limits = asked;
  std::optional<lab::Profile> before;
  const bool begins = !std::filesystem::exists(arguments.out);
  if (!begins) {
    before = lab::ReadProfile(arguments.out, lab::UnfinishedRow::kLeftOut);
    RequireSameLimits(arguments, before->header.limits, asked);
    limits = before->header.limits;
  }
  const exec::SyntheticStepsConfig steps_config =
      lab::StepsConfigOf(config.shape, arguments.block_size, limits);
  lab::RequireRoom(config.shape, exec::CacheBlocks(steps_config), arguments.block_size,
                   lab::MemoryOf(device));

  const lab::MeasuredModel measured = lab::LoadMeasuredModel(
      arguments.model, config, dtype, limits.context_max,
      {.tokens = std::max(limits.tokens_max, steps_config.items), .sequences = steps_config.items},
      control);
  lab::ProfileHeader header = HeaderOf(arguments, config.shape, measured, asked);
  if (before) lab::RequireSameHeader(arguments.out, before->header, header);
  header.limits = limits;
  exec::SyntheticSteps steps(measured.model(), steps_config);
  if (begins) {
    header.limits.tokens_max =
        TokensWithin(LongestSeconds(arguments), steps, header.limits.tokens_max);
  }
  const std::unique_ptr<exec::Operations> operations =
      measured.model().MakeOperations(steps.cache());
  const std::vector<lab::ProfileCase> cases =
      lab::ProfileCases(header, RuleOf(arguments),
                        {.operations = operations.get(),
                         .steps = &steps,
                         .model = &measured.model(),
                         .scratch = arguments.out + ".run"});

  lab::ProfileWriter writer(arguments.out, header, begins);
  ProfileRun run(header, before ? before->rows : std::vector<lab::ProfileRow>{}, writer);
  const bool complete = run.Run(cases, control);
  std::cerr << "wrote " << arguments.out << ": " << run.measured() << " measurements"
            << (begins ? "" : " more") << ", steps of up to " << header.limits.tokens_max
            << " tokens\n";
  if (complete) return;
  std::cerr << "interrupted: the same command goes on from here\n";
  context.exit_code = 1;
}

}  // namespace

void AddProfileCommand(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* command = app.add_subcommand(
      "profile", "Measure operations, whole steps and the host on this machine, for fit");
  AddMeasuredModelOptions(*command, arguments->model);
  command->add_option(
      "--dtype", arguments->dtype,
      "Weights: on a CPU fp32 (default), bf16 or int8; on CUDA bf16 (default), fp16 or fp8");
  command->add_option(
      "--kv-dtype", arguments->kv_dtype,
      "KV cache: on a CPU fp32 or bf16, default fp32 for fp32 weights, bf16 otherwise; "
      "on CUDA as the weights, bf16 for fp8");
  command
      ->add_option("--out", arguments->out,
                   "The profile, a CSV file; one that is there is continued")
      ->required();
  command->add_flag("--quick", arguments->quick, "A coarse grid, in a minute or so");
  command->add_option("--tokens-max", arguments->tokens_max, "Largest step")
      ->check(CLI::Range(32, 1 << 20));
  command->add_option("--context-max", arguments->context_max, "Longest sequence")
      ->check(CLI::Range(kShortestModel, 1 << 20));
  command->add_option("--batch-max", arguments->batch_max, "Most requests of a step")
      ->check(CLI::Range(4, 4096));
  command->add_option("--block-size", arguments->block_size, "Tokens per KV block")
      ->check(CLI::Range(1, 4096));
  command->add_option("--rounds", arguments->rounds, "Times that everything is measured")
      ->check(CLI::Range(1, 1000));
  command->callback([arguments, &context] { RunProfile(*arguments, context); });
}

}  // namespace twin::apps
