// The options that describe an experiment on the command line, in place of a file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/experiment_options/line_options.h"
#include "apps/options.h"

namespace twin {
struct Server;
}  // namespace twin

namespace twin::apps {

// The meaning of an option, whichever of its names was written.
enum class ExperimentOption : std::uint8_t {
  kModel,
  kHardware,
  kServer,
  kBackend,         // a server, or the protocol of a client
  kBackendVersion,  // of the server that kBackend names
  kVllmVersion,
  kRate,
  kBurstiness,
  kConcurrency,
  kThink,
  kTrace,
  kFixedSchedule,
  kRateScale,
  kRamp,
  kRampStrategy,
  kRampStart,
  kRampEnd,
  kInputLen,
  kOutputLen,
  kInputRange,
  kOutputRange,
  kRangeRatio,
  kPrefixLen,
  kPreset,
  kDataset,
  kRequests,
  kDuration,
  kHorizon,
  kTensor,
  kPipeline,
  kReplicas,
  kRouter,
  kSeed,
  kTtft,
  kTpot,
  kPolicy,
  kEngine,
  kSequences,  // the limit of sequences, in words that no server has
};

// An option as it was written, with its dashes.
struct GivenOption {
  std::string name;
  std::string value;
};

struct GivenOptions {
  std::map<ExperimentOption, GivenOption> given;  // the last one of each
  std::vector<GivenOption> server_flags;          // in order; empty values: flags without one
  std::vector<std::string> goals;                 // KEY:MS
  std::vector<std::string> ignored;               // names of options without a meaning here

  // All options of --serve and --bench as they were written, and those that are not simulated
  // and may matter, "NAME" or "NAME (why)".
  bool has_launch_line = false;
  std::vector<std::string> launched;
  std::vector<std::string> not_simulated;
  // Whose benchmark of --bench draws the lengths; null: --backend says it.
  const Server* bench = nullptr;

  // Null if it was not given.
  [[nodiscard]] const GivenOption* Find(ExperimentOption which) const;
  // The first option, in the order of ExperimentOption; nullopt if none was given. The options that
  // are ignored count, too.
  [[nodiscard]] std::optional<GivenOption> FirstGiven() const;
};

// Declares the options, which fill in `asked`, among them all flags of servers. Other names of an
// option are accepted, but help texts do not list them; nor do they list flags that are not
// simulated. `line`: the command line. `taken`: a name that the command itself uses; empty: none.
void AddExperimentOptions(CommandParser command, const std::vector<std::string>& line,
                          GivenOptions& asked, std::string_view taken = {});

// The option that names the server; its value is empty if none does.
GivenOption NamedServer(const GivenOptions& asked);

// The option that has this name; nullopt for flags of servers and names of other programs. Dashes
// and underscores are equal.
std::optional<ExperimentOption> OptionNamed(std::string_view name);

// Whether it is an option of load generators or servers that says nothing about the experiment.
bool IsWithoutEffect(std::string_view name);

// The values that an option of a load generator takes; kMany for unknown ones.
ValueCount ValuesOfOption(std::string_view name);

// The field of an experiment that an option of one value sets, as --set names it; empty for all
// other options.
std::string_view FieldOfOption(std::string_view name);

}  // namespace twin::apps
