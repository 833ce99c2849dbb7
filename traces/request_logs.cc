// Logs of requests: a table with a row per request, its lengths, and some of its times.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/csv.h"
#include "core/number_text.h"
#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"
#include "traces/session_numbers.h"
#include "traces/trace_limits.h"
#include "traces/words.h"

namespace twin {
namespace {

using Json = nlohmann::json;

const std::initializer_list<std::string_view> kPromptNames = {"prompt_tokens", "in_tokens",
                                                              "input_tokens"};
constexpr const char* kLogColumns =
    "a log of requests with arrival_s, prompt_tokens and output_tokens, and ttft_s, e2e_s or both "
    "(also in _ms, _us and _ns)";

// A row of a log, whatever its file's format.
struct LogRow {
  // The text under a column or key; nullopt if there is none, or it means nothing.
  std::function<std::optional<std::string>(std::string_view name)> find;
  const LineReader& lines;
};

std::optional<std::string> FindFirst(const LogRow& row,
                                     std::initializer_list<std::string_view> names,
                                     std::string_view& found) {
  for (const std::string_view name : names) {
    if (auto text = row.find(name)) {
      found = name;
      return text;
    }
  }
  return std::nullopt;
}

struct Unit {
  const char* suffix;
  double seconds;
};
constexpr std::array kUnits = {Unit{"_s", 1}, Unit{"_ms", 1e-3}, Unit{"_us", 1e-6},
                               Unit{"_ns", 1e-9}};

// A time under one of the names with a unit behind it.
std::optional<Duration> FindTime(const LogRow& row, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const Unit& unit : kUnits) {
      const std::string column = fmt::format("{}{}", name, unit.suffix);
      const std::optional<std::string> text = row.find(column);
      if (!text) continue;
      const std::optional<double> value = NumberFrom<double>(*text);
      if (!value || !(*value >= 0 && *value * unit.seconds <= Seconds(kArrivalMax))) {
        row.lines.RefuseField(column, *text, "a time from 0 on");
      }
      return DurationFromSeconds(*value * unit.seconds);
    }
  }
  return std::nullopt;
}

std::int32_t ReadCount(const LogRow& row, std::initializer_list<std::string_view> names) {
  std::string_view name;
  const std::optional<std::string> text = FindFirst(row, names, name);
  if (!text) {
    row.lines.Refuse(fmt::format("{}: missing; allowed: {}", *names.begin(), kLogColumns));
  }
  const std::optional<double> value = NumberFrom<double>(*text);
  if (!value || !(*value >= 0 && *value <= kTokensMax) ||
      *value != static_cast<double>(static_cast<std::int64_t>(*value))) {
    row.lines.RefuseField(name, *text, fmt::format("an integer from 0 to {}", kTokensMax));
  }
  return static_cast<std::int32_t>(*value);
}

bool Failed(const LogRow& row) {
  std::string_view name;
  if (const auto error = FindFirst(row, {"error"}, name); error && NamesError(*error)) return true;
  const auto status = FindFirst(row, {"status", "success"}, name);
  if (!status) return false;
  const Outcome outcome = FindOutcome(*status);
  if (outcome == Outcome::kUnknown) row.lines.RefuseField(name, *status, kStatusesAllowed);
  return outcome == Outcome::kFailure;
}

// Times after the request was sent, as lengths or as moments on the clock of its sending.
void ReadLatencies(const LogRow& row, const std::optional<Duration>& sent,
                   BenchmarkRequest& request) {
  request.ttft = FindTime(row, {"ttft"});
  request.e2e = FindTime(row, {"e2e", "e2el", "latency"});
  if (!sent) return;
  const auto after = [&](const std::optional<Duration>& moment) -> std::optional<Duration> {
    if (!moment) return std::nullopt;
    if (*moment < *sent) row.lines.Refuse("a token comes before its request; allowed: one clock");
    return *moment - *sent;
  };
  if (!request.ttft) request.ttft = after(FindTime(row, {"first"}));
  if (!request.e2e) request.e2e = after(FindTime(row, {"last", "end"}));
}

void AddRow(const LogRow& row, SessionNumbers& sessions, BenchmarkRun& run) {
  BenchmarkRequest request;
  const std::optional<Duration> sent = FindTime(row, {"send", "arrival", "start"});
  if (run.requests.empty()) run.has_times = sent.has_value();
  if (run.has_times && !sent) {
    row.lines.Refuse("the time of sending is missing; allowed: one in each row, or in none");
  }
  request.sent = TimePoint{sent.value_or(Duration{0})};
  request.completed = !Failed(row);
  if (request.completed) {
    request.prompt_tokens = ReadCount(row, kPromptNames);
    request.output_tokens = ReadCount(row, {"output_tokens", "out_tokens"});
    request.completed = request.output_tokens > 0;
    if (request.completed && request.prompt_tokens == 0) {
      row.lines.RefuseField("prompt_tokens", "0", "an integer from 1 on");
    }
    if (request.completed) ReadLatencies(row, sent, request);
  }
  std::string_view name;
  const auto session = FindFirst(row, {"conversation_id", "session_id", "session"}, name);
  if (session && *session != "0") request.session = sessions.Of(*session, false);
  run.requests.push_back(std::move(request));
}

}  // namespace

BenchmarkRun ReadRequestObjects(const Json& rows, const LineReader& lines) {
  BenchmarkRun run;
  run.format = "request log";
  SessionNumbers sessions;
  for (const Json& object : rows) {
    const JsonRequestFields fields(object, lines);
    const auto find = [&](std::string_view name) -> std::optional<std::string> {
      const Json* const value = fields.Find(name);
      if (value == nullptr) return std::nullopt;
      std::string text = value->is_string() ? value->get<std::string>() : value->dump();
      return MeansNothing(text) ? std::nullopt : std::optional(std::move(text));
    };
    AddRow({find, lines}, sessions, run);
  }
  return run;
}

BenchmarkRun ReadRequestTable(const std::string& path) {
  BenchmarkRun run;
  run.format = "request log";
  SessionNumbers sessions;
  CsvTable table(path);
  if (std::ranges::none_of(kPromptNames, [&](auto name) { return table.Has(name); })) {
    table.lines().Refuse(
        fmt::format("has no column prompt_tokens; allowed: {}, or the result of a benchmark tool",
                    kLogColumns));
  }
  while (table.Next()) {
    const auto find = [&](std::string_view name) -> std::optional<std::string> {
      if (!table.Has(name) || MeansNothing(table.Text(name))) return std::nullopt;
      return std::string(table.Text(name));
    };
    AddRow({find, table.lines()}, sessions, run);
  }
  if (run.requests.empty()) table.lines().Refuse(fmt::format("no row; allowed: {}", kLogColumns));
  return run;
}

}  // namespace twin
