#include "traces/step_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/line_reader.h"
#include "core/input_error.h"
#include "traces/json_fields.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

using Json = nlohmann::json;

constexpr const char* kRecordsAllowed =
    "ForwardPassMetrics, a JSON object a line, as `--fpm-trace` of Dynamo writes them";
constexpr std::int64_t kCounterMax = std::int64_t{1} << 53;
// Products of prompt tokens and cached ones stay within 64 bits.
constexpr std::int64_t kPrefillSumMax = kTokensMax;
constexpr std::int64_t kDecodeSumMax = kStepRequestsMax * kTokensMax;
constexpr std::string_view kDeviceScope = "execute_model_cuda";

// The objects within which a record may lie, the outermost one first.
constexpr std::array<const char*, 3> kWrappers = {"event.fpm.", "fpm.", ""};

// One line of a file.
class RecordLine {
 public:
  RecordLine(const Json& document, const LineReader& lines)
      : fields_(document, lines), lines_(lines) {
    for (const char* wrapper : kWrappers) {
      prefix_ = wrapper;
      if (Find("scheduled_requests") != nullptr) return;
    }
    lines.Refuse(fmt::format("scheduled_requests: missing, or null; allowed: {}", kRecordsAllowed));
  }

  [[nodiscard]] std::string Path(std::string_view field) const {
    return fmt::format("{}{}", prefix_, field);
  }
  [[nodiscard]] const Json* Find(std::string_view field) const { return fields_.Find(Path(field)); }
  [[nodiscard]] std::int64_t Count(std::string_view field, std::int64_t high) const {
    return fields_.Integer(Path(field), 0, high);
  }
  [[nodiscard]] double Variance(std::string_view field) const {
    return fields_.Number(Path(field)).value_or(0);
  }
  [[nodiscard]] std::string Text(std::string_view field) const {
    return fields_.Text(Path(field)).value_or("");
  }
  [[nodiscard]] std::optional<TimePoint> Observed() const {
    const std::string path = Beside("observed_at_unix_ms");
    if (prefix_.empty() || fields_.Find(path) == nullptr) return std::nullopt;
    return fields_.Time(path, 1e-3);
  }
  // The process that published the record, as Dynamo's trace names it.
  [[nodiscard]] std::string Source() const {
    std::string source;
    for (const char* field : {"source.namespace", "source.component"}) {
      if (const auto text = fields_.Text(Beside(field))) source += *text + "/";
    }
    return source;
  }
  [[noreturn]] void Refuse(std::string_view field, const std::string& allowed) const {
    const std::string path = Path(field);
    if (Find(field) == nullptr) {
      lines_.Refuse(fmt::format("{}: missing, or null; allowed: {}", path, allowed));
    }
    lines_.RefuseField(path, fields_.Shown(path), allowed);
  }

 private:
  // The path of a member of the object that holds the record.
  [[nodiscard]] std::string Beside(std::string_view field) const {
    return fmt::format("{}{}", prefix_.substr(0, prefix_.rfind("fpm.")), field);
  }

  JsonRequestFields fields_;
  const LineReader& lines_;
  std::string prefix_;
};

Duration TimeOf(const RecordLine& line) {
  const Json* const value = line.Find("wall_time");
  const double seconds = value != nullptr && value->is_number() ? value->get<double>() : -1;
  if (!(seconds >= 0 && seconds <= Seconds(kStepRecordMax))) {
    line.Refuse("wall_time", fmt::format("seconds from 0 to {:g}", Seconds(kStepRecordMax)));
  }
  return DurationFromSeconds(seconds);
}

// Refuses sums that so many requests cannot have.
void CheckSum(const RecordLine& line, const char* sum_field, const char* count_field,
              std::int64_t sum, std::int64_t requests) {
  if (requests == 0 && sum > 0) line.Refuse(sum_field, fmt::format("0, as {}", count_field));
  if (sum > requests * kTokensMax) {
    line.Refuse(sum_field, fmt::format("at most {} for each of {}", kTokensMax, count_field));
  }
}

