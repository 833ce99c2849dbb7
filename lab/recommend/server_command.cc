#include "lab/recommend/server_command.h"

#include <fmt/format.h>

#include "core/check.h"
#include "record/number_text.h"

namespace twin::lab {
namespace {

// For a POSIX shell.
std::string Quoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string VllmCommand(const Candidate& candidate) {
  const Choice& choice = candidate.choice;
  const bool int8 = choice.weight_dtype == DType::kInt8;
  std::string command =
      fmt::format("vllm serve {}", int8 ? "\"$INT8_CHECKPOINT\"" : Quoted(candidate.checkpoint));
  command += fmt::format(" --tensor-parallel-size {}", choice.parallelism.tensor);
  if (choice.parallelism.pipeline > 1)
    command += fmt::format(" --pipeline-parallel-size {}", choice.parallelism.pipeline);
  if (choice.weight_dtype == DType::kFp8) command += " --quantization fp8";
  if (choice.token_budget)
    command += fmt::format(" --max-num-batched-tokens {}", *choice.token_budget);
  if (choice.max_num_seqs) command += fmt::format(" --max-num-seqs {}", *choice.max_num_seqs);
  command += fmt::format(" --max-model-len {}", candidate.deployment.context_tokens_max);
  if (choice.gpu_memory_utilization) {
    command +=
        fmt::format(" --gpu-memory-utilization {}", ShortestText(*choice.gpu_memory_utilization));
  }
  return command;
}

}  // namespace

std::string ServerCommand(const Candidate& candidate) {
  CHECK(candidate.choice.server.starts_with("vllm-"));
  return VllmCommand(candidate);
}

}  // namespace twin::lab
