#include "apps/trace/trace_generate_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/options.h"
#include "apps/progress.h"
#include "config/experiment_config.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "traces/trace_writer.h"
#include "traces/workload.h"

namespace twin::apps {
namespace {

struct GenerateFlags {
  std::string out;
  std::string experiment;
  std::vector<std::string> assignments;
  std::uint64_t seed = 0;
  std::int64_t requests = 0;
  double duration_s = 0;
  ArrivalConfig::Kind arrivals = ArrivalConfig::Kind::kPoisson;
  double rate = 1;
  double rate_to = 0;
  double ramp_s = 0;
  double cv = 1;
  WorkloadPreset preset = WorkloadPreset::kNone;
  std::string prompt;
  std::string output;
  std::int32_t shared_prompts = 0;
  std::int32_t shared_tokens = 0;
  double zipf = 1;
};

// The numbers behind "name:" in text like "uniform:1,100".
std::vector<double> ParseNumbers(const std::string& flag, const std::string& text) {
  std::vector<double> numbers;
  std::size_t begin = text.find(':');
  while (begin != std::string::npos) {
    const std::size_t end = text.find(',', ++begin);
    const std::string number = text.substr(begin, end == std::string::npos ? end : end - begin);
    std::size_t used = 0;
    try {
      numbers.push_back(std::stod(number, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != number.size()) {
      throw InputError(
          InputError::Kind::kUsage, flag,
          "found '" + Printable(number) + "' in '" + Printable(text) + "'; allowed: a number");
    }
    begin = end;
  }
  return numbers;
}

std::int32_t ToCount(const std::string& flag, double value) {
  if (value >= 1 && value <= 1073741823.0 && value == static_cast<std::int32_t>(value)) {
    return static_cast<std::int32_t>(value);
  }
  throw InputError(InputError::Kind::kUsage, flag,
                   fmt::format("found {}; allowed: an integer from 1 to 1073741823", value));
}

IntegerDistribution ParseLengths(const std::string& flag, const std::string& text) {
  using Kind = IntegerDistribution::Kind;
  const std::string name = text.substr(0, text.find(':'));
  const std::vector<double> numbers =
      name == "file" ? std::vector<double>{} : ParseNumbers(flag, text);
  IntegerDistribution lengths;
  if (name == "file" && text.size() > 5) {
    lengths.kind = Kind::kEmpirical;
    lengths.path = text.substr(5);
  } else if (name == "fixed" && numbers.size() == 1) {
    lengths.kind = Kind::kFixed;
    lengths.value = ToCount(flag, numbers[0]);
  } else if (name == "uniform" && numbers.size() == 2) {
    lengths.kind = Kind::kUniform;
    lengths.min = ToCount(flag, numbers[0]);
    lengths.max = ToCount(flag, numbers[1]);
  } else if (name == "lognormal" && (numbers.size() == 2 || numbers.size() == 3)) {
    lengths.kind = Kind::kLogNormal;
    lengths.mean = numbers[0];
    lengths.sigma = numbers[1];
    if (numbers.size() == 3) lengths.max = ToCount(flag, numbers[2]);
  } else if (name == "zipf" && numbers.size() == 3) {
    lengths.kind = Kind::kZipf;
    lengths.exponent = numbers[0];
    lengths.min = ToCount(flag, numbers[1]);
    lengths.max = ToCount(flag, numbers[2]);
  } else {
    throw InputError(InputError::Kind::kUsage, flag,
                     "found '" + Printable(text) +
                         "'; allowed: fixed:N, uniform:MIN,MAX, lognormal:MEAN,SIGMA[,MAX], "
                         "zipf:EXPONENT,MIN,MAX, file:QUANTILES.csv");
  }
  return lengths;
}

Duration ToDuration(const std::string& flag, double seconds) {
  if (seconds >= 0 && seconds <= 4e9) return DurationFromSeconds(seconds);
  throw InputError(InputError::Kind::kUsage, flag,
                   fmt::format("found {}; allowed: seconds from 0 to 4e9", seconds));
}

WorkloadConfig ToWorkload(const GenerateFlags& flags) {
  WorkloadConfig config;
  config.requests = flags.requests;
  config.duration = ToDuration("--duration", flags.duration_s);
  config.arrivals = {.kind = flags.arrivals,
                     .rate = flags.rate,
                     .rate_to = flags.rate_to,
                     .cv = flags.cv,
                     .ramp = ToDuration("--ramp", flags.ramp_s)};
  config.preset = flags.preset;
  if (!flags.prompt.empty()) config.shape.prompt = ParseLengths("--prompt", flags.prompt);
  if (!flags.output.empty()) config.shape.output = ParseLengths("--output", flags.output);
  config.shape.shared_prefix = {
      .prompts = flags.shared_prompts, .tokens = flags.shared_tokens, .zipf_exponent = flags.zipf};
  return config;
}

struct DrawnWorkload {
  WorkloadConfig config;
  std::uint64_t seed = 0;
};

DrawnWorkload Workload(const GenerateFlags& flags) {
  if (flags.experiment.empty()) return {ToWorkload(flags), flags.seed};
  const ExperimentConfig experiment = ReadExperiment(flags.experiment, flags.assignments);
  return {experiment.workload, experiment.seed};
}

// Writes the requests as they come if each is done the moment it arrives: what waits for an end (a
// session's next turn, a user of a closed loop) then comes a think time later.
void RunGenerate(const GenerateFlags& flags) {
  const DrawnWorkload workload = Workload(flags);
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(workload.config, workload.seed);
  TraceWriter writer(flags.out, /*has_arrivals=*/true);
  {
    Progress progress("requests drawn", static_cast<std::uint64_t>(workload.config.requests));
    std::uint32_t id = 0;
    while (const TracedRequest* request = source->Peek()) {
      const TimePoint arrival = request->arrival;
      const std::int32_t answer_tokens = request->output_tokens;
      writer.Write(*request);
      source->Take();
      source->OnDone(RequestId{id++}, arrival, answer_tokens);
      progress.Show(id);
    }
  }
  writer.Commit();
}

void AddSimpleFlags(CommandParser command, GenerateFlags& flags) {
  command.AddOption("--seed", flags.seed, "Seed of all random numbers").ShowDefault();
  command.AddOption("--requests", flags.requests, "Number of requests; 0 = until --duration");
  command.AddOption("--duration", flags.duration_s, "Seconds of arrivals; 0 = until --requests");
  using Kind = ArrivalConfig::Kind;
  command.AddEnumOption<Kind>("--arrivals", flags.arrivals,
                              {{"poisson", Kind::kPoisson},
                               {"gamma", Kind::kGamma},
                               {"weibull", Kind::kWeibull},
                               {"constant", Kind::kConstant},
                               {"ramp", Kind::kRamp},
                               {"all_at_once", Kind::kAllAtOnce}},
                              "Arrival process (default: poisson)");
  command.AddOption("--rate", flags.rate, "Requests per second").ShowDefault();
  command.AddOption("--rate-to", flags.rate_to, "Requests per second at the end of a ramp");
  command.AddOption("--ramp", flags.ramp_s, "Length of a ramp, seconds");
  command.AddOption("--cv", flags.cv, "Coefficient of variation of gamma and weibull gaps")
      .ShowDefault();
  command.AddEnumOption<WorkloadPreset>(
      "--preset", flags.preset,
      {{"conversation", WorkloadPreset::kConversation}, {"code", WorkloadPreset::kCode}},
      "Draw lengths as in the Azure traces of 2023");
  command.AddOption("--prompt", flags.prompt,
                    "Prompt lengths: fixed:N, uniform:MIN,MAX, lognormal:MEAN,SIGMA[,MAX], "
                    "zipf:EXPONENT,MIN,MAX, file:QUANTILES.csv");
  command.AddOption("--output", flags.output, "Output lengths, in the same form");
  command.AddOption("--shared-prompts", flags.shared_prompts, "Number of system prompts");
  command.AddOption("--shared-tokens", flags.shared_tokens, "Tokens per system prompt");
  command.AddOption("--zipf", flags.zipf, "Zipf exponent of the popularity of system prompts");
}

}  // namespace

void AddTraceGenerateCommand(CommandParser trace) {
  const auto flags = std::make_shared<GenerateFlags>();
  CommandParser command = trace.AddCommand(
      "generate", "Draw a workload and write it as CSV in the format of twinserve");
  command.AddOption("out", flags->out, "Output file; compressed if its name ends in .gz")
      .Required();
  AddSimpleFlags(command, *flags);
  const std::vector<CommandOption> simple = command.NamedOptions();
  // Sessions, tenants, classes, closed loops, traces that are scaled or repeated: all of a
  // workload.
  CommandOption experiment =
      command.AddOption("--experiment", flags->experiment,
                        "Use the workload and the seed of this experiment file instead");
  for (const CommandOption option : simple) experiment.Excludes(option);
  OverrideOptions overrides = AddOverrideOptions(command, flags->assignments);
  overrides.set.Needs(experiment);
  overrides.unset.Needs(experiment);
  command.OnCall([flags] { RunGenerate(*flags); });
}

}  // namespace twin::apps
