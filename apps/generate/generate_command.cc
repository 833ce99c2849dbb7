// twinserve generate: tokens in, tokens and logits out, through the real engine and executor.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "apps/commands.h"
#include "apps/generate/prompt_file.h"
#include "apps/measured_model_options.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "config/case_parameters.h"
#include "config/models/model_names.h"
#include "core/files/output_file.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "exec/comm/agreement.h"
#include "exec/comm/mpi_ranks.h"
#include "exec/comm/thread_ranks.h"
#include "exec/generation.h"
#include "exec/grid_backend.h"
#include "kernels/sampling.h"
#include "kernels/top_logits.h"
#include "run/available_memory.h"
#include "run/real/rank_model.h"
#include "run/real/served_model.h"
#include "run/run_control.h"
#include "sched/policy/vllm_v1.h"

namespace twin::apps {
namespace {

using exec::KeptLogits;

struct GenerateArguments {
  std::string model;
  std::string prompts;
  std::string out;
  std::int32_t new_tokens = 24;
  KeptLogits logits = KeptLogits::kLast;
  std::optional<DType> dtype;  // unset = the default of the device
  ModelOptions model_options;
  run::ModelDevice device = run::ModelDevice::kCpu;
  std::string policy = VllmV1Config::kName;
  std::string policy_params = "{}";
  bool stops_at_eos = false;
  std::int32_t block_size = 16;
  std::int32_t kv_blocks = 0;
  std::int32_t host_blocks = 0;
  std::int32_t threads = 0;
  kernels::SamplingParameters sampling;
  Parallelism grid;
  double rank_timeout_s = 60;
};

// A prompt's random numbers depend on its number in the file, not on the prompts beside it.
std::vector<exec::Generation> GenerationsOf(const std::vector<Prompt>& prompts,
                                            const GenerateArguments& arguments) {
  std::vector<exec::Generation> generations(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    generations[i].prompt = prompts[i].token_ids;
    generations[i].tokens_max = arguments.new_tokens;
    generations[i].sampling = arguments.sampling;
    generations[i].sampling.seed =
        MixWords(arguments.sampling.seed, static_cast<std::uint64_t>(prompts[i].number));
  }
  return generations;
}

DType WeightDTypeOf(const GenerateArguments& arguments) {
  return arguments.dtype.value_or(run::WeightFormats(arguments.device).front());
}

DType KvDTypeOf(const GenerateArguments& arguments) {
  return run::KvFormats(arguments.device, WeightDTypeOf(arguments)).front();
}

// The number of KV blocks without --kv-blocks: room for all prompts, within a limit.
std::int64_t BlocksAtLeast(const GenerateArguments& arguments, const ModelSpec& model,
                           const std::vector<exec::Generation>& generations) {
  std::int64_t all = 0;
  std::int64_t largest = 0;
  for (const exec::Generation& g : generations) {
    const std::int64_t tokens = static_cast<std::int64_t>(g.prompt.size()) + g.tokens_max;
    const std::int64_t blocks = (tokens + arguments.block_size - 1) / arguments.block_size;
    all += blocks;
    largest = std::max(largest, blocks);
  }
  const std::int64_t block_bytes = run::HeldBytesPerToken(model, {}, 0) * arguments.block_size;
  return std::max(largest, std::min(all, exec::GenerationOptions{}.memory_bytes_max / block_bytes));
}

// Throws InputError (usage) if the device has no room for its ranks, which have `share` of the
// whole.
void RequireRoomFor(const GenerateArguments& arguments, ModelSpec model,
                    const std::vector<exec::Generation>& generations, double share) {
  StoreWeightsAs(WeightDTypeOf(arguments), model);
  model.kv_dtype = KvDTypeOf(arguments);
  const std::int64_t blocks = arguments.kv_blocks > 0
                                  ? std::int64_t{arguments.kv_blocks}
                                  : BlocksAtLeast(arguments, model, generations);
  const std::int32_t host_blocks =
      arguments.device == run::ModelDevice::kCpu ? arguments.host_blocks : 0;
  run::RequireRoom(model, blocks + host_blocks, arguments.block_size,
                   run::MemoryOf(arguments.device), share);
}

// The largest step: all prompts at once if the policy has no limit.
exec::StepSizes LargestStep(PolicyConfig policy, const std::vector<exec::Generation>& generations) {
  ResolveContext(policy, exec::LongestSequence(generations));
  const PolicyTraits traits = TraitsOf(policy);
  std::int64_t tokens = 0;
  for (const exec::Generation& g : generations) {
    tokens += static_cast<std::int64_t>(g.prompt.size());
  }
  const auto requests = static_cast<std::int64_t>(generations.size());
  const auto within = [](std::int64_t all, std::int64_t limit) {
    return limit > 0 ? std::min(all, limit) : all;
  };
  return {.tokens = std::max(within(tokens, traits.tokens_per_step_max), requests),
          .sequences = within(requests, traits.sequences_per_step_max)};
}

// The files that rank 0 alone reads and writes.
struct Files {
  std::vector<Prompt> prompts;
  std::vector<exec::Generation> generations;
  std::optional<OutputFile> out;
};

void OpenFiles(const GenerateArguments& arguments, const ModelConfig& config, Files& files) {
  const std::int32_t room = config.shape.max_position - arguments.new_tokens;
  if (room < 1) {
    throw InputError(InputError::Kind::kUsage, "--max-new-tokens",
                     std::to_string(arguments.new_tokens) + "; the model's " +
                         std::to_string(config.shape.max_position) +
                         " positions leave no room for a prompt");
  }
  files.prompts = ReadPrompts(arguments.prompts, {.vocab = config.shape.vocab, .tokens_max = room});
  files.out.emplace(arguments.out);
  files.generations = GenerationsOf(files.prompts, arguments);
}

void GenerateAndWrite(const GenerateArguments& arguments, const PolicyConfig& policy,
                      exec::DeviceModel& model, exec::Communicator& world, Files& files,
                      run::RunControl& control) {
  std::uint64_t steps = 0;
  const exec::GenerationOptions options{.policy = policy,
                                        .keep = arguments.logits,
                                        .stops_at_end_tokens = arguments.stops_at_eos,
                                        .kv_dtype = KvDTypeOf(arguments),
                                        .block_size = arguments.block_size,
                                        .blocks = arguments.kv_blocks,
                                        .host_blocks = arguments.host_blocks,
                                        .on_step = [&] {
                                          run::EndIfStopped(control);
                                          control.OnProgress("steps", ++steps, 0);
                                        }};
  const exec::GenerationCounts counts = exec::Generate(model, files.generations, options, &world);
  control.OnProgressEnd();

  std::size_t tokens = 0;
  for (std::size_t i = 0; i < files.prompts.size(); ++i) {
    const exec::Generation& generation = files.generations[i];
    files.out->Write(GenerationLine(files.prompts[i].number, generation, arguments.logits));
    tokens += generation.output.size();
  }
  files.out->Commit();
  std::cout << "prompts " << files.prompts.size() << ", new tokens " << tokens << ", steps "
            << counts.steps << ", preemptions " << counts.preemptions << ", swapped blocks "
            << counts.swapped_blocks << ", cached prompt tokens " << counts.cached_tokens << "\n";
}

std::int32_t ThreadsOfARank(const GenerateArguments& arguments, std::int32_t ranks_here) {
  if (arguments.threads > 0) return arguments.threads;
  const auto machine = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  return std::max(machine / ranks_here, 1);
}

// Runs one rank's part, from loading to the end. False if another rank has failed; that rank gives
// the reason.
bool GenerateOnRank(const GenerateArguments& arguments, const PolicyConfig& policy,
                    std::int32_t ranks_here, exec::Communicator& world, run::RunControl& control) {
  run::ComputedModel model;
  Files files;
  struct {
    std::int32_t positions = 0;
    exec::StepSizes largest_step;
  } sizes;
  const auto read = [&] {
    run::RequireDevice("--device", arguments.device, "cpu");
    model = run::ReadServedModel({.option = "--model", .model = arguments.model});
    exec::ValidateGrid(model.config, arguments.grid);
    if (world.rank() != 0) return;
    OpenFiles(arguments, model.config, files);
    sizes = {exec::LongestSequence(files.generations), LargestStep(policy, files.generations)};
    const bool cpu = arguments.device == run::ModelDevice::kCpu;
    RequireRoomFor(arguments, model.config.shape, files.generations,
                   static_cast<double>(cpu ? ranks_here : 1) / arguments.grid.devices());
  };
  if (!exec::SucceedTogether(world, read)) return false;
  world.Broadcast(std::as_writable_bytes(std::span(&sizes, 1)), 0);

  const run::RankModel rank = run::LoadRankModel({.config = model.config,
                                                  .weights = model.weights,
                                                  .format = WeightDTypeOf(arguments),
                                                  .model_options = arguments.model_options,
                                                  .grid = arguments.grid,
                                                  .positions = sizes.positions,
                                                  .threads = ThreadsOfARank(arguments, ranks_here),
                                                  .device = arguments.device,
                                                  .largest_step = sizes.largest_step},
                                                 world, control);
  if (rank.model == nullptr) return false;
  if (world.rank() == 0) {
    GenerateAndWrite(arguments, policy, *rank.model, world, files, control);
  } else {
    exec::Follow(*rank.model, world);
  }
  return true;
}

// Runs the ranks: processes if mpirun started several, otherwise threads of this process.
void Generate(const GenerateArguments& arguments, CommandContext& context) {
  TerminalControl control;
  const Duration timeout = DurationFromSeconds(arguments.rank_timeout_s);
  const std::int32_t ranks = arguments.grid.devices();
  const std::int32_t launched = exec::LaunchedRanks();
  const auto check = [&] {
    run::RequireFormat("--dtype", WeightDTypeOf(arguments), run::WeightFormats(arguments.device),
                       arguments.device);
    run::RequireModelOptions(arguments.model_options, WeightDTypeOf(arguments), arguments.device);
    if (launched > 1 && launched != ranks) {
      throw InputError(InputError::Kind::kUsage, "mpirun",
                       "started " + std::to_string(launched) + " ranks; --tensor-parallel " +
                           std::to_string(arguments.grid.tensor) + " times --pipeline-parallel " +
                           std::to_string(arguments.grid.pipeline) + " is " +
                           std::to_string(ranks));
    }
    return ReadCaseParameters(arguments.policy, arguments.policy_params, "--policy");
  };
  if (launched == 1) {
    const PolicyConfig policy = check();
    exec::RunThreadRanks(ranks, timeout, [&](exec::Communicator& world) {
      GenerateOnRank(arguments, policy, ranks, world, control);
    });
    return;
  }
  exec::MpiRanks process(timeout);
  std::optional<PolicyConfig> policy;
  const bool goes_on =
      exec::SucceedTogether(process.world(), [&] { policy = check(); }) &&
      GenerateOnRank(arguments, *policy, exec::LaunchedRanksHere(), process.world(), control);
  if (!goes_on) context.exit_code = 1;
}

void AddModelAndDeviceOptions(CommandParser command, GenerateArguments& arguments) {
  command.AddOption("--model", arguments.model, "Directory of config.json and safetensors")
      .Required();
  command.AddEnumOption<DType>(
      "--dtype", arguments.dtype,
      {{"fp32", DType::kFp32},
       {"bf16", DType::kBf16},
       {"fp16", DType::kFp16},
       {"int8", DType::kInt8},
       {"int4", DType::kInt4},
       {"fp8", DType::kFp8}},
      "Weight format: fp32 (default), bf16, int8 or int4 (layers only) on a CPU; "
      "bf16 (default), fp8 or int4 (both layers only) on CUDA. The KV cache "
      "has the same format, bf16 for int8, int4 and fp8");
  AddModelOptions(command, arguments.model_options);
  command.AddEnumOption<run::ModelDevice>(
      "--device", arguments.device,
      {{"cpu", run::ModelDevice::kCpu}, {"cuda", run::ModelDevice::kCuda}},
      "Device to compute on (default: cpu)");
  command
      .AddOption("--threads", arguments.threads,
                 "Threads per rank (default: all cores, divided by the ranks on this machine)")
      .InRange(1, 1024);
}

void AddGridOptions(CommandParser command, GenerateArguments& arguments) {
  command
      .AddOption("--tensor-parallel", arguments.grid.tensor,
                 "Ranks that share each layer: threads of this process, or the processes of "
                 "mpirun -n RANKS twinserve generate ...")
      .InRange(1, 1024);
  command
      .AddOption("--pipeline-parallel", arguments.grid.pipeline,
                 "Pipeline stages; the policy decides how many steps are in flight")
      .InRange(1, 1024);
  command
      .AddOption("--rank-timeout", arguments.rank_timeout_s,
                 "Seconds that a rank waits for another rank before the run fails")
      .InRange(0.1, 86400.0);
}

void AddSamplingOptions(CommandParser command, GenerateArguments& arguments) {
  kernels::SamplingParameters& sampling = arguments.sampling;
  command
      .AddOption("--temperature", sampling.temperature,
                 "Divides the logits before a token is drawn; 0 (default): always the most likely "
                 "token")
      .InRange(0.0, 1000.0);
  command.AddOption("--top-k", sampling.top_k, "Draw from the K most likely tokens; 0: from all")
      .InRange(0, 1 << 30);
  command
      .AddOption("--top-p", sampling.top_p,
                 "Draw from the fewest most likely tokens whose probabilities sum to P")
      .InRange(1e-6, 1.0);
  command
      .AddOption("--min-p", sampling.min_p,
                 "Draw from the tokens that have at least the share P of the largest probability")
      .InRange(0.0, 1.0);
  command.AddOption("--seed", sampling.seed,
                    "Seed of the draws: equal seeds, prompts and prompt numbers give equal tokens");
  command
      .AddOption("--logprobs", sampling.logprobs,
                 "Write the log-probability of each token, and of the N most likely ones")
      .InRange(0, kernels::kTopLogitsMax);
}

void AddServingOptions(CommandParser command, GenerateArguments& arguments) {
  command.AddOption("--policy", arguments.policy, "Scheduling policy (default: vllm_v1)");
  command.AddOption("--policy-params", arguments.policy_params,
                    "Parameters of the policy: a JSON object, with the original system's names");
  command.AddOption("--block-size", arguments.block_size, "Tokens per KV block").InRange(1, 65536);
  command
      .AddOption("--kv-blocks", arguments.kv_blocks,
                 "KV blocks (default: enough for all prompts at once, up to 4 GiB)")
      .InRange(1, 100'000'000);
  command.AddOption("--host-blocks", arguments.host_blocks, "KV blocks of swap space")
      .InRange(0, 100'000'000);
}

}  // namespace

void AddGenerateCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<GenerateArguments>();
  CommandParser command = app.AddCommand(
      "generate", "Generate tokens for given prompts with the real scheduler and executor");
  AddModelAndDeviceOptions(command, *arguments);
  command
      .AddOption("--prompts", arguments->prompts,
                 "Prompts: NDJSON, one {\"prompt\": i, \"token_ids\": [...]} per line")
      .Required();
  command
      .AddOption("--out", arguments->out,
                 "Output: NDJSON, one {\"prompt\": i, \"greedy\": [...], \"last_logits\": [...], "
                 "\"all_logits\": [[...]]} per line; \"sampled\" instead of \"greedy\" where "
                 "tokens are drawn; \"logprobs\": for each token a list of [token, logarithm], "
                 "its own first")
      .Required();
  command.AddOption("--max-new-tokens", arguments->new_tokens, "New tokens per prompt")
      .InRange(1, 10'000'000);
  command.AddEnumOption<KeptLogits>(
      "--logits", arguments->logits,
      {{"none", KeptLogits::kNone}, {"last", KeptLogits::kLast}, {"all", KeptLogits::kAll}},
      "Write the logits after the last prompt token (default), after all prompt tokens, or none");
  command.AddFlag("--stop-at-eos", arguments->stops_at_eos,
                  "Stop after the model's end-of-sequence token");
  AddSamplingOptions(command, *arguments);
  AddServingOptions(command, *arguments);
  AddGridOptions(command, *arguments);
  command.OnCall([arguments, &context] { Generate(*arguments, context); });
}

}  // namespace twin::apps
