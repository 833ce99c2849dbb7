#include "traces/jsonl_trace_reader.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "traces/json_fields.h"
#include "traces/report_paths.h"
#include "traces/session_numbers.h"
#include "traces/trace_limits.h"

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
    while (next_ == requests_.size()) {
      if (!ReadLine()) return false;
    }
    request = requests_[next_++];
    ++counts_.requests;
    return true;
  }

  [[nodiscard]] bool has_arrivals() const override { return true; }
  [[nodiscard]] const TraceReadCounts& counts() const override { return counts_; }
  [[nodiscard]] const LineReader& lines() const override { return *lines_; }
  [[nodiscard]] const std::string& note() const override { return unused_.note(); }
  [[nodiscard]] bool may_be_cut() const override { return false; }  // objects are whole

 private:
  // Replaces requests_ by the requests of the next line; false at the end.
  bool ReadLine() {
    std::string_view line;
    next_ = 0;
    if (!lines_->Next(line)) {
      if (counts_.requests == 0) {
        lines_->Refuse("no request in the file; allowed: at least one line");
      }
      return false;
    }
    const Json object = ParseJson(line, *lines_, "one JSON object a line");
    if (!object.is_object()) lines_->RefuseField("line", line, "a JSON object");
    const JsonRequestFields fields(object, *lines_);
    const TimePoint arrival = ReadArrival(fields);
    if (!layout_.refused_key.empty() && object.contains(layout_.refused_key)) {
      lines_->Refuse(std::string(layout_.refused_key) +
                     ": a workflow whose requests wait for several others; allowed: single "
                     "requests, and sessions, which are chains of requests");
    }
    for (const auto& [key, value] : object.items()) NoteKey(key);
    const std::uint64_t session = SessionOf(fields);
    if (const Json* turns = FindOptional(fields, layout_.turns_key)) {
      ReadSession(*turns, arrival, session == 0 ? sessions_.New() : session);
    } else {
      requests_.resize(1);
      ReadRequest(fields, requests_.front());
      requests_.front().arrival = arrival;
      requests_.front().session = session;
    }
    return true;
  }

  void NoteKey(std::string_view key) {
    const std::string_view known[] = {
        layout_.arrival_key, layout_.prompt_key,  layout_.output_key,     layout_.name_key,
        layout_.before_key,  layout_.chunks_key,  layout_.prompt_ids_key, layout_.output_ids_key,
        layout_.turns_key,   layout_.pause_ns_key};
    const bool session = layout_.before_key.empty() && Contains(kSessionNames, key);
    if (!session && !Contains(known, key)) unused_.Add(key);
  }

  static bool Contains(std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  }

  // 0 if the line names no conversation.
  std::uint64_t SessionOf(const JsonRequestFields& fields) {
    if (layout_.before_key.empty()) {
      const auto name = fields.Text(FirstPresent(fields, kSessionNames));
      return name ? sessions_.Of(*name, /*starts=*/false) : 0;
    }
    const std::optional<std::string> name = fields.Text(layout_.name_key);
    std::optional<std::string> before = fields.Text(layout_.before_key);
    if (before && before->starts_with('-')) before.reset();
    if (!name && !before) return 0;
    return sessions_.OfAnswer(name ? *name : *before, before ? &*before : nullptr);
  }

  // The value of an optional key; nullptr if the line or the format lacks the key.
  static const Json* FindOptional(const JsonRequestFields& fields, std::string_view key) {
    return key.empty() ? nullptr : fields.Find(key);
  }

  TimePoint ReadArrival(const JsonRequestFields& fields) {
    const TimePoint arrival = fields.Time(layout_.arrival_key, layout_.arrival_unit_seconds);
    if (!layout_.sorts && !order_.Accepts(arrival)) {
      order_.Refuse({*lines_, layout_.arrival_key, fields.Shown(layout_.arrival_key)});
    }
    return arrival;
  }

  void ReadSession(const Json& turns, TimePoint arrival, std::uint64_t session) {
    if (!turns.is_array()) lines_->RefuseField(layout_.turns_key, turns.dump(), "an array");
    requests_.resize(turns.size());
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const JsonRequestFields fields(turns[i], *lines_);
      ReadRequest(fields, requests_[i]);
      requests_[i].session = session;
      requests_[i].arrival = arrival;
      if (FindOptional(fields, layout_.pause_ns_key) != nullptr) {
        arrival += fields.Time(layout_.pause_ns_key, 1e-9).time_since_epoch();
      }
      if (i > 0) ++counts_.unwaited;
    }
    if (arrival.time_since_epoch() > kArrivalMax) {
      lines_->Refuse(std::string(layout_.pause_ns_key) + ": pauses pass 126 years in all");
    }
  }

  void ReadRequest(const JsonRequestFields& fields, TracedRequest& request) const {
    request = TracedRequest{};
    request.prompt_tokens = fields.Tokens(layout_.prompt_key);
    request.output_tokens = fields.Tokens(layout_.output_key);
    request.max_output_tokens = request.output_tokens;
    if (layout_.chunks_key.empty()) {
      NameChunks(fields, request);
    } else {
      ReadIds(fields, layout_.chunks_key, request.prefix_chunks);
      CheckPrefixChunks(*lines_, layout_.chunks_key, WithChunkSize(request), request.prompt_tokens);
    }
    WithChunkSize(request);
  }

  TracedRequest& WithChunkSize(TracedRequest& request) const {
    request.prefix_chunk_tokens = request.prefix_chunks.empty() ? 0 : layout_.prefix_chunk_tokens;
    return request;
  }

  // Names the content of the prompt and, if it is known too, of the output after it.
  void NameChunks(const JsonRequestFields& fields, TracedRequest& request) const {
    std::vector<std::uint64_t> tokens;
    ReadIds(fields, layout_.prompt_ids_key, tokens);
    const auto prompt_tokens = static_cast<std::size_t>(request.prompt_tokens);
    const bool whole = tokens.size() >= prompt_tokens;
    if (whole) {
      tokens.resize(prompt_tokens);
      ReadIds(fields, layout_.output_ids_key, tokens);
    }
    const auto end = std::min<std::size_t>(
        tokens.size(), prompt_tokens + static_cast<std::size_t>(request.output_tokens));
    const auto chunk_tokens = static_cast<std::size_t>(layout_.prefix_chunk_tokens);
    std::uint64_t content = 0;  // hash of all tokens so far
    for (std::size_t i = 0; i < end; ++i) {
      content = MixWords(content, tokens[i] + 1);
      if ((i + 1) % chunk_tokens == 0) request.prefix_chunks.push_back(content);
    }
  }

  // Appends the array's integers, if there is one.
  void ReadIds(const JsonRequestFields& fields, std::string_view key,
               std::vector<std::uint64_t>& ids) const {
    const Json* array = FindOptional(fields, key);
    if (array == nullptr) return;
    if (!array->is_array()) {
      lines_->RefuseField(key, fields.Shown(key), "an array of integers from 0");
    }
    for (const Json& id : *array) {
      if (!id.is_number_unsigned()) lines_->RefuseField(key, id.dump(), "an integer from 0");
      ids.push_back(id.get<std::uint64_t>());
    }
  }

  std::unique_ptr<LineReader> lines_;
  const JsonlLayout& layout_;
  std::vector<TracedRequest> requests_;  // requests of the latest line
  std::size_t next_ = 0;
  SessionNumbers sessions_;
  UnusedNames unused_;
  ArrivalOrder order_;
  TraceReadCounts counts_;
};

