// The command line that starts a server with given settings.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "config/servers/server.h"
#include "config/servers/settings.h"
#include "core/check.h"
#include "core/dtype.h"
#include "core/model_spec.h"
#include "core/number_text.h"

namespace twin {

// Unset: the server has no such setting, or its default stays.
struct LaunchSettings {
  std::string checkpoint;  // name of the model for the server
  Parallelism parallelism;
  std::optional<DType> weight_dtype = std::nullopt;
  std::int64_t context_tokens = 0;  // prompt + output of one request
  std::optional<double> gpu_memory_utilization = std::nullopt;
  std::optional<std::int64_t> token_budget = std::nullopt;
  std::optional<std::int64_t> max_num_seqs = std::nullopt;
  std::optional<std::int64_t> max_batch_total_tokens = std::nullopt;
  std::optional<double> waiting_served_ratio = std::nullopt;
  std::optional<std::int64_t> max_concurrent_requests = std::nullopt;
  std::optional<std::string> schedule_policy = std::nullopt;
  bool chunks_prefills = false;    // of TensorRT-LLM
  bool separates_prefill = false;  // one of several engines that prefill or decode
};

// Quotes `text` for a POSIX shell, where it needs quotes.
inline std::string QuotedForShell(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Names the checkpoint. Weights of one byte that the server does not convert as it loads need a
// checkpoint of their own, which a variable of the shell stands for.
inline std::string CheckpointArgument(const LaunchSettings& settings, bool converts_fp8) {
  if (settings.weight_dtype == DType::kInt8) return "\"$INT8_CHECKPOINT\"";
  if (settings.weight_dtype == DType::kFp8 && !converts_fp8) return "\"$FP8_CHECKPOINT\"";
  return QuotedForShell(settings.checkpoint);
}

// The flag of a setting. REQUIRES: the server has it.
inline std::string_view FlagOf(std::string_view family, Setting setting) {
  const ServerSetting* const found = FindSetting(family, setting);
  CHECK(found != nullptr);
  return found->flag;
}

// Returns " FLAG VALUE" for a setting that is set, else an empty text.
template <class T>
std::string FlagArgument(std::string_view flag, const std::optional<T>& value) {
  if (!value) return {};
  if constexpr (std::is_same_v<T, double>) {
    return fmt::format(" {} {}", flag, ShortestText(*value));
  } else {
    return fmt::format(" {} {}", flag, *value);
  }
}

}  // namespace twin
