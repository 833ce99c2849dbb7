#include "traces/trace_format.h"

#include <algorithm>
#include <utility>

#include "core/input_error.h"
#include "core/printable.h"
#include "traces/aiperf_format.h"
#include "traces/apexplus_format.h"
#include "traces/azure_format.h"
#include "traces/burstgpt_format.h"
#include "traces/inference_perf_format.h"
#include "traces/llmservingsim_format.h"
#include "traces/mooncake_format.h"
#include "traces/qwen_bailian_format.h"
#include "traces/request_log_format.h"
#include "traces/sharegpt_format.h"
#include "traces/twin_format.h"
#include "traces/vidur_format.h"
#include "traces/vllm_bench_format.h"

namespace twin {
namespace {

std::string FormatNames() {
  std::string names;
  for (const TraceFormat* format : TraceFormats()) {
    names += (names.empty() ? "" : ", ") + format->name;
  }
  return names;
}

const TraceFormat& FindFormat(std::string_view name) {
  for (const TraceFormat* format : TraceFormats()) {
    if (format->name == name) return *format;
  }
  throw InputError(InputError::Kind::kUsage, "trace format",
                   "found '" + Printable(name) + "'; allowed: " + FormatNames());
}

const TraceFormat& RecogniseFormat(LineReader& lines) {
  std::string_view first_line;
  if (!lines.Next(first_line)) {
    throw InputError(
        InputError::Kind::kData, lines.name() + ":1",
        "header: the file is empty; allowed: a trace of a known format (" + FormatNames() + ")");
  }
  lines.Unread();
  if (first_line.starts_with("client,window_start_s,")) {
    lines.RefuseField("header", first_line,
                      "a list of requests; ServeGen's client windows are a generator's input, see "
                      "workload.servegen");
  }
  const TraceFormat* nearest = nullptr;
  std::size_t resemblance = 1;
  for (const TraceFormat* format : TraceFormats()) {
    if (format->recognises(first_line)) return *format;
    if (const std::size_t known = format->resemblance(first_line); known > resemblance) {
      nearest = format;
      resemblance = known;
    }
  }
  if (nearest != nullptr) return *nearest;
  lines.RefuseField("header", first_line, "the first line of a known format: " + FormatNames());
}

}  // namespace

TraceFormat CsvFormat(std::string name, std::string description,
                      std::span<const CsvLayout> layouts) {
  return {std::move(name), std::move(description),
          [layouts](std::string_view line) { return MatchCsvHeader(layouts, line) != nullptr; },
          [layouts](std::string_view line) { return KnownCsvColumns(layouts, line); },
          [layouts](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenCsvTrace(std::move(lines), layouts, options);
          }};
}

TraceFormat JsonlFormat(std::string name, std::string description,
                        std::span<const JsonlLayout> layouts) {
  return {std::move(name), std::move(description),
          [layouts](std::string_view line) { return MatchJsonl(layouts, line) != nullptr; },
          [layouts](std::string_view line) { return KnownJsonlKeys(layouts, line); },
          [layouts](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenJsonlTrace(std::move(lines), layouts, options);
          }};
}

const std::vector<const TraceFormat*>& TraceFormats() {
  static const std::vector<const TraceFormat*> formats{
      &AzureFormat(),
      &QwenBailianFormat(),  // its lines have all keys of Mooncake's
      &MooncakeFormat(),    &LlmServingSimFormat(), &BurstGptFormat(),
      &ApexPlusFormat(),    &VidurFormat(),         &ShareGptFormat(),
      &TwinFormat(),        &RequestLogFormat(),    &VllmBenchFormat(),
      &AiPerfFormat(),      &InferencePerfFormat(), &IntendedRequestLogFormat(),
  };
  return formats;
}

std::unique_ptr<TraceReader> OpenTrace(const std::string& path, std::string_view format_name,
                                       const TraceReadOptions& options) {
  return OpenTrace(std::make_unique<LineReader>(path), format_name, options);
}

std::unique_ptr<TraceReader> OpenTrace(std::unique_ptr<LineReader> lines,
                                       std::string_view format_name,
                                       const TraceReadOptions& options) {
  const TraceFormat& format =
      format_name.empty() ? RecogniseFormat(*lines) : FindFormat(format_name);
  return format.open(std::move(lines), options);
}

}  // namespace twin
