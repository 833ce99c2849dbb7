// A predicted time and how sure it is.
#pragma once

namespace twin::sim {

// A log-normal distribution: `seconds` is its median, `log_sd` the standard deviation of the
// natural logarithm, so that 0.05 means about 5 % either way.
struct TimeEstimate {
  double seconds = 0;
  double log_sd = 0;
  // The part of log_sd that many calls of different sizes share; the rest averages out over a run.
  double lasting_sd = 0;
};

// Times add; the errors of what one model predicts are taken as equal in sign.
inline TimeEstimate operator+(const TimeEstimate& a, const TimeEstimate& b) {
  const double seconds = a.seconds + b.seconds;
  if (seconds == 0) return {};
  return {seconds, (a.seconds * a.log_sd + b.seconds * b.log_sd) / seconds,
          (a.seconds * a.lasting_sd + b.seconds * b.lasting_sd) / seconds};
}

inline TimeEstimate operator*(double count, const TimeEstimate& one) {
  return {count * one.seconds, one.log_sd, one.lasting_sd};
}

}  // namespace twin::sim
