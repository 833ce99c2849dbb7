// Runs in the records of AIPerf, inference-perf and guidellm.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
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

std::optional<double> NumberAt(const JsonRequestFields& fields, std::string_view path) {
  const Json* const value = fields.Find(path);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

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

// One conversation of its data set can be sent several times, each with an id of its own in newer
// releases.
std::uint64_t AiPerfSession(const JsonRequestFields& fields, SessionNumbers& sessions) {
  constexpr std::string_view kIds[] = {"metadata.x_correlation_id", "metadata.conversation_id"};
  const Json* const id = fields.Find(FirstPresent(fields, kIds));
  if (id == nullptr) return 0;
  return sessions.Of(id->dump(), IsValue(fields.Find("metadata.turn_index"), 0));
}

BenchmarkRequest ReadAiPerfRecord(const JsonRequestFields& fields) {
  BenchmarkRequest request;
  const bool failed =
      fields.NamesError("error") || IsValue(fields.Find("metadata.was_cancelled"), true);
  request.completed = !failed && !fields.IsZero(kAiPerfOutput);
  request.sent = fields.Time(kAiPerfStart, 1e-9);
  if (!request.completed) return request;
  request.prompt_tokens = fields.Tokens(kAiPerfInput);
  request.output_tokens = fields.Tokens(kAiPerfOutput);
  request.ttft = fields.Span("metrics.time_to_first_token.value", kMs);
  request.e2e = fields.Span("metrics.request_latency.value", kMs);
  request.gaps = fields.Spans("metrics.inter_chunk_latency.value", kMs);
  return request;
}

// Times of the tokens on the clock of start_time.
void ReadTokenTimes(const JsonRequestFields& fields, BenchmarkRequest& request) {
  constexpr std::string_view kTimes[] = {"info.response_metrics.output_token_times",
                                         "info.output_token_times"};
  const std::vector<Duration> times = fields.Spans(FirstPresent(fields, kTimes), 1);
  const Duration sent = request.sent.time_since_epoch();
  if (!times.empty()) {
    request.ttft = times.front() - sent;
    request.e2e = times.back() - sent;
    for (std::size_t i = 1; i < times.size(); ++i) request.gaps.push_back(times[i] - times[i - 1]);
  } else if (const auto end = fields.Span("end_time", 1)) {
    request.e2e = *end - sent;
  }
}

void RequireForward(const BenchmarkRequest& request, const LineReader& lines) {
  bool forward = request.ttft.value_or(Duration{0}) >= Duration{0} &&
                 request.e2e.value_or(Duration{0}) >= request.ttft.value_or(Duration{0});
  for (const Duration gap : request.gaps) forward = forward && gap >= Duration{0};
  if (!forward) {
    lines.Refuse(
        "a request has a token before another one of it, or before it was sent; allowed: "
        "times that rise, on one clock");
  }
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
  const std::string_view start = FirstPresent(fields, kStart);
  request.sent = fields.Time(start, 1);
  request.completed = completed && !fields.IsZero("output_tokens");
  if (!request.completed) return request;
  request.prompt_tokens = fields.Tokens("prompt_tokens");
  request.output_tokens = fields.Tokens("output_tokens");
  request.ttft = fields.Span("time_to_first_token_ms", kMs);
  // Until the last token, as far as it is known; the answer ends a moment later.
  const auto pace = fields.Span("inter_token_latency_ms", kMs);
  if (request.ttft && pace) {
    request.e2e = *request.ttft + *pace * (request.output_tokens - 1);
  } else {
    request.e2e = fields.Span("request_latency", 1);
  }
  return request;
}

// A strategy's rate, or its number of streams.
void ReadGuidellmLoad(const JsonRequestFields& fields, BenchmarkRun& run) {
  for (const char* root : {"config.strategy", "args.strategy", "scheduler.strategy"}) {
    const auto path = [&](const char* key) { return fmt::format("{}.{}", root, key); };
    const Json* const type = fields.Find(path("type_"));
    if (type == nullptr) continue;
    if (*type == "constant" || *type == "poisson") {
      run.rate = NumberAt(fields, path("rate"));
    } else if (*type == "concurrent") {
      run.rate = std::numeric_limits<double>::infinity();
      SetCap(NumberAt(fields, path("streams")), run);
    } else if (*type == "synchronous") {
      run.rate = std::numeric_limits<double>::infinity();
      run.cap = 1;
    }
    return;
  }
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
    RequireForward(run.requests.back(), lines);
  }
  const JsonRequestFields fields(summary, lines);
  run.rate = NumberAt(fields, "input_config.loadgen.request_rate");
  SetCap(NumberAt(fields, "input_config.loadgen.concurrency"), run);
  if (!run.rate && run.cap) run.rate = std::numeric_limits<double>::infinity();
  AddModel(fields, {"input_config.endpoint.model_names"}, run);
  return run;
}

BenchmarkRun ReadInferencePerfReport(const Json& document, const LineReader& lines) {
  BenchmarkRun run;
  run.format = "inference-perf";
  run.has_times = true;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    const std::string_view output = FirstPresent(fields, kInferencePerfOutputs);
    BenchmarkRequest request;
    request.sent = fields.Time("start_time", 1);
    request.completed = !fields.NamesError("error") && !fields.IsZero(output);
    if (request.completed) {
      request.prompt_tokens = fields.Tokens(FirstPresent(fields, kInferencePerfInputs));
      request.output_tokens = fields.Tokens(output);
      ReadTokenTimes(fields, request);
      RequireForward(request, lines);
    }
    if (run.requests.empty()) AddCalledModel(fields, run);
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
    run.has_times = true;
    ReadGuidellmLoad(whole, run);
    AddModel(whole, {"config.backend.model", "worker.backend_model", "args.backend_model"}, run);
    for (const char* group : {"successful", "errored", "incomplete"}) {
      const Json* const requests = whole.Find(fmt::format("requests.{}", group));
      if (requests == nullptr || !requests->is_array()) continue;
      for (const Json& entry : *requests) {
        const JsonRequestFields fields(entry, lines);
        run.requests.push_back(ReadGuidellmRequest(fields, std::string_view(group)[0] == 's'));
        RequireForward(run.requests.back(), lines);
      }
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace twin
