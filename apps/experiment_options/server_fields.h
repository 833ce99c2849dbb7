// The fields of an experiment that flags of a server set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/experiment_options/option_experiment.h"
#include "apps/experiment_options/option_values.h"
#include "config/servers/servers.h"
#include "config/servers/settings.h"

namespace twin::apps {

// Writes the changes of flags, and the flags that are not simulated, to `made`. Functions throw
// InputError (usage) with the option, what is wrong, what is allowed. Borrows all it is given.
class ServerFields {
 public:
  // `model`, `server`: as system.model and system.server of the experiment.
  ServerFields(const GivenOptions& asked, const OptionValues& values, const std::string& model,
               const std::string& server, OptionExperiment& made)
      : asked_(asked), values_(values), model_(model), server_(server), made_(made) {}

  void WriteParallelism();
  void WriteFlags();

 private:
  void Set(const std::string& path, std::string_view value);
  [[nodiscard]] const GivenOption* Find(ExperimentOption which) const { return asked_.Find(which); }
  void WriteRanks(const std::string& option, std::int64_t count);
  void WriteReplicas(const GivenOption& copies);
  void WriteFlag(const GivenOption& flag);
  void WriteMeaning(const GivenOption& flag, const FoundSetting& setting, std::string_view policy);
  void WriteExpertRanks(const GivenOption& flag);
  void WriteSpeculation(const GivenOption& flag, const ServerSetting& setting);
  bool WritePositions(const GivenOption& flag);
  [[nodiscard]] bool MayDiffer(const ServerSetting& setting, const SettingMeaning& meaning) const;
  void NoteDifference(const GivenOption& flag, const ServerSetting& setting);
  [[noreturn]] void RefuseForeignFlag(const GivenOption& flag, const Server& server) const;

  const GivenOptions& asked_;
  const OptionValues& values_;
  const std::string& model_;
  const std::string& server_;
  OptionExperiment& made_;
};

}  // namespace twin::apps
