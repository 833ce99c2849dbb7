#include "run/many/distinct_reports.h"

#include <fmt/format.h>

#include <utility>

namespace twin::run {

bool DistinctReports::IsNew(const std::string& text) {
  if (texts_.contains(text)) return false;
  if (texts_.size() == kTextsMax) {
    ++left_out_;
    return false;
  }
  texts_.insert(text);
  return true;
}

void DistinctReports::Finish() {
  const std::size_t left_out = std::exchange(left_out_, 0);
  if (left_out == 0) return;
  control_.OnNote(fmt::format("{} more reports of runs are not shown", left_out));
}

}  // namespace twin::run