bool Matches(const JsonlLayout& layout, const Json& object) {
  if (!object.is_object() || !object.contains(layout.arrival_key)) return false;
  if (!layout.before_key.empty() && !object.contains(layout.before_key)) return false;
  if (!layout.turns_key.empty() && object.contains(layout.turns_key)) return true;
  if (!layout.refused_key.empty() && object.contains(layout.refused_key)) return true;
  return object.contains(layout.prompt_key) && object.contains(layout.output_key);
}

}  // namespace

const JsonlLayout* MatchJsonl(std::span<const JsonlLayout> layouts, std::string_view line) {
  if (!line.starts_with('{')) return nullptr;
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto found = std::ranges::find_if(
      layouts, [&](const JsonlLayout& layout) { return Matches(layout, object); });
  return found == layouts.end() ? nullptr : &*found;
}

std::size_t KnownJsonlKeys(std::span<const JsonlLayout> layouts, std::string_view line) {
  std::size_t best = 0;
  for (const JsonlLayout& layout : layouts) {
    std::size_t known = 0;
    for (const std::string_view key :
         {layout.arrival_key, layout.prompt_key, layout.output_key, layout.chunks_key,
          layout.prompt_ids_key, layout.turns_key, layout.before_key}) {
      if (key.empty()) continue;
      if (line.find("\"" + std::string(key) + "\"") != std::string_view::npos) ++known;
    }
    best = std::max(best, known);
  }
  return best;
}

std::unique_ptr<TraceReader> OpenJsonlTrace(std::unique_ptr<LineReader> lines,
                                            std::span<const JsonlLayout> layouts,
                                            const TraceReadOptions& options) {
  std::string_view first;
  const JsonlLayout* layout = nullptr;
  if (lines->Next(first)) {
    layout = MatchJsonl(layouts, first);
    lines->Unread();
  }
  if (layout == nullptr) layout = &layouts.front();
  auto reader = std::make_unique<JsonlTraceReader>(std::move(lines), *layout, options);
  if (layout->sorts) return SortByArrival(std::move(reader), /*from_zero=*/false);
  return reader;
}

}  // namespace twin
