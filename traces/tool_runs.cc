// Runs in the records of AIPerf, inference-perf and guidellm.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"
#include "traces/report_paths.h"
#include "traces/session_numbers.h"

namespace twin {
namespace {

using Json = nlohmann::json;

constexpr double kMs = 1e-3;

bool IsValue(const Json* value, const Json& wanted) { return value != nullptr && *value == wanted; }

void SetCap(const std::optional<double>& cap, BenchmarkRun& run) {
  if (cap && *cap >= 1 && *cap <= std::numeric_limits<std::int32_t>::max()) {
    run.cap = static_cast<std::int32_t>(*cap);
  }
}

// The first of the paths that holds text.
void AddModel(const JsonRequestFields& fields, std::initializer_list<const char*> paths,
              BenchmarkRun& run) {
  for (const char* path : paths) {
    const Json* value = fields.Find(path);
    if (value != nullptr && value->is_array() && !value->empty()) value = &value->front();
    if (value != nullptr && value->is_string()) return AddFact("model", *value, path, run);
  }
}

// Under the key that names conversations in a log of requests.
std::uint64_t SessionOf(const JsonRequestFields& fields, SessionNumbers& sessions) {
  const auto name = fields.Text(FirstPresent(fields, kSessionNames));
  return name ? sessions.Of(*name, false) : 0;
}

// One conversation of its data set can be sent several times, each with an id of its own in newer
// releases.
std::uint64_t AiPerfSession(const JsonRequestFields& fields, SessionNumbers& sessions) {
  constexpr std::string_view kIds[] = {"metadata.x_correlation_id", "metadata.conversation_id"};
  const Json* const id = fields.Find(FirstPresent(fields, kIds));
  if (id == nullptr) return 0;
  return sessions.Of(id->dump(), IsValue(fields.Find("metadata.turn_index"), 0));
}

// A metric of a record, whose unit is milliseconds unless it names another one.
std::optional<Duration> AiPerfTime(const JsonRequestFields& fields, const char* metric) {
  const std::string path = fmt::format("metrics.{}", metric);
  const double unit = fields.UnitFactor(path, Quantity::kTime, kMs);
  return fields.Span(path + ".value", unit);
}

std::int32_t AiPerfTokens(const JsonRequestFields& fields, std::string_view path) {
  fields.UnitFactor(path, Quantity::kTokens, 1);
  return fields.Tokens(fmt::format("{}.value", path));
}

BenchmarkRequest ReadAiPerfRecord(const JsonRequestFields& fields) {
  constexpr std::string_view kInput = "metrics.input_sequence_length";
  constexpr std::string_view kOutput = "metrics.output_sequence_length";
  constexpr std::string_view kGaps = "metrics.inter_chunk_latency";
  BenchmarkRequest request;
  const bool failed =
      fields.NamesError("error") || IsValue(fields.Find("metadata.was_cancelled"), true);
  request.without_output = !failed && fields.IsZero(fmt::format("{}.value", kOutput));
  request.completed = !failed && !request.without_output;
  request.sent = fields.Time("metadata.request_start_ns", 1e-9);
  if (!request.completed) return request;
  request.prompt_tokens = AiPerfTokens(fields, kInput);
  request.output_tokens = AiPerfTokens(fields, kOutput);
  request.ttft = AiPerfTime(fields, "time_to_first_token");
  request.e2e = AiPerfTime(fields, "request_latency");
  request.gaps =
      fields.Spans(fmt::format("{}.value", kGaps), fields.UnitFactor(kGaps, Quantity::kTime, kMs));
  request.SetPace(AiPerfTime(fields, "inter_token_latency"));
  return request;
}

// Times of the tokens on the clock of start_time.
void ReadTokenTimes(const JsonRequestFields& fields, BenchmarkRequest& request) {
  constexpr std::string_view kTimes[] = {"info.response_metrics.output_token_times",
                                         "info.output_token_times"};
  const std::vector<Duration> times = fields.Spans(FirstPresent(fields, kTimes), 1);
  const Duration sent = request.sent.time_since_epoch();
  std::optional<Duration>& end = times.empty() ? request.e2e : request.stated_e2e;
  if (const auto closed = fields.Span("end_time", 1)) end = *closed - sent;
  if (times.empty()) return;
  request.ttft = times.front() - sent;
  request.e2e = times.back() - sent;
  for (std::size_t i = 1; i < times.size(); ++i) request.gaps.push_back(times[i] - times[i - 1]);
}

// inference-perf keeps the text of each call, which names the model.
void AddCalledModel(const JsonRequestFields& fields, BenchmarkRun& run) {
  const Json* const call = fields.Find("request");
  if (call == nullptr || !call->is_string()) return;
  const Json body = Json::parse(call->get<std::string>(), nullptr, false);
  if (body.is_object() && body.contains("model")) AddFact("model", body["model"], "request", run);
}

BenchmarkRequest ReadGuidellmRequest(const JsonRequestFields& fields, bool completed) {
  constexpr std::array<std::string_view, 2> kStart = {"request_start_time", "start_time"};
  BenchmarkRequest request;
  request.sent = fields.Time(FirstPresent(fields, kStart), 1);
  request.without_output = completed && fields.IsZero("output_tokens");
  request.completed = completed && !request.without_output;
  if (!request.completed) return request;
  request.prompt_tokens = fields.Tokens("prompt_tokens");
  request.output_tokens = fields.Tokens("output_tokens");
  request.ttft = fields.Span("time_to_first_token_ms", kMs);
  request.e2e = fields.Span("request_latency", 1);
  request.SetPace(fields.Span("inter_token_latency_ms", kMs));
  // Until the last token, as far as it is known; the answer ends a moment later.
  if (request.stated_e2e && request.e2e) std::swap(request.e2e, request.stated_e2e);
  return request;
}

// A strategy's rate, or its number of streams.
void ReadGuidellmLoad(const JsonRequestFields& fields, BenchmarkRun& run) {
  for (const char* root : {"config.strategy", "args.strategy", "scheduler.strategy"}) {
    const auto path = [&](const char* key) { return fmt::format("{}.{}", root, key); };
    const Json* const type = fields.Find(path("type_"));
    if (type == nullptr) continue;
    if (*type == "constant" || *type == "poisson") {
      run.rate = fields.Number(path("rate"));
    } else if (*type == "concurrent") {
      run.rate = std::numeric_limits<double>::infinity();
      SetCap(fields.Number(path("streams")), run);
    } else if (*type == "synchronous") {
      run.rate = std::numeric_limits<double>::infinity();
      run.cap = 1;
    }
    return;
  }
}

void ReadAiPerfSettings(const JsonRequestFields& fields, BenchmarkRun& run) {
  run.rate = fields.Number("input_config.loadgen.request_rate");
  SetCap(fields.Number("input_config.loadgen.concurrency"), run);
  if (!run.rate && run.cap) run.rate = std::numeric_limits<double>::infinity();
  AddModel(fields, {"input_config.endpoint.model_names"}, run);
}

// Leaves the totals alone where the requests are no more than a sample, or are not there.
void KeepWhole(const JsonRequestFields& benchmark, BenchmarkRun& run) {
  BenchmarkRun totals;
  AddGuidellmTotals(benchmark, totals);
  const auto stated = totals.totals.find("completed");
  const auto listed = std::ranges::count(run.requests, true, &BenchmarkRequest::completed);
  const bool known = stated != totals.totals.end() && stated->second >= 1;
  run.has_times = !run.requests.empty();
  if (!known || stated->second <= static_cast<double>(listed)) return;
  run.has_times = false;
  if (listed > 0) {
    run.notes.push_back(
        fmt::format("the file lists a sample of {} of {} requests; its totals are read instead",
                    listed, stated->second));
  }
  run.requests.clear();
  run.totals = std::move(totals.totals);
  std::ranges::move(totals.notes, std::back_inserter(run.notes));
}

}  // namespace

BenchmarkRun ReadAiPerfRecords(const Json& records, const Json& summary, const LineReader& lines) {
  BenchmarkRun run;
  run.format = "AIPerf";
  run.has_times = true;
  SessionNumbers sessions;
  for (const Json& record : records) {
    const JsonRequestFields fields(record, lines);
    if (IsValue(fields.Find("metadata.benchmark_phase"), "warmup")) continue;
    run.requests.push_back(ReadAiPerfRecord(fields));
    run.requests.back().session = AiPerfSession(fields, sessions);
    run.lists_gaps = run.lists_gaps || !run.requests.back().gaps.empty();
  }
  ReadAiPerfSettings(JsonRequestFields(summary, lines), run);
  AddAiPerfTotals(JsonRequestFields(summary, lines), run);
  run.totals.erase("failed");  // it may count requests that have no record
  return run;
}

BenchmarkRun ReadAiPerfSummary(const Json& summary, const LineReader& lines) {
  BenchmarkRun run;
  run.format = "AIPerf";
  const JsonRequestFields fields(summary, lines);
  ReadAiPerfSettings(fields, run);
  AddAiPerfTotals(fields, run);
  return run;
}

BenchmarkRun ReadInferencePerfReport(const Json& document, const LineReader& lines) {
  BenchmarkRun run;
  run.format = "inference-perf";
  run.has_times = true;
  SessionNumbers sessions;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    const std::string_view output = FirstPresent(fields, kInferencePerfOutputs);
    BenchmarkRequest request;
    request.sent = fields.Time("start_time", 1);
    const bool failed = fields.NamesError("error");
    request.without_output = !failed && fields.IsZero(output);
    request.completed = !failed && !request.without_output;
    if (request.completed) {
      request.prompt_tokens = fields.Tokens(FirstPresent(fields, kInferencePerfInputs));
      request.output_tokens = fields.Tokens(output);
      ReadTokenTimes(fields, request);
    }
    if (run.requests.empty()) AddCalledModel(fields, run);
    request.session = SessionOf(fields, sessions);
    run.requests.push_back(std::move(request));
  }
  return run;
}

std::vector<BenchmarkRun> ReadGuidellm(const Json& document, const LineReader& lines) {
  std::vector<BenchmarkRun> runs;
  const Json& benchmarks = document.at("benchmarks");
  if (!benchmarks.is_array() || benchmarks.empty()) {
    lines.Refuse("benchmarks: is no list, or empty; allowed: guidellm's benchmarks.json");
  }
  for (const Json& benchmark : benchmarks) {
    const JsonRequestFields whole(benchmark, lines);
    BenchmarkRun run;
    run.format = "guidellm";
    ReadGuidellmLoad(whole, run);
    AddModel(whole, {"config.backend.model", "worker.backend_model", "args.backend_model"}, run);
    for (const char* group : {"successful", "errored", "incomplete"}) {
      const Json* const requests = whole.Find(fmt::format("requests.{}", group));
      if (requests == nullptr || !requests->is_array()) continue;
      for (const Json& entry : *requests) {
        const JsonRequestFields fields(entry, lines);
        run.requests.push_back(ReadGuidellmRequest(fields, std::string_view(group)[0] == 's'));
      }
    }
    KeepWhole(whole, run);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace twin
