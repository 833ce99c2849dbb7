// Values of options that describe an experiment: numbers and ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "apps/experiment_options/given_options.h"
#include "config/servers/settings.h"

namespace twin::apps {

// Reads values, and refuses them with the option that they belong to: all functions that read
// throw InputError (usage). Borrows the options.
class OptionValues {
 public:
  struct Ramp {
    double from = 0;  // requests per second
    double to = 0;
    double seconds = 0;
  };

  OptionValues(const GivenOptions& asked, std::string command)
      : asked_(asked), command_(std::move(command)) {}

  [[nodiscard]] std::string Where(const std::string& option) const;
  [[noreturn]] void Refuse(const std::string& option, const std::string& what) const;
  // Refuses the options as a whole.
  [[noreturn]] void RefuseAll(const std::string& what) const;

  // A whole number from 1 on.
  [[nodiscard]] std::int64_t CountOf(const GivenOption& option) const;
  [[nodiscard]] std::optional<std::int64_t> Count(ExperimentOption which) const;
  [[nodiscard]] std::uint64_t NaturalNumber(const GivenOption& option) const;
  [[nodiscard]] double NumberAbove0(const GivenOption& option) const;
  // `allowed` describes the range, whose ends are allowed.
  [[nodiscard]] double NumberIn(const GivenOption& option, double low, double high,
                                const char* allowed) const;
  // "A,B" with 1 <= A <= B.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> Range(const GivenOption& option) const;

  // The option that makes the rate grow; null if there is none.
  [[nodiscard]] const GivenOption* FindRamp() const;
  // REQUIRES: FindRamp(). vLLM's ramp ends with the last of `requests`.
  [[nodiscard]] Ramp ReadRamp(std::int64_t requests) const;

  static bool IsParallelism(Setting setting);
  // The option that sets ranks, stages or replicas, in the words of any server; null if there is
  // none. REQUIRES: IsParallelism(setting).
  [[nodiscard]] const GivenOption* FindParallelism(Setting setting) const;

 private:
  [[nodiscard]] const GivenOption& Required(ExperimentOption which, const char* name) const;

  const GivenOptions& asked_;
  std::string command_;
};

// The setting of a flag of any server; kOther for other names.
Setting SettingOfFlag(std::string_view flag);

}  // namespace twin::apps
