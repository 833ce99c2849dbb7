// Logs of requests: a table with a row per request, its lengths, and some of its times.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/csv.h"
#include "core/files/field.h"
#include "core/number_text.h"
#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"
#include "traces/session_numbers.h"
#include "traces/trace_limits.h"
#include "traces/trace_reader.h"
#include "traces/units.h"
#include "traces/words.h"

namespace twin {
namespace {

using Json = nlohmann::json;

constexpr const char* kLogColumns =
    "a log of requests with arrival_s, prompt_tokens and output_tokens, and ttft_s, e2e_s or both "
    "(also in _ms, _us and _ns)";

using Names = std::set<std::string, std::less<>>;

// Names in the rows so far.
struct LogNames {
  SessionNumbers sessions;
  Names read;  // columns or keys that have a meaning here
  Names requests;
  std::int64_t repeated = 0;  // rows with the name of another one
};

// A row of a log, whatever its file's format.
struct LogRow {
  // The text under a column or key; nullopt if there is none, or it means nothing.
  std::function<std::optional<std::string>(std::string_view name)> text;
  LogNames& names;
  const LineReader& lines;

  std::optional<std::string> Find(std::string_view name) const {
    if (!names.read.contains(name)) names.read.emplace(name);
    return text(name);
  }
};

constexpr std::string_view kRequestNames[] = {"request_id", "id", "req", "request"};

std::optional<std::string> FindFirst(const LogRow& row, std::span<const std::string_view> names,
                                     std::string_view& found) {
  for (const std::string_view name : names) {
    if (auto text = row.Find(name)) {
      found = name;
      return text;
    }
  }
  return std::nullopt;
}

// A time under one of the names with a unit behind it.
std::optional<Duration> FindTime(const LogRow& row, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const NameUnit& unit : kNameUnits) {
      const std::string column = fmt::format("{}{}", name, unit.suffix);
      const std::optional<std::string> text = row.Find(column);
      if (!text) continue;
      const std::optional<double> value = NumberFrom<double>(*text);
      if (!value || !(*value >= 0 && *value * unit.seconds <= Seconds(kArrivalMax))) {
        row.lines.RefuseField(column, *text,
                              fmt::format("a time from 0 on, up to {:g} (126 years)",
                                          Seconds(kArrivalMax) / unit.seconds));
      }
      return DurationFromSeconds(*value * unit.seconds);
    }
  }
  return std::nullopt;
}

// The time of sending, as a number whose name has a unit, or as a date.
std::optional<Duration> FindSending(const LogRow& row) {
  if (const auto sent = FindTime(row, {"send", "arrival", "start", "sent", "send_time",
                                       "arrival_time", "start_time", "timestamp"})) {
    return sent;
  }
  for (const char* name : {"send_time", "arrival_time", "start_time", "timestamp"}) {
    const std::optional<std::string> text = row.text(name);
    const bool date = text && text->find('-') != text->npos && text->find(':') != text->npos;
    if (date) return ParseTimestamp({row.lines, name, *row.Find(name)});
  }
  return std::nullopt;
}

std::int32_t ReadCount(const LogRow& row, std::span<const std::string_view> names) {
  std::string_view name;
  const std::optional<std::string> text = FindFirst(row, names, name);
  if (!text) {
    row.lines.Refuse(fmt::format("{}: missing; allowed: {}; or the result of a benchmark tool",
                                 names.front(), kLogColumns));
  }
  const std::optional<double> value = NumberFrom<double>(*text);
  if (!value || !(*value >= 0 && *value <= kTokensMax) ||
      *value != static_cast<double>(static_cast<std::int64_t>(*value))) {
    row.lines.RefuseField(name, *text, fmt::format("an integer from 0 to {}", kTokensMax));
  }
  return static_cast<std::int32_t>(*value);
}

bool Failed(const LogRow& row) {
  constexpr std::string_view kError[] = {"error"};
  constexpr std::string_view kStatus[] = {"status", "success"};
  std::string_view name;
  if (const auto error = FindFirst(row, kError, name); error && NamesError(*error)) return true;
  const auto status = FindFirst(row, kStatus, name);
  if (!status) return false;
  const Outcome outcome = FindOutcome(*status);
  if (outcome == Outcome::kUnknown) row.lines.RefuseField(name, *status, kStatusesAllowed);
  return outcome == Outcome::kFailure;
}

