#include "apps/experiment_options/option_values.h"

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

std::optional<std::int64_t> OptionValues::Count(ExperimentOption which) const {
  const GivenOption* const option = asked_.Find(which);
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
  for (const ExperimentOption which : {ExperimentOption::kRamp, ExperimentOption::kRampStrategy,
                                       ExperimentOption::kRampStart, ExperimentOption::kRampEnd}) {
    if (const GivenOption* const option = asked_.Find(which)) return option;
  }
  return nullptr;
}

const GivenOption& OptionValues::Required(ExperimentOption which, const char* name) const {
  if (const GivenOption* const option = asked_.Find(which)) return *option;
  Refuse(name, "missing; allowed: a rate, beside --ramp-up-strategy linear");
}

OptionValues::Ramp OptionValues::ReadRamp(std::int64_t requests) const {
  if (const GivenOption* const ramp = asked_.Find(ExperimentOption::kRamp)) {
    const std::vector<double> numbers = NumbersOf(ramp->value);
    if (numbers.size() == 3 && numbers[0] > 0 && numbers[1] > 0 && numbers[2] > 0) {
      return {numbers[0], numbers[1], numbers[2]};
    }
    Refuse(ramp->name,
           fmt::format("is {}; allowed: R0,R1,SECONDS, all above 0", Printable(ramp->value)));
  }
  const GivenOption& strategy = Required(ExperimentOption::kRampStrategy, "--ramp-up-strategy");
  if (strategy.value != "linear") {
    Refuse(strategy.name, fmt::format("is {}; allowed: linear, or --ramp R0,R1,SECONDS",
                                      Printable(strategy.value)));
  }
  const double from = NumberAbove0(Required(ExperimentOption::kRampStart, "--ramp-up-start-rps"));
  const double to = NumberAbove0(Required(ExperimentOption::kRampEnd, "--ramp-up-end-rps"));
  // Its rate grows from request to request: the time of all of them is the sum of their gaps.
  const double mean_gap = from == to ? 1 / from : std::log(to / from) / (to - from);
  return {from, to, static_cast<double>(requests) * mean_gap};
}

bool OptionValues::IsParallelism(Setting setting) {
  return setting == Setting::kTensorParallel || setting == Setting::kPipelineParallel ||
         setting == Setting::kReplicas;
}

const GivenOption* OptionValues::FindParallelism(Setting setting) const {
  CHECK(IsParallelism(setting));
  const ExperimentOption which = setting == Setting::kTensorParallel ? ExperimentOption::kTensor
                                 : setting == Setting::kPipelineParallel
                                     ? ExperimentOption::kPipeline
                                     : ExperimentOption::kReplicas;
  if (const GivenOption* const own = asked_.Find(which)) return own;
  const auto last =
      std::find_if(asked_.server_flags.rbegin(), asked_.server_flags.rend(),
                   [&](const GivenOption& flag) { return SettingOfFlag(flag.name) == setting; });
  return last == asked_.server_flags.rend() ? nullptr : &*last;
}

Setting SettingOfFlag(std::string_view flag) {
  for (const Server* const server : Servers()) {
    const auto found = FindSetting(server->family, flag);
    if (found && found->row->setting != Setting::kOther) return found->row->setting;
  }
  return Setting::kOther;
}

}  // namespace twin::apps
