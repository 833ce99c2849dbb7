#include "traces/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/printable.h"
#include "traces/words.h"

namespace twin {
namespace {

class SortedTrace final : public TraceReader {
 public:
  SortedTrace(std::unique_ptr<TraceReader> reader, bool from_zero) : reader_(std::move(reader)) {
    TracedRequest request;
    while (reader_->Next(request)) requests_.push_back(request);
    if (!reader_->has_arrivals()) return;
    std::stable_sort(
        requests_.begin(), requests_.end(),
        [](const TracedRequest& a, const TracedRequest& b) { return a.arrival < b.arrival; });
    if (requests_.empty() || !from_zero) return;
    const Duration first = requests_.front().arrival.time_since_epoch();
    for (TracedRequest& sorted : requests_) sorted.arrival -= first;
  }

  bool Next(TracedRequest& request) override {
    if (next_ == requests_.size()) return false;
    request = requests_[next_++];
    return true;
  }
  [[nodiscard]] bool has_arrivals() const override { return reader_->has_arrivals(); }
  [[nodiscard]] const TraceReadCounts& counts() const override { return reader_->counts(); }
  [[nodiscard]] const LineReader& lines() const override { return reader_->lines(); }
  [[nodiscard]] const std::string& note() const override { return reader_->note(); }
  [[nodiscard]] bool may_be_cut() const override { return reader_->may_be_cut(); }

 private:
  std::unique_ptr<TraceReader> reader_;
  std::vector<TracedRequest> requests_;
  std::size_t next_ = 0;
};

}  // namespace

std::string SkippedText(const TraceReadCounts& counts) {
  std::string causes;
  const auto add = [&](std::int64_t rows, std::string_view cause) {
    if (rows > 0) causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", rows, cause);
  };
  add(counts.skipped_failures - counts.without_output, "failed");
  add(counts.without_output, "without output");
  add(counts.filtered, "removed by a filter");
  if (causes.empty()) return "";
  return fmt::format("{} of {} rows skipped: {}", counts.rows() - counts.requests, counts.rows(),
                     causes);
}

std::string NoteText(const TraceReadCounts& counts, const std::string& note) {
  std::string text = SkippedText(counts);
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  };
  if (counts.unwaited > 0) {
    add(fmt::format(
        "{} of {} requests follow the answer of another one, and arrive as if that took no time",
        counts.unwaited, counts.requests));
  }
  add(note);
  return text;
}

void UnusedNames::Add(std::string_view name) {
  constexpr std::size_t kNamed = 12;
  if (NamesRows(name) || !names_.emplace(name).second) return;
  if (names_.size() <= kNamed) named_ += (named_.empty() ? "" : ", ") + Printable(name);
  note_ = "not used: " + named_;
  if (names_.size() > kNamed) note_ += fmt::format(" and {} more", names_.size() - kNamed);
}

std::unique_ptr<TraceReader> SortByArrival(std::unique_ptr<TraceReader> reader, bool from_zero) {
  return std::make_unique<SortedTrace>(std::move(reader), from_zero);
}

}  // namespace twin
