// Recognises measurements of the time to launch kernels instead of the time that they take.
//
// Benchmarks that cannot capture a call in a graph time the host: small calls of every size then
// take the same, many times what other kernels need. A simulated step, whose kernels are launched
// ahead or replayed, takes no such time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/predict/gemm_rows.h"

namespace twin::run {

// One measurement of a group: a library and format.
struct LaunchSample {
  std::size_t group = 0;
  double work = 0;  // any measure that grows with the size of the call
  double seconds = 0;
};

// The floor of a group: the 5th percentile of its times over the smallest tenth of its work.
struct LaunchFloor {
  double seconds = 0;
  bool launch = false;  // the rows below twice the floor are launches
};

// Floors of groups 0 .. `groups` - 1. Launches are groups whose floor is above three times the
// median floor, and that have 30 % or more of their rows below twice their floor. REQUIRES: each
// group has a row.
std::vector<LaunchFloor> FindLaunchFloors(const std::vector<LaunchSample>& rows,
                                          std::size_t groups);

// Takes launches out of `rows`. Returns one line for each library and format that had any.
std::vector<std::string> ExcludeLaunchRows(GemmRows& rows);

}  // namespace twin::run
