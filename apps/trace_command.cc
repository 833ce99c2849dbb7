#include "apps/trace_command.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "traces/trace_format.h"
#include "traces/trace_statistics.h"
#include "traces/trace_writer.h"
#include "traces/workload.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

// A line on stderr that is rewritten a few times a second; silent where stderr is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(const char* what) : what_(what), shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Count() {
    constexpr std::int64_t kLookAtClockEvery = 4096;
    if (++count_ % kLookAtClockEvery != 0 || !shown_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    drawn_ = true;
    std::fprintf(stderr, "\r%s: %lld requests", what_, static_cast<long long>(count_));
  }

 private:
  const char* what_;
  bool shown_;
  bool drawn_ = false;
  std::int64_t count_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

struct InputFlags {
  std::string path;
  std::string format;
  std::vector<std::string> filters;
  FailedRows failed_rows = FailedRows::kSkip;
};

std::string FormatNames() {
  std::string names;
  for (const TraceFormat* format : TraceFormats()) {
    names += "\n    " + format->name + ": " + format->description;
  }
  return names;
}

void AddInputFlags(CLI::App& command, InputFlags& flags) {
  command.add_option("file", flags.path, "The trace, plain or gzip")->required();
  command.add_option("--from", flags.format,
                     "Its format, otherwise recognised from its content:" + FormatNames());
  command.add_option("--filter", flags.filters, "Keep rows with COLUMN=VALUE (repeatable)");
  const std::map<std::string, FailedRows> rules{{"skip", FailedRows::kSkip},
                                                {"refuse", FailedRows::kRefuse},
                                                {"one-token", FailedRows::kOneToken}};
  command.add_option("--failed-rows", flags.failed_rows, "Rows without output (BurstGPT)")
      ->transform(CLI::CheckedTransformer(rules));
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
  if (!reader.lines().ended_without_newline()) return;
  std::fprintf(stderr, "warning: %s:%lld: the last line has no end; it may have been cut\n",
               reader.lines().name().c_str(), static_cast<long long>(reader.lines().line_number()));
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
            {"prompt_tokens", ToJson(statistics.prompts().Summarise(), 1)},
            {"output_tokens", ToJson(statistics.outputs().Summarise(), 1)}};
  if (reader.has_arrivals()) {
    json["duration_s"] = Seconds(statistics.duration());
    json["rate_rps"] = statistics.rate();
    if (statistics.gaps_ns().count() > 0) {
      json["interarrival_cv"] = statistics.gap_cv();
      json["interarrival_s"] = ToJson(statistics.gaps_ns().Summarise(), 1e9);
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
    ProgressLine progress("reading");
    TracedRequest request;
    while (reader->Next(request)) {
      statistics.Add(request);
      progress.Count();
    }
  }
  WarnOfMissingNewline(*reader);
  const Json json = Describe(statistics, *reader);
  if (as_json) {
    std::cout << json.dump(2) << '\n';
  } else {
    PrintTable(json);
  }
}

void RunConvert(const InputFlags& flags, const std::string& out) {
  std::error_code ignored;
  if (std::filesystem::equivalent(flags.path, out, ignored)) {
    throw InputError(InputError::Kind::kUsage, out, "is the input; allowed: another file");
  }
  const std::unique_ptr<TraceReader> reader = Open(flags);
  TraceWriter writer(out, reader->has_arrivals());
  {
    ProgressLine progress("converting");
    TracedRequest request;
    while (reader->Next(request)) {
      writer.Write(request);
      progress.Count();
    }
  }
  WarnOfMissingNewline(*reader);
  writer.Commit();
}

struct GenerateFlags {
  std::string out;
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
                   "found " + std::to_string(value) + "; allowed: an integer from 1 to 1073741823");
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
                   "found " + std::to_string(seconds) + "; allowed: seconds from 0 to 4e9");
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

