#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/options.h"
#include "apps/progress.h"
#include "config/experiment_config.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "run/served_run.h"
#include "traces/answered_at_once.h"
#include "traces/trace_format.h"
#include "traces/trace_statistics.h"
#include "traces/trace_writer.h"
#include "traces/workload.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

// Progress::Show looks at the clock; rows are read faster than that.
constexpr std::uint64_t kRowsPerLook = 4096;

struct InputFlags {
  std::string path;
  std::string format;
  std::vector<std::string> filters;
  FailedRows failed_rows = FailedRows::kSkip;
};

std::string FormatNames() {
  std::string names;
  for (const TraceFormat& format : TraceFormats()) {
    names += "\n    " + format.name + ": " + format.description;
  }
  return names;
}

void AddInputFlags(CommandParser command, InputFlags& flags) {
  command.AddOption("file", flags.path, "The trace, plain or gzip").Required();
  command.AddOption("--from", flags.format,
                    "Its format, otherwise recognised from its content:" + FormatNames());
  command.AddOption("--filter", flags.filters, "Keep rows with COLUMN=VALUE (repeatable)");
  command.AddEnumOption<FailedRows>("--failed-rows", flags.failed_rows,
                                    {{"skip", FailedRows::kSkip},
                                     {"refuse", FailedRows::kRefuse},
                                     {"one_token", FailedRows::kOneToken},
                                     {"one-token", FailedRows::kOneToken}},
                                    "What to do with rows of failed requests");
}

std::unique_ptr<TraceReader> Open(const InputFlags& flags) {
  TraceReadOptions options;
  options.failed_rows = flags.failed_rows;
  for (const std::string& filter : flags.filters) {
    const std::size_t equals = filter.find('=');
    if (equals == std::string::npos) {
      throw InputError(InputError::Kind::kUsage, "--filter",
                       "found '" + filter + "'; allowed: COLUMN=VALUE");
    }
    options.filters.push_back({filter.substr(0, equals), filter.substr(equals + 1)});
  }
  return OpenTrace(flags.path, flags.format, options);
}

void WarnOfMissingNewline(const TraceReader& reader) {
  if (!reader.may_be_cut()) return;
  std::fprintf(stderr, "warning: %s:%lld: the last line has no end; it may have been cut\n",
               reader.lines().name().c_str(), static_cast<long long>(reader.lines().line_number()));
}

void ShowNote(const std::string& path, const TraceReader& reader) {
  const std::string note = NoteText(reader.counts(), reader.note());
  if (!note.empty()) std::fprintf(stderr, "%s: %s\n", path.c_str(), note.c_str());
}

Json ToJson(const Percentiles& p, double unit) {
  return {{"mean", p.mean / unit},
          {"p50", p.p50 / unit},
          {"p90", p.p90 / unit},
          {"p99", p.p99 / unit},
          {"max", p.max / unit}};
}

Json Describe(const TraceStatistics& statistics, const TraceReader& reader) {
  Json json{{"file", reader.lines().name()},
            {"requests", statistics.requests()},
            {"skipped_failures", reader.counts().skipped_failures},
            {"filtered", reader.counts().filtered},
            {"tenants", statistics.tenants()},
            {"prompt_tokens", ToJson(ComputePercentiles(statistics.prompts()), 1)},
            {"output_tokens", ToJson(ComputePercentiles(statistics.outputs()), 1)}};
  if (reader.has_arrivals()) {
    json["duration_s"] = Seconds(statistics.duration());
    json["rate_rps"] = statistics.rate();
    if (statistics.gaps_ns().count() > 0) {
      json["interarrival_cv"] = statistics.gap_cv();
      json["interarrival_s"] = ToJson(ComputePercentiles(statistics.gaps_ns()), 1e9);
    }
    for (const DispersionIndex& index : statistics.dispersion()) {
      const std::optional<double> value = index.value();
      const auto window_s = std::chrono::duration_cast<std::chrono::seconds>(index.window());
      json["idc_" + std::to_string(window_s.count()) + "s"] = value ? Json(*value) : Json();
    }
  }
  if (statistics.has_content()) {
    json["ideal_hit_token_share"] = statistics.hit_token_share();
    json["ideal_hit_request_share"] = statistics.hit_request_share();
  }
  return json;
}

void PrintTable(const Json& json) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) continue;
    const std::string text = value.is_string() ? value.get<std::string>()
                             : value.is_null() ? "- (fewer than 20 windows)"
                                               : value.dump();
    std::printf("%-24s %s\n", name.c_str(), text.c_str());
  }
  std::printf("\n%-18s %12s %12s %12s %12s %12s\n", "", "mean", "p50", "p90", "p99", "max");
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) continue;
    std::printf("%-18s", name.c_str());
    for (const auto& [column, number] : value.items()) {
      std::printf(" %12.6g", number.get<double>());
    }
    std::printf("\n");
  }
}

