// twinserve generate: tokens in, tokens and logits out, through the real engine and executor.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/commands.h"
#include "apps/progress.h"
#include "apps/prompt_file.h"
#include "core/input_error.h"
#include "exec/generation.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "kernels/thread_pool.h"
#include "proto/policy_params.h"

namespace twin::apps {
namespace {

using exec::KeptLogits;

enum class Device : std::uint8_t { kCpu, kCuda };

struct GenerateArguments {
  std::string model;
  std::string prompts;
  std::string out;
  std::int32_t new_tokens = 24;
  KeptLogits logits = KeptLogits::kLast;
  DType dtype = DType::kFp32;
  Device device = Device::kCpu;
  std::string policy = "vllm_v1";
  std::string policy_params = "{}";
  bool stops_at_eos = false;
  std::int32_t block_size = 16;
  std::int32_t kv_blocks = 0;
  std::int32_t host_blocks = 0;
  std::int32_t threads = 0;
};

std::vector<exec::Generation> GenerationsOf(const std::vector<Prompt>& prompts,
                                            std::int32_t new_tokens) {
  std::vector<exec::Generation> generations(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    generations[i].prompt = prompts[i].token_ids;
    generations[i].tokens_max = new_tokens;
  }
  return generations;
}

std::int32_t LongestSequence(const std::vector<exec::Generation>& generations) {
  std::size_t longest = 1;
  for (const exec::Generation& g : generations) {
    longest = std::max(longest, g.prompt.size() + static_cast<std::size_t>(g.tokens_max));
  }
  return static_cast<std::int32_t>(longest);
}

void Generate(const GenerateArguments& arguments) {
  if (arguments.device == Device::kCuda) {
    throw InputError(InputError::Kind::kUsage, "--device",
                     "cuda: generate has no CUDA executor in this build; allowed: cpu");
  }
  const PolicyConfig policy =
      ReadPolicyParams(arguments.policy, arguments.policy_params, "--policy");
  exec::ModelConfig config = exec::ReadModelConfig(arguments.model);
  const std::int32_t room = config.shape.max_position - arguments.new_tokens;
  if (room < 1) {
    throw InputError(InputError::Kind::kUsage, "--max-new-tokens",
                     std::to_string(arguments.new_tokens) + "; the model's " +
                         std::to_string(config.shape.max_position) +
                         " positions leave no room for a prompt");
  }
  const std::vector<Prompt> prompts =
      ReadPrompts(arguments.prompts, {.vocab = config.shape.vocab, .tokens_max = room});
  CompleteFile out(arguments.out);

  const auto machine = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  kernels::ThreadPool pool(arguments.threads > 0 ? arguments.threads : std::max(machine, 1));
  exec::LoadedWeights loaded = exec::LoadWeights(arguments.model, config, arguments.dtype, pool);
  for (const std::string& warning : loaded.warnings) std::cerr << "warning: " << warning << "\n";

  std::vector<exec::Generation> generations = GenerationsOf(prompts, arguments.new_tokens);
  exec::CpuModel model(std::move(config), std::move(loaded.weights), LongestSequence(generations),
                       pool);
  Progress progress("steps", 0);
  std::uint64_t steps = 0;
  exec::GenerationOptions options{
      .policy = policy,
      .keep = arguments.logits,
      .stops_at_end_tokens = arguments.stops_at_eos,
      .kv_dtype = arguments.dtype == DType::kFp32 ? DType::kFp32 : DType::kBf16,
      .block_size = arguments.block_size,
      .blocks = arguments.kv_blocks,
      .host_blocks = arguments.host_blocks,
      .on_step = [&] { progress.Show(++steps); }};
  const exec::GenerationCounts counts = exec::Generate(model, generations, options);

  std::size_t tokens = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    out.stream() << GenerationLine(prompts[i].number, generations[i], arguments.logits);
    tokens += generations[i].output.size();
  }
  out.Commit();
  std::cout << "prompts " << prompts.size() << ", new tokens " << tokens << ", steps "
            << counts.steps << ", preemptions " << counts.preemptions << ", swapped blocks "
            << counts.swapped_blocks << ", cached prompt tokens " << counts.cached_tokens << "\n";
}

void AddModelOptions(CLI::App& command, GenerateArguments& arguments) {
  const std::map<std::string, DType> dtypes{
      {"fp32", DType::kFp32}, {"bf16", DType::kBf16}, {"int8", DType::kInt8}};
  const std::map<std::string, Device> devices{{"cpu", Device::kCpu}, {"cuda", Device::kCuda}};
  command.add_option("--model", arguments.model, "Directory of config.json and safetensors")
      ->required();
  command
      .add_option("--dtype", arguments.dtype,
                  "Weights; the KV cache is fp32 for fp32 and bf16 otherwise")
      ->transform(CLI::CheckedTransformer(dtypes));
  command.add_option("--device", arguments.device, "Where to compute")
      ->transform(CLI::CheckedTransformer(devices));
  command.add_option("--threads", arguments.threads, "Default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
}

void AddServingOptions(CLI::App& command, GenerateArguments& arguments) {
  command.add_option("--policy", arguments.policy, "Scheduling policy");
  command.add_option("--policy-params", arguments.policy_params,
                     "Its parameters, a JSON object under the names of the original system");
  command.add_option("--block-size", arguments.block_size, "Tokens per KV block")
      ->check(CLI::Range(1, 65536));
  command
      .add_option("--kv-blocks", arguments.kv_blocks,
                  "KV blocks; default: what all prompts take at once, up to 4 GiB")
      ->check(CLI::Range(1, 100'000'000));
  command.add_option("--host-blocks", arguments.host_blocks, "KV blocks of swap space")
      ->check(CLI::Range(0, 100'000'000));
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand(
      "generate", "Tokens in, tokens and logits out, through the real engine and executor");
  const std::map<std::string, KeptLogits> kept{
      {"none", KeptLogits::kNone}, {"last", KeptLogits::kLast}, {"all", KeptLogits::kAll}};
  AddModelOptions(*command, *arguments);
  command
      ->add_option("--prompts", arguments->prompts,
                   "NDJSON, {\"prompt\": i, \"token_ids\": [...]} a line")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "NDJSON, {\"prompt\": i, \"greedy\": [...], \"last_logits\": [...], "
                   "\"all_logits\": [[...]]} a line")
      ->required();
  command->add_option("--max-new-tokens", arguments->new_tokens, "Tokens per prompt")
      ->check(CLI::Range(1, 10'000'000));
  command
      ->add_option("--logits", arguments->logits,
                   "Behind the last prompt token, behind all of them, or none")
      ->transform(CLI::CheckedTransformer(kept));
  command->add_flag("--stop-at-eos", arguments->stops_at_eos,
                    "End an output behind the model's end-of-sequence token");
  AddServingOptions(*command, *arguments);
  command->callback([arguments] { Generate(*arguments); });
}

}  // namespace twin::apps