void RunGenerate(const GenerateFlags& flags) {
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(ToWorkload(flags), flags.seed);
  TraceWriter writer(flags.out, /*has_arrivals=*/true);
  {
    ProgressLine progress("generating");
    std::uint32_t id = 0;
    while (const TracedRequest* request = source->Peek()) {
      const TimePoint arrival = request->arrival;
      writer.Write(*request);
      source->Take();
      source->OnDone(RequestId{id++}, arrival);
      progress.Count();
    }
  }
  writer.Commit();
}

void AddGenerate(CLI::App& trace) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = trace.add_subcommand("generate", "Draw a workload and write it as our CSV");
  command->add_option("out", flags->out, "The file; compressed if it ends in .gz")->required();
  command->add_option("--seed", flags->seed, "Of all random numbers")->capture_default_str();
  command->add_option("--requests", flags->requests, "How many; 0 = until --duration");
  command->add_option("--duration", flags->duration_s, "Seconds; 0 = until --requests");
  const std::map<std::string, ArrivalConfig::Kind> kinds{
      {"poisson", ArrivalConfig::Kind::kPoisson}, {"gamma", ArrivalConfig::Kind::kGamma},
      {"weibull", ArrivalConfig::Kind::kWeibull}, {"constant", ArrivalConfig::Kind::kConstant},
      {"ramp", ArrivalConfig::Kind::kRamp},       {"all_at_once", ArrivalConfig::Kind::kAllAtOnce}};
  command->add_option("--arrivals", flags->arrivals, "The process")
      ->transform(CLI::CheckedTransformer(kinds));
  command->add_option("--rate", flags->rate, "Requests per second")->capture_default_str();
  command->add_option("--rate-to", flags->rate_to, "Where a ramp ends, requests per second");
  command->add_option("--ramp", flags->ramp_s, "Length of a ramp in seconds");
  command->add_option("--cv", flags->cv, "Of gamma and weibull gaps")->capture_default_str();
  const std::map<std::string, WorkloadPreset> presets{
      {"conversation", WorkloadPreset::kConversation}, {"code", WorkloadPreset::kCode}};
  command->add_option("--preset", flags->preset, "Lengths like the Azure traces of 2023")
      ->transform(CLI::CheckedTransformer(presets));
  command->add_option("--prompt", flags->prompt,
                      "Lengths: fixed:N, uniform:MIN,MAX, lognormal:MEAN,SIGMA[,MAX], "
                      "zipf:EXPONENT,MIN,MAX, file:QUANTILES.csv");
  command->add_option("--output", flags->output, "Likewise");
  command->add_option("--shared-prompts", flags->shared_prompts, "Number of system prompts");
  command->add_option("--shared-tokens", flags->shared_tokens, "Length of a system prompt");
  command->add_option("--zipf", flags->zipf, "Exponent of the system prompts' popularity");
  command->callback([flags] { RunGenerate(*flags); });
}

}  // namespace

void AddTraceCommand(CLI::App& app) {
  CLI::App* trace = app.add_subcommand("trace", "Look at, convert or generate request traces");
  trace->require_subcommand(1);

  const auto info_flags = std::make_shared<InputFlags>();
  const auto output_format = std::make_shared<std::string>("table");
  CLI::App* info = trace->add_subcommand("info", "Read the whole trace and describe it");
  AddInputFlags(*info, *info_flags);
  info->add_option("--format", *output_format, "Of the result")
      ->check(CLI::IsMember({"table", "json"}));
  info->callback([info_flags, output_format] { RunInfo(*info_flags, *output_format == "json"); });

  const auto convert_flags = std::make_shared<InputFlags>();
  const auto out = std::make_shared<std::string>();
  CLI::App* convert = trace->add_subcommand("convert", "Write a trace as our CSV");
  AddInputFlags(*convert, *convert_flags);
  convert->add_option("out", *out, "The file; compressed if it ends in .gz")->required();
  convert->callback([convert_flags, out] { RunConvert(*convert_flags, *out); });

  AddGenerate(*trace);
}

}  // namespace twin::apps