// Times after the request was sent, as lengths or as moments on the clock of its sending.
void ReadLatencies(const LogRow& row, const std::optional<Duration>& sent,
                   BenchmarkRequest& request) {
  request.ttft = FindTime(row, {"ttft", "time_to_first_token"});
  request.e2e = FindTime(row, {"e2e", "e2el", "latency", "e2e_latency", "request_latency"});
  if (sent) {
    const auto after = [&](const std::optional<Duration>& moment) {
      return moment ? std::optional(*moment - *sent) : std::nullopt;
    };
    if (!request.ttft) request.ttft = after(FindTime(row, {"first", "first_token"}));
    (request.e2e ? request.stated_e2e : request.e2e) =
        after(FindTime(row, {"last", "last_token", "end"}));
  }
  request.SetPace(FindTime(row, {"tpot", "time_per_output_token"}));
  request.waiting = FindTime(row, {"queue_time"});
}

void AddRow(const LogRow& row, BenchmarkRun& run) {
  BenchmarkRequest request;
  const std::optional<Duration> sent = FindSending(row);
  if (run.requests.empty()) run.has_times = sent.has_value();
  if (run.has_times != sent.has_value()) {
    row.lines.Refuse(
        "the time of sending is missing here or in the rows before; allowed: one in "
        "each row, or in none");
  }
  request.sent = TimePoint{sent.value_or(Duration{0})};
  const bool failed = Failed(row);
  if (!failed) {
    request.prompt_tokens = ReadCount(row, kPromptNames);
    request.output_tokens = ReadCount(row, kOutputNames);
    request.completed = request.output_tokens > 0;
    request.without_output = !request.completed;
    if (request.completed && request.prompt_tokens == 0) {
      row.lines.RefuseField("prompt_tokens", "0", "an integer from 1 on");
    }
    if (request.completed) ReadLatencies(row, sent, request);
  }
  std::string_view name;
  const auto session = FindFirst(row, kSessionNames, name);
  if (session && *session != "0") request.session = row.names.sessions.Of(*session, false);
  const auto id = FindFirst(row, kRequestNames, name);
  if (id && !row.names.requests.insert(*id).second) ++row.names.repeated;
  run.requests.push_back(std::move(request));
}

// Notes the columns or keys that nothing reads, and rows of one request.
template <class T>
void AddNotes(const T& columns, const LogNames& names, BenchmarkRun& run) {
  UnusedNames unused;
  bool lacks_unit = false;
  for (const std::string& name : columns) {
    if (names.read.contains(name)) continue;
    unused.Add(name);
    lacks_unit = lacks_unit || names.read.contains(name + "_ms");
  }
  if (!unused.note().empty()) {
    run.notes.push_back(unused.note());
    if (lacks_unit) run.notes.back() += " (the name of a time ends with its unit: ttft_ms, e2e_s)";
  }
  if (names.repeated > 0) {
    run.notes.push_back(
        fmt::format("{} rows have the name of a request before; each row counts", names.repeated));
  }
}

}  // namespace

BenchmarkRun ReadRequestObjects(const Json& rows, const LineReader& lines) {
  BenchmarkRun run;
  run.format = "request log";
  LogNames names;
  Names keys;
  for (const Json& object : rows) {
    const JsonRequestFields fields(object, lines);
    AddRow({[&](std::string_view name) { return fields.Text(name); }, names, lines}, run);
    for (const auto& [key, value] : object.items()) {
      if (!keys.contains(key)) keys.insert(key);
    }
  }
  AddNotes(keys, names, run);
  return run;
}

BenchmarkRun ReadRequestTable(const std::string& path) {
  BenchmarkRun run;
  run.format = "request log";
  LogNames names;
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
    AddRow({find, names, table.lines()}, run);
  }
  if (run.requests.empty()) table.lines().Refuse(fmt::format("no row; allowed: {}", kLogColumns));
  AddNotes(table.columns(), names, run);
  return run;
}

}  // namespace twin