void RunInfo(const InputFlags& flags, bool as_json) {
  const std::unique_ptr<TraceReader> reader = Open(flags);
  TraceStatistics statistics;
  {
    Progress progress("requests read", 0);
    TracedRequest request;
    while (reader->Next(request)) {
      statistics.Add(request);
      const auto read = static_cast<std::uint64_t>(statistics.requests());
      if (read % kRowsPerLook == 0) progress.Show(read);
    }
  }
  WarnOfMissingNewline(*reader);
  ShowNote(flags.path, *reader);
  const Json json = Describe(statistics, *reader);
  if (as_json) {
    std::cout << json.dump(2) << '\n';
  } else {
    PrintTable(json);
  }
}

// Writes the requests that the clients of a served run made, also the refused ones.
void ConvertServedRun(const std::string& run, const std::string& out) {
  const run::ServedRun served = run::ReadServedRun(run);
  if (served.replay.difference) {
    throw InputError(InputError::Kind::kData, run, served.replay.difference->text());
  }
  TraceWriter writer(out, /*has_arrivals=*/true);
  for (const TracedRequest& request : run::OfferedRequests(served)) writer.Write(request);
  writer.Commit();
}

void RunConvert(const InputFlags& flags, const std::string& out) {
  if (std::filesystem::is_directory(flags.path)) {
    ConvertServedRun(flags.path, out);
    return;
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(flags.path, out, ignored)) {
    throw InputError(InputError::Kind::kUsage, out, "is the input; allowed: another file");
  }
  const std::unique_ptr<TraceReader> reader = Open(flags);
  TraceWriter writer(out, reader->has_arrivals());
  {
    Progress progress("requests converted", 0);
    TracedRequest request;
    std::uint64_t written = 0;
    while (reader->Next(request)) {
      writer.Write(request);
      if (++written % kRowsPerLook == 0) progress.Show(written);
    }
  }
  WarnOfMissingNewline(*reader);
  writer.Commit();
  ShowNote(flags.path, *reader);
}

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

// The numbers after "name:" in text like "uniform:1,100".
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
  const ExperimentConfig experiment =
      ReadExperiment(ExperimentFile(flags.experiment), flags.assignments);
  return {experiment.workload, experiment.seed};
}

// Writes the requests as they come if each one is answered at once.
void RunGenerate(const GenerateFlags& flags) {
  const DrawnWorkload workload = Workload(flags);
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(workload.config, workload.seed);
  TraceWriter writer(flags.out, /*has_arrivals=*/true);
  {
    Progress progress("requests drawn", static_cast<std::uint64_t>(workload.config.requests));
    std::uint64_t drawn = 0;
    VisitAnsweredAtOnce(*source, [&](const TracedRequest& request) {
      writer.Write(request);
      progress.Show(++drawn);
      return true;
    });
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

// Adds `generate`.
void AddTraceGenerateCommand(CommandParser trace) {
  const auto flags = std::make_shared<GenerateFlags>();
  CommandParser command = trace.AddCommand(
      "generate", "Draw a workload and write it as CSV in the format of twinserve");
  command.AddOption("out", flags->out, "Output file; compressed if its name ends in .gz")
      .Required();
  AddSimpleFlags(command, *flags);
  const std::vector<CommandOption> simple = command.NamedOptions();
  // A workload of an experiment may have more: sessions, tenants, classes, closed loops, traces
  // that are scaled or repeated.
  CommandOption experiment =
      command.AddOption("--experiment", flags->experiment,
                        "Use the workload and the seed of this experiment file instead");
  for (const CommandOption option : simple) experiment.Excludes(option);
  OverrideOptions overrides = AddOverrideOptions(command, flags->assignments);
  overrides.set.Needs(experiment);
  overrides.unset.Needs(experiment);
  command.OnCall([flags] { RunGenerate(*flags); });
}

}  // namespace

void AddTraceCommand(CommandParser app, CommandContext& /*context*/) {
  CommandParser trace = app.AddCommand("trace", "Look at, convert or generate request traces");
  trace.RequireCommand();

  const auto info_flags = std::make_shared<InputFlags>();
  const auto output_format = std::make_shared<std::string>("table");
  CommandParser info = trace.AddCommand("info", "Read the whole trace and describe it");
  AddInputFlags(info, *info_flags);
  info.AddOption("--format", *output_format, "What to print (default: table)")
      .OneOf({"table", "json"});
  info.OnCall([info_flags, output_format] { RunInfo(*info_flags, *output_format == "json"); });

  const auto convert_flags = std::make_shared<InputFlags>();
  const auto out = std::make_shared<std::string>();
  CommandParser convert = trace.AddCommand("convert",
                                           "Write a trace, or what the clients of a run directory "
                                           "asked for, as CSV in the format of twinserve");
  AddInputFlags(convert, *convert_flags);
  convert.AddOption("out", *out, "The file; compressed if it ends in .gz").Required();
  convert.OnCall([convert_flags, out] { RunConvert(*convert_flags, *out); });

  AddTraceGenerateCommand(trace);
}

}  // namespace twin::apps
