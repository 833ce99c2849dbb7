#include "traces/jsonl_trace_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "traces/arrival_order.h"
#include "traces/field.h"
#include "traces/prefix_rules.h"

namespace twin {
namespace {

using Json = nlohmann::json;

class JsonlTraceReader final : public TraceReader {
 public:
  JsonlTraceReader(std::unique_ptr<LineReader> lines, const JsonlLayout& layout,
                   const TraceReadOptions& options)
      : lines_(std::move(lines)), layout_(layout) {
    if (!options.filters.empty()) {
      lines_->RefuseField("filter", options.filters.front().column, "no filter in this format");
    }
  }

  bool Next(TracedRequest& request) override {
    std::string_view line;
    if (!lines_->Next(line)) {
      if (counts_.requests == 0)
        lines_->Refuse("no request in the file; allowed: at least one line");
      return false;
    }
    const Json object = ParseLine(line);
    request.arrival = ReadArrival(object);
    request.prompt_tokens = ReadTokens(object, layout_.prompt_key);
    request.output_tokens = ReadTokens(object, layout_.output_key);
    request.max_output_tokens = request.output_tokens;
    request.predicted_output_tokens = -1;
    request.priority = 0;
    request.tenant = 0;
    request.session = 0;
    ReadChunks(object, request);
    ++counts_.requests;
    return true;
  }

  [[nodiscard]] bool has_arrivals() const override { return true; }
  [[nodiscard]] const TraceReadCounts& counts() const override { return counts_; }
  [[nodiscard]] const LineReader& lines() const override { return *lines_; }
  [[nodiscard]] bool may_be_cut() const override { return false; }  // objects are whole

 private:
  Json ParseLine(std::string_view line) const {
    try {
      Json object = Json::parse(line);
      if (!object.is_object()) lines_->RefuseField("line", line, "a JSON object");
      return object;
    } catch (const Json::parse_error& error) {
      lines_->RefuseField("byte " + std::to_string(error.byte), line, "one JSON object a line");
    } catch (const Json::exception&) {
      lines_->RefuseField("line", line, "a JSON object with numbers in the range of double");
    }
  }

  const Json& Member(const Json& object, std::string_view key) const {
    const auto member = object.find(key);
    if (member == object.end()) {
      lines_->Refuse(std::string(key) + ": missing; allowed: a number");
    }
    return *member;
  }

  static std::string Shown(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace);
  }

  TimePoint ReadArrival(const Json& object) {
    const Json& value = Member(object, layout_.arrival_key);
    const double seconds_max = Seconds(kArrivalMax);
    const double seconds =
        value.is_number() ? value.get<double>() * layout_.arrival_unit_seconds : -1;
    const std::string shown = Shown(value);
    if (!(seconds >= 0 && seconds <= seconds_max)) {
      lines_->RefuseField(
          layout_.arrival_key, shown,
          fmt::format("a number from 0 to {}", seconds_max / layout_.arrival_unit_seconds));
    }
    const TimePoint arrival{DurationFromSeconds(seconds)};
    if (!order_.Accepts(arrival)) order_.Refuse({*lines_, layout_.arrival_key, shown});
    return arrival;
  }

  std::int32_t ReadTokens(const Json& object, std::string_view key) const {
    const Json& value = Member(object, key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 ||
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(kTokensMax)) {
      lines_->RefuseField(key, Shown(value), "an integer from 1 to " + std::to_string(kTokensMax));
    }
    return value.get<std::int32_t>();
  }

  void ReadChunks(const Json& object, TracedRequest& request) const {
    request.prefix_chunks.clear();
    request.prefix_chunk_tokens = 0;
    const auto chunks = object.find(layout_.chunks_key);
    if (chunks == object.end()) return;
    if (!chunks->is_array()) {
      lines_->RefuseField(layout_.chunks_key, Shown(*chunks), "an array of integers from 0");
    }
    for (const Json& chunk : *chunks) {
      if (!chunk.is_number_unsigned()) {
        lines_->RefuseField(layout_.chunks_key, Shown(chunk), "an integer from 0");
      }
      request.prefix_chunks.push_back(chunk.get<std::uint64_t>());
    }
    if (!request.prefix_chunks.empty()) request.prefix_chunk_tokens = layout_.prefix_chunk_tokens;
    CheckPrefixChunks(*lines_, layout_.chunks_key, request, request.prompt_tokens);
  }

  std::unique_ptr<LineReader> lines_;
  const JsonlLayout& layout_;
  ArrivalOrder order_;
  TraceReadCounts counts_;
};

}  // namespace

bool MatchJsonl(const JsonlLayout& layout, std::string_view line) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return object.is_object() && object.contains(layout.arrival_key) &&
         object.contains(layout.prompt_key) && object.contains(layout.output_key);
}

std::size_t KnownJsonlKeys(const JsonlLayout& layout, std::string_view line) {
  std::size_t known = 0;
  for (const std::string_view key :
       {layout.arrival_key, layout.prompt_key, layout.output_key, layout.chunks_key}) {
    if (line.find("\"" + std::string(key) + "\"") != std::string_view::npos) ++known;
  }
  return known;
}

std::unique_ptr<TraceReader> OpenJsonlTrace(std::unique_ptr<LineReader> lines,
                                            const JsonlLayout& layout,
                                            const TraceReadOptions& options) {
  return std::make_unique<JsonlTraceReader>(std::move(lines), layout, options);
}

}  // namespace twin
