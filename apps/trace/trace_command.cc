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
#include "apps/options.h"
#include "apps/progress.h"
#include "apps/trace/trace_generate_command.h"
#include "core/input_error.h"
#include "run/served_run.h"
#include "traces/trace_format.h"
#include "traces/trace_statistics.h"
#include "traces/trace_writer.h"

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
  for (const TraceFormat* format : TraceFormats()) {
    names += "\n    " + format->name + ": " + format->description;
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
  const std::string note = NoteOf(reader.counts());
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
            {"prompt_tokens", ToJson(PercentilesOf(statistics.prompts()), 1)},
            {"output_tokens", ToJson(PercentilesOf(statistics.outputs()), 1)}};
  if (reader.has_arrivals()) {
    json["duration_s"] = Seconds(statistics.duration());
    json["rate_rps"] = statistics.rate();
    if (statistics.gaps_ns().count() > 0) {
      json["interarrival_cv"] = statistics.gap_cv();
      json["interarrival_s"] = ToJson(PercentilesOf(statistics.gaps_ns()), 1e9);
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

// What the clients of a served run asked for, with those that the service refused.
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
