#include "traces/json_list_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/field.h"
#include "traces/sorted_trace.h"

namespace twin {
namespace {

using Json = nlohmann::json;

class JsonListReader final : public TraceReader {
 public:
  JsonListReader(std::unique_ptr<LineReader> lines, JsonList list)
      : lines_(std::move(lines)), list_(std::move(list)) {
    counts_.skipped_failures = list_.failures;
  }

  bool Next(TracedRequest& request) override {
    if (next_ == list_.requests.size()) return false;
    request = list_.requests[next_++];
    ++counts_.requests;
    return true;
  }
  [[nodiscard]] bool has_arrivals() const override { return list_.has_arrivals; }
  [[nodiscard]] const TraceReadCounts& counts() const override { return counts_; }
  [[nodiscard]] const LineReader& lines() const override { return *lines_; }
  [[nodiscard]] bool may_be_cut() const override { return false; }  // documents are whole

 private:
  std::unique_ptr<LineReader> lines_;
  JsonList list_;
  TraceReadCounts counts_;
  std::size_t next_ = 0;
};

Json Parse(std::string_view text, const LineReader& lines) {
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    lines.RefuseField("document", text.substr(0, 40), "JSON, whole and with finite numbers");
  }
  return document;
}

Json ReadDocument(LineReader& lines, bool one_per_line) {
  std::string_view line;
  if (one_per_line) {
    Json list = Json::array();
    while (lines.Next(line)) list.push_back(Parse(line, lines));
    return list;
  }
  std::string text;
  while (lines.Next(line)) text.append(line).push_back('\n');
  return Parse(text, lines);
}

std::string Shown(const Json* value) {
  return value == nullptr
             ? "nothing"
             : value->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

}  // namespace

std::unique_ptr<TraceReader> OpenJsonList(
    std::unique_ptr<LineReader> lines, const TraceReadOptions& options, bool one_per_line,
    const std::function<JsonList(const Json&, const LineReader&)>& read) {
  if (!options.filters.empty()) {
    lines->RefuseField("filter", options.filters.front().column, "no filter in this format");
  }
  JsonList list = read(ReadDocument(*lines, one_per_line), *lines);
  if (list.failures > 0 && options.failed_rows == FailedRows::kRefuse) {
    lines->Refuse(fmt::format("{} requests failed; allowed: none", list.failures));
  }
  if (list.requests.empty()) {
    const std::string found = list.failures > 0
                                  ? fmt::format("all {} requests failed", list.failures)
                                  : "no request in the file";
    lines->Refuse(found + "; allowed: at least one that succeeded");
  }
  return SortByArrival(std::make_unique<JsonListReader>(std::move(lines), std::move(list)));
}

const Json* JsonRequestFields::Find(std::string_view path) const {
  const Json* value = &request_;
  while (true) {
    const std::size_t end = path.find('.');
    const auto member = value->is_object() ? value->find(path.substr(0, end)) : value->end();
    if (member == value->end()) return nullptr;
    value = &*member;
    if (end == std::string_view::npos) return value;
    path.remove_prefix(end + 1);
  }
}

std::int32_t JsonRequestFields::Tokens(std::string_view path) const {
  const Json* value = Find(path);
  const double tokens = value != nullptr && value->is_number() ? value->get<double>() : 0;
  if (!(tokens >= 1 && tokens <= kTokensMax) || tokens != std::floor(tokens)) {
    lines_.RefuseField(path, Shown(value), fmt::format("an integer from 1 to {}", kTokensMax));
  }
  return static_cast<std::int32_t>(tokens);
}

TimePoint JsonRequestFields::Time(std::string_view path, double unit_seconds) const {
  const Json* value = Find(path);
  const double seconds =
      value != nullptr && value->is_number() ? value->get<double>() * unit_seconds : -1;
  if (!(seconds >= 0 && seconds <= Seconds(kArrivalMax))) {
    lines_.RefuseField(path, Shown(value),
                       fmt::format("a number from 0 to {}", Seconds(kArrivalMax) / unit_seconds));
  }
  if (value->is_number_integer() && unit_seconds == 1e-9) {
    return TimePoint{Duration{value->get<std::int64_t>()}};
  }
  return TimePoint{DurationFromSeconds(seconds)};
}

}  // namespace twin
