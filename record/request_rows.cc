#include "record/request_rows.h"

#include <cstddef>
#include <ostream>
#include <string>

#include "record/csv_columns.h"

namespace twin {
namespace {

void AddTime(CsvLine& line, TimePoint time) {
  if (time == kTimeNever) {
    line.Nothing();
  } else {
    line.Seconds(time);
  }
}

void AddDuration(CsvLine& line, bool defined, Duration duration) {
  if (defined) {
    line.Milliseconds(duration);
  } else {
    line.Nothing();
  }
}

}  // namespace

RequestRows::RequestRows(std::ostream& out, bool boundary) : out_(out), boundary_(boundary) {
  std::string header = HeaderLine(RequestColumns());
  if (boundary_) {
    header.back() = ',';  // in place of the line break
    header += HeaderLine(BoundaryColumns());
  }
  out_ << header;
}

void RequestRows::Write(const RequestLife& life) {
  constexpr const char* kStatus[] = {"waiting",   "running",  "swapped",
                                     "completed", "rejected", "cancelled"};
  const bool completed = life.status == RequestStatus::kCompleted;
  const bool paced = life.output_tokens > 1 && life.has_tokens();
  line_.Count(Index(life.id)).Count(life.tenant).Count(life.priority).Seconds(life.arrival);
  AddTime(line_, life.scheduled);
  AddTime(line_, life.has_tokens() ? life.first_received() : kTimeNever);
  AddTime(line_, completed ? life.last_received() : kTimeNever);
  line_.Count(life.prompt_tokens).Count(life.output_tokens).Count(life.cached_tokens);
  line_.Count(life.preemptions);
  AddDuration(line_, life.scheduled != kTimeNever,
              life.scheduled - (boundary_ ? life.reached : life.arrival));
  AddDuration(line_, life.has_tokens(), life.first_received() - life.arrival);
  const std::int64_t gaps = paced ? life.output_tokens - 1 : 1;
  AddDuration(line_, completed && paced,
              Duration{((life.ended - life.first_token).count() + gaps / 2) / gaps});
  AddDuration(line_, completed, life.last_received() - life.arrival);
  AddDuration(line_, paced, life.longest_gap);
  line_.Word(kStatus[static_cast<std::size_t>(life.status)]);
  const bool rejected = life.status == RequestStatus::kRejected;
  line_.Word(rejected ? kRejectReasonNames[static_cast<std::size_t>(life.reject_reason)] : "");
  if (boundary_) AddEngineSide(life);
  line_.WriteTo(out_);
}

void RequestRows::AddEngineSide(const RequestLife& life) {
  const bool completed = life.status == RequestStatus::kCompleted;
  AddTime(line_, life.reached);
  AddTime(line_, life.first_token);
  AddTime(line_, completed ? life.ended : kTimeNever);
  AddDuration(line_, life.has_tokens(), life.first_token - life.reached);
  AddDuration(line_, completed, life.ended - life.reached);
}

}  // namespace twin
