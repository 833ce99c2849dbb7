// Changes of an experiment that the program proposes, as a user would write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "config/servers/servers.h"

namespace twin::apps {

struct ProposedChange {
  std::string text;                 // as a user writes it: "--max-num-seqs 512"
  std::vector<std::string> fields;  // the same, as --set takes them
};

// Writes changes as options of a command line, or as --set PATH=VALUE.
class ChangeWriter {
 public:
  // Borrows the config. `has_options`: the user describes the experiment by options.
  ChangeWriter(const ExperimentConfig& config, bool has_options);

  // A field that the program has an option for.
  [[nodiscard]] ProposedChange Of(const std::string& option, const std::string& path,
                                  const std::string& value) const;
  // A setting of the policy, by the flag of its server; nullopt where the policy has no such
  // setting.
  [[nodiscard]] std::optional<ProposedChange> Of(Setting setting, const std::string& value) const;
  [[nodiscard]] ProposedChange Replicas(std::int64_t replicas) const;
  // Nullopt where the heads of the model do not divide into twice as many ranks.
  [[nodiscard]] std::optional<ProposedChange> TwiceTheRanks() const;

 private:
  const ExperimentConfig& config_;
  std::string policy_;
  std::optional<ListedServer> server_;
  bool has_options_;
};

}  // namespace twin::apps
