#include "apps/recommend/server_command.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <type_traits>

#include "apps/recommend/server_settings.h"
#include "core/check.h"
#include "core/number_text.h"

namespace twin::run {
namespace {

// Quotes a text for a POSIX shell.
std::string Quoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Whether the weights need a checkpoint of their own: they have one byte, and the server does not
// convert them as it loads.
std::string CheckpointOf(const Candidate& candidate, bool converts_fp8) {
  const std::optional<DType>& type = candidate.choice.weight_dtype;
  if (type == DType::kInt8) return "\"$INT8_CHECKPOINT\"";
  if (type == DType::kFp8 && !converts_fp8) return "\"$FP8_CHECKPOINT\"";
  return Quoted(candidate.checkpoint);
}

// " FLAG VALUE" for a setting that is set.
template <class T>
std::string Flag(std::string_view flag, const std::optional<T>& value) {
  if (!value) return {};
  if constexpr (std::is_same_v<T, double>) {
    return fmt::format(" {} {}", flag, ShortestText(*value));
  } else {
    return fmt::format(" {} {}", flag, *value);
  }
}

std::string VllmCommand(const Candidate& candidate) {
  const CandidateSettings& choice = candidate.choice;
  std::string command =
      fmt::format("vllm serve {} --tensor-parallel-size {}", CheckpointOf(candidate, true),
                  choice.layout.parallelism.tensor);
  if (choice.layout.parallelism.pipeline > 1)
    command += fmt::format(" --pipeline-parallel-size {}", choice.layout.parallelism.pipeline);
  if (choice.weight_dtype == DType::kFp8) command += " --quantization fp8";
  command += Flag("--max-num-batched-tokens", choice.token_budget);
  command += Flag("--max-num-seqs", choice.max_num_seqs);
  command += fmt::format(" --max-model-len {}", candidate.deployment.context_tokens_max);
  command += Flag("--gpu-memory-utilization", choice.gpu_memory_utilization);
  // Prefill and decode replicas take the same option: the proxy in front of them decides who
  // prefills.
  if (choice.layout.prefill_replicas > 0)
    command += R"( --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}')";
  return command;
}

std::string SglangCommand(const Candidate& candidate) {
  const CandidateSettings& choice = candidate.choice;
  std::string command =
      fmt::format("python -m sglang.launch_server --model-path {} --tp-size {}",
                  CheckpointOf(candidate, true), choice.layout.parallelism.tensor);
  if (choice.weight_dtype == DType::kFp8) command += " --quantization fp8";
  command += Flag("--chunked-prefill-size", choice.token_budget);
  command += Flag("--max-running-requests", choice.max_num_seqs);
  command += Flag("--schedule-policy", choice.schedule_policy);
  command += fmt::format(" --context-length {}", candidate.deployment.context_tokens_max);
  return command + Flag("--mem-fraction-static", choice.gpu_memory_utilization);
}

std::string TgiCommand(const Candidate& candidate) {
  const CandidateSettings& choice = candidate.choice;
  std::string command =
      fmt::format("text-generation-launcher --model-id {} --num-shard {}",
                  CheckpointOf(candidate, true), choice.layout.parallelism.tensor);
  if (choice.weight_dtype == DType::kFp8) command += " --quantize fp8";
  command += Flag("--max-batch-prefill-tokens", choice.token_budget);
  command += Flag("--max-batch-total-tokens", choice.max_batch_total_tokens);
  command += Flag("--max-batch-size", choice.max_num_seqs);
  command += Flag("--waiting-served-ratio", choice.waiting_served_ratio);
  const std::int32_t longest = candidate.deployment.context_tokens_max;
  command += fmt::format(" --max-input-tokens {} --max-total-tokens {}", longest - 1, longest);
  command += Flag("--cuda-memory-fraction", choice.gpu_memory_utilization);
  return command + fmt::format(" --max-concurrent-requests {}", kTgiConcurrentRequests);
}

// Chunked prefills are switched on by a file, which every release of trtllm-serve reads.
std::string TrtllmCommand(const Candidate& candidate) {
  const CandidateSettings& choice = candidate.choice;
  const bool chunks = choice.context_chunking_policy == "FIRST_COME_FIRST_SERVED";
  std::string command =
      chunks ? "echo 'enable_chunked_prefill: true' > trtllm.yaml && " : std::string();
  command += fmt::format("trtllm-serve {} --tp_size {}", CheckpointOf(candidate, false),
                         choice.layout.parallelism.tensor);
  command += Flag("--max_batch_size", choice.max_num_seqs);
  command += Flag("--max_num_tokens", choice.token_budget);
  command += fmt::format(" --max_seq_len {}", candidate.deployment.context_tokens_max);
  command += Flag("--kv_cache_free_gpu_memory_fraction", choice.gpu_memory_utilization);
  return chunks ? command + " --extra_llm_api_options trtllm.yaml" : command;
}

}  // namespace

std::string ServerCommand(const Candidate& candidate) {
  const std::string_view policy = PolicyOf(candidate.choice.server);
  if (policy == "sglang") return SglangCommand(candidate);
  if (policy == "tgi_v2" || policy == "tgi_v3") return TgiCommand(candidate);
  if (policy == "trtllm") return TrtllmCommand(candidate);
  CHECK(policy == "vllm_v0" || policy == "vllm_v1");
  return VllmCommand(candidate);
}

}  // namespace twin::run