void ReadComposition(const RecordLine& line, StepRecord& record) {
  constexpr const char* kPrefills = "scheduled_requests.num_prefill_requests";
  constexpr const char* kPrefillTokens = "scheduled_requests.sum_prefill_tokens";
  constexpr const char* kPrefillKv = "scheduled_requests.sum_prefill_kv_tokens";
  constexpr const char* kDecodes = "scheduled_requests.num_decode_requests";
  constexpr const char* kDecodeKv = "scheduled_requests.sum_decode_kv_tokens";
  record.prefill_requests = line.Count(kPrefills, kStepRequestsMax);
  record.prefill_tokens = line.Count(kPrefillTokens, kPrefillSumMax);
  record.prefill_kv_tokens = line.Count(kPrefillKv, kPrefillSumMax);
  record.decode_requests = line.Count(kDecodes, kStepRequestsMax);
  record.decode_kv_tokens = line.Count(kDecodeKv, kDecodeSumMax);
  record.decode_kv_variance = line.Variance("scheduled_requests.var_decode_kv_tokens");
  CheckSum(line, kPrefillTokens, kPrefills, record.prefill_tokens, record.prefill_requests);
  CheckSum(line, kPrefillKv, kPrefills, record.prefill_kv_tokens, record.prefill_requests);
  CheckSum(line, kDecodeKv, kDecodes, record.decode_kv_tokens, record.decode_requests);
  if (record.decode_kv_tokens < record.decode_requests) {
    line.Refuse(kDecodeKv, fmt::format("at least 1 for each of {}", kDecodes));
  }
  if (record.time == Duration{0} && !record.is_idle()) {
    line.Refuse("wall_time", "above 0 in a record with scheduled requests");
  }
}

std::optional<std::int64_t> QueuedOf(const RecordLine& line) {
  if (line.Find("queued_requests") == nullptr) return std::nullopt;
  return line.Count("queued_requests.num_prefill_requests", kCounterMax) +
         line.Count("queued_requests.num_decode_requests", kCounterMax);
}

// Reads files one after the other into one list.
class Reader {
 public:
  void Read(const std::string& path) {
    LineReader lines(path);
    records_.files.push_back(path);
    std::string_view text;
    while (lines.Next(text)) {
      const Json document = ParseJson(text, lines, kRecordsAllowed);
      AddLine(RecordLine(document, lines), lines);
    }
  }
  StepRecords Take() && {
    const auto is_step = [](const StepRecord& record) { return !record.is_idle(); };
    if (std::ranges::none_of(records_.records, is_step)) {
      throw InputError(InputError::Kind::kData, records_.files.front(),
                       fmt::format("has no step; allowed: {}, at least one of them with scheduled "
                                   "requests",
                                   kRecordsAllowed));
    }
    return std::move(records_);
  }

 private:
  void AddLine(const RecordLine& line, const LineReader& lines) {
    if (const Json* const version = line.Find("version"); version != nullptr && *version != 1) {
      line.Refuse("version", "1");
    }
    ReadScope(line);
    StepRecord record;
    record.file = static_cast<std::uint32_t>(records_.files.size() - 1);
    record.line = lines.line_number();
    record.counter = line.Count("counter_id", kCounterMax);
    record.worker = WorkerOf(line, record.counter);
    record.time = TimeOf(line);
    record.observed = line.Observed();
    ReadComposition(line, record);
    record.queued = QueuedOf(line);
    records_.records.push_back(record);
  }

  // One file may hold one kind of times.
  void ReadScope(const RecordLine& line) {
    constexpr const char* kField = "timing_scope";
    const bool names = line.Find(kField) != nullptr;
    if (names && line.Text(kField) != kDeviceScope) line.Refuse(kField, std::string(kDeviceScope));
    if (!records_.records.empty() && names != records_.device_times) {
      line.Refuse(kField, names ? "none, as in the records before"
                                : fmt::format("{}, as in the records before", kDeviceScope));
    }
    records_.device_times = names;
  }

  std::uint32_t WorkerOf(const RecordLine& line, std::int64_t counter) {
    const std::int64_t rank =
        line.Find("dp_rank") == nullptr ? 0 : line.Count("dp_rank", kStepRequestsMax);
    std::string name = line.Source() + line.Text("worker_id");
    if (!name.empty()) name += ' ';
    name += fmt::format("rank {}", rank);
    const auto [found, is_new] = numbers_.try_emplace(name, records_.workers.size());
    if (is_new) {
      records_.workers.push_back(name);
      counters_.push_back(counter);
    } else if (counter <= counters_[found->second]) {
      line.Refuse("counter_id", fmt::format("above {}, that of this worker's record before",
                                            counters_[found->second]));
    }
    counters_[found->second] = counter;
    return static_cast<std::uint32_t>(found->second);
  }

  StepRecords records_;
  std::unordered_map<std::string, std::size_t> numbers_;  // of workers by name
  std::vector<std::int64_t> counters_;                    // the last one of each worker
};

}  // namespace

std::string StepRecords::PlaceOf(const StepRecord& record) const {
  return fmt::format("{}:{}", files[record.file], record.line);
}

StepRecords ReadStepRecords(std::span<const std::string> paths) {
  Reader reader;
  for (const std::string& path : paths) reader.Read(path);
  return std::move(reader).Take();
}

}  // namespace twin
