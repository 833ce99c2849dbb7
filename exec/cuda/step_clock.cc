#include "exec/cuda/step_clock.h"

namespace twin::exec::cuda {

void LapEvents::Record(StreamView stream, std::uint8_t part) {
  if (count_ == events_.size()) {
    events_.emplace_back(Event::Kind::kTimed);
    parts_.push_back(part);
  }
  parts_[count_] = part;
  const Event& event = events_[count_++];
  if (kind_ == Kind::kInGraph) {
    event.RecordInGraph(stream);
  } else {
    event.Record(stream);
  }
}

std::int64_t LapEvents::Sum(std::uint8_t part) const {
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < count_; ++i) {
    if (parts_[i] == part) sum += NanosecondsBetween(events_[i - 1], events_[i]);
  }
  return sum;
}

StepParts LapEvents::Parts() const {
  StepParts parts;
  for (std::size_t i = 1; i < count_; ++i) {
    parts.times[parts_[i]] += Duration{NanosecondsBetween(events_[i - 1], events_[i])};
  }
  return parts;
}

bool DetailTurns::Next(bool possible) {
  if (others_left_ > 0) {
    --others_left_;
    return false;
  }
  if (possible) others_left_ = interval_ - 1;
  return possible;
}

StepParts DivideBy(const StepParts& shares, Duration total) {
  const Duration sum = shares.device();
  StepParts divided;
  if (sum <= Duration{0}) {
    divided[StepPart::kOther] = total;
    return divided;
  }
  Duration left = total;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    const double share =
        static_cast<double>(shares.times[i].count()) / static_cast<double>(sum.count());
    divided.times[i] = DurationFromNanoseconds(share * static_cast<double>(total.count()));
    left -= divided.times[i];
    if (shares.times[i] > shares.times[largest]) largest = i;
  }
  divided.times[largest] += left;
  return divided;
}

}  // namespace twin::exec::cuda
