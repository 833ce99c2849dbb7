#include "apps/asked/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "config/servers/servers.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace twin::apps {
namespace {

std::vector<double> NumbersOf(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto number = NumberFrom<double>(part);
    if (!number || !std::isfinite(*number)) return {};
    numbers.push_back(*number);
    if (part.size() == text.size()) return numbers;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

std::string OptionValues::Where(const std::string& option) const {
  return fmt::format("{}: {}", command_, option);
}

void OptionValues::Refuse(const std::string& option, const std::string& what) const {
  throw InputError(InputError::Kind::kUsage, Where(option), what);
}

void OptionValues::RefuseAll(const std::string& what) const {
  throw InputError(InputError::Kind::kUsage, command_, what);
}

std::int64_t OptionValues::CountOf(const GivenOption& option) const {
  const auto count = NumberFrom<std::int64_t>(option.value);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (count && *count >= 1 && *count <= kMost) return *count;
  Refuse(option.name,
         fmt::format("is {}; allowed: a whole number from 1 on", Printable(option.value)));
}

std::optional<std::int64_t> OptionValues::Count(Ask ask) const {
  const GivenOption* const option = asked_.Find(ask);
  return option != nullptr ? std::optional(CountOf(*option)) : std::nullopt;
}

std::uint64_t OptionValues::NaturalNumber(const GivenOption& option) const {
  if (const auto number = NumberFrom<std::uint64_t>(option.value)) return *number;
  Refuse(option.name,
         fmt::format("is {}; allowed: a whole number from 0 on", Printable(option.value)));
}

double OptionValues::NumberAbove0(const GivenOption& option) const {
  const auto number = NumberFrom<double>(option.value);
  if (number && *number > 0 && std::isfinite(*number)) return *number;
  Refuse(option.name, fmt::format("is {}; allowed: a number above 0", Printable(option.value)));
}

double OptionValues::NumberIn(const GivenOption& option, double low, double high,
                              const char* allowed) const {
  const auto number = NumberFrom<double>(option.value);
  if (number && *number >= low && *number <= high) return *number;
  Refuse(option.name, fmt::format("is {}; allowed: {}", Printable(option.value), allowed));
}

std::pair<std::int64_t, std::int64_t> OptionValues::Range(const GivenOption& option) const {
  const std::size_t comma = option.value.find(',');
  const auto low = NumberFrom<std::int32_t>(option.value.substr(0, comma));
  const auto high = comma == std::string::npos
                        ? std::nullopt
                        : NumberFrom<std::int32_t>(option.value.substr(comma + 1));
  if (low && high && *low >= 1 && *low <= *high) return {*low, *high};
  Refuse(option.name,
         fmt::format("is {}; allowed: A,B with 1 <= A <= B, in tokens", Printable(option.value)));
}

const GivenOption* OptionValues::FindRamp() const {
  for (const Ask ask : {Ask::kRamp, Ask::kRampStrategy, Ask::kRampStart, Ask::kRampEnd}) {
    if (const GivenOption* const option = asked_.Find(ask)) return option;
  }
  return nullptr;
}

const GivenOption& OptionValues::Required(Ask ask, const char* name) const {
  if (const GivenOption* const option = asked_.Find(ask)) return *option;
  Refuse(name, "missing; allowed: a rate, beside --ramp-up-strategy linear");
}

OptionValues::Ramp OptionValues::ReadRamp(std::int64_t requests) const {
  if (const GivenOption* const ramp = asked_.Find(Ask::kRamp)) {
    const std::vector<double> numbers = NumbersOf(ramp->value);
    if (numbers.size() == 3 && numbers[0] > 0 && numbers[1] > 0 && numbers[2] > 0) {
      return {numbers[0], numbers[1], numbers[2]};
    }
    Refuse(ramp->name,
           fmt::format("is {}; allowed: R0,R1,SECONDS, all above 0", Printable(ramp->value)));
  }
  const GivenOption& strategy = Required(Ask::kRampStrategy, "--ramp-up-strategy");
  if (strategy.value != "linear") {
    Refuse(strategy.name, fmt::format("is {}; allowed: linear, or --ramp R0,R1,SECONDS",
                                      Printable(strategy.value)));
  }
  const double from = NumberAbove0(Required(Ask::kRampStart, "--ramp-up-start-rps"));
  const double to = NumberAbove0(Required(Ask::kRampEnd, "--ramp-up-end-rps"));
  // Its rate grows from request to request: the time of all of them is the sum of their gaps.
  const double mean_gap = from == to ? 1 / from : std::log(to / from) / (to - from);
  return {from, to, static_cast<double>(requests) * mean_gap};
}

bool OptionValues::IsParallelism(FlagSetting setting) {
  return setting == FlagSetting::kTensorParallel || setting == FlagSetting::kPipelineParallel ||
         setting == FlagSetting::kReplicas;
}

const GivenOption* OptionValues::FindParallelism(FlagSetting setting) const {
  CHECK(IsParallelism(setting));
  const Ask ask = setting == FlagSetting::kTensorParallel     ? Ask::kTensor
                  : setting == FlagSetting::kPipelineParallel ? Ask::kPipeline
                                                              : Ask::kReplicas;
  if (const GivenOption* const own = asked_.Find(ask)) return own;
  for (const GivenOption& flag : asked_.server_flags) {
    if (SettingOfFlag(flag.name) == setting) return &flag;
  }
  return nullptr;
}

// A format of numbers in the experiment's words. vLLM's fp8_e4m3 and fp8_e5m2 take equal space.
std::string OptionValues::Format(const GivenOption& flag) const {
  const std::string& value = flag.value;
  if (value == "auto") return "";
  if (value.starts_with("fp8")) return "fp8";
  if (value == "bfloat16") return "bf16";
  if (value == "float16" || value == "half") return "fp16";
  for (const char* const known : {"int8", "bf16", "fp16"}) {
    if (value == known) return value;
  }
  Refuse(flag.name,
         fmt::format("is {}; allowed: auto, fp8, int8, bf16, fp16; weights that are stored in "
                     "another format come with their config.json (--model)",
                     Printable(value)));
}

std::string OptionValues::FlagValue(const GivenOption& flag, FlagSetting setting) const {
  switch (setting) {
    case FlagSetting::kWeightFormat:
    case FlagSetting::kKvFormat:
      return Format(flag);
    case FlagSetting::kMemoryShare:
      return ShortestText(NumberIn(flag, 1e-6, 1, "a share above 0, at most 1"));
    case FlagSetting::kWaitingServedRatio:
      return ShortestText(NumberIn(flag, 0, 1e9, "a number from 0 on"));
    case FlagSetting::kSchedulePolicy:
      return flag.value;
    case FlagSetting::kPrefixCaching:
      return "true";
    case FlagSetting::kNoPrefixCaching:
      return "false";
    default:
      return std::to_string(CountOf(flag));
  }
}

std::optional<FlagSetting> SettingOfFlag(std::string_view flag) {
  for (const Server* const server : Servers()) {
    const auto found = std::ranges::find(server->flags, flag, &ServerFlag::flag);
    if (found != server->flags.end()) return found->setting;
  }
  return std::nullopt;
}

std::string FieldOfFlag(const ServerSettings& settings, FlagSetting setting) {
  const auto of_policy = [&](std::string_view field) {
    return field.empty() ? "" : fmt::format("policy.{}.{}", settings.policy, field);
  };
  const auto listed = [&](ServerSetting own) {
    return of_policy(settings.fields[static_cast<std::size_t>(own)]);
  };
  switch (setting) {
    case FlagSetting::kWeightFormat:
      return "system.model_shape.weight_dtype";
    case FlagSetting::kKvFormat:
      return "system.model_shape.kv_dtype";
    case FlagSetting::kMemoryShare:
      return "system.memory.utilization";
    case FlagSetting::kTokenBudget:
      return listed(ServerSetting::kTokenBudget);
    case FlagSetting::kMaxNumSeqs:
      return listed(ServerSetting::kMaxNumSeqs);
    case FlagSetting::kMaxModelLen:
      return listed(ServerSetting::kMaxModelLen);
    case FlagSetting::kMaxBatchTotalTokens:
      return listed(ServerSetting::kMaxBatchTotalTokens);
    case FlagSetting::kWaitingServedRatio:
      return listed(ServerSetting::kWaitingServedRatio);
    case FlagSetting::kSchedulePolicy:
      return listed(ServerSetting::kSchedulePolicy);
    case FlagSetting::kMaxConcurrentRequests:
      return of_policy("max_concurrent_requests");
    case FlagSetting::kPrefixCaching:
    case FlagSetting::kNoPrefixCaching:
      return settings.policy == "sglang"    ? of_policy("radix_cache")
             : settings.policy == "vllm_v1" ? of_policy("enable_prefix_caching")
                                            : "";
    case FlagSetting::kTensorParallel:
    case FlagSetting::kPipelineParallel:
    case FlagSetting::kReplicas:
      break;
  }
  CHECK(false);
}

}  // namespace twin::apps
