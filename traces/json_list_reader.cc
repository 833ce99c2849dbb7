#include "traces/json_list_reader.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/sorted_trace.h"

namespace twin {
namespace {

using Json = nlohmann::json;

class JsonListReader final : public TraceReader {
 public:
  JsonListReader(std::unique_ptr<LineReader> lines, JsonList list)
      : lines_(std::move(lines)), list_(std::move(list)) {
    counts_.skipped_failures = list_.failures;
    counts_.without_output = list_.without_output;
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

Json ReadDocument(LineReader& lines, bool one_per_line) {
  constexpr std::string_view kAllowed = "JSON, whole";
  std::string_view line;
  if (one_per_line) {
    Json list = Json::array();
    while (lines.Next(line)) list.push_back(ParseJson(line, lines, kAllowed));
    return list;
  }
  std::string text;
  while (lines.Next(line)) text.append(line).push_back('\n');
  return ParseJson(text, lines, kAllowed);
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

}  // namespace twin
