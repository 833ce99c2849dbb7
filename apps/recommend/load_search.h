// The load of a workload: the field that says how much arrives, and the search for the largest load
// at which bounds hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "config/recommend_config.h"
#include "traces/workload.h"

namespace twin::run {

struct LoadAxis {
  enum class Kind : std::uint8_t { kRate, kTraceScale, kServegenScale, kUsers };
  Kind kind = Kind::kRate;
  double own = 0;  // load that the workload states

  // Users are whole; rates and scales are not.
  [[nodiscard]] bool whole() const { return kind == Kind::kUsers; }
  // The field, as in --set.
  [[nodiscard]] std::string path() const;
  // "requests/s", "users", or "times the trace".
  [[nodiscard]] std::string unit() const;
};

// Throws InputError (usage) if nothing says how much arrives, or the objective asks for another
// kind of load: users for a closed loop, a rate for goodput and cost.
LoadAxis LoadAxisOf(const WorkloadConfig& workload, RecommendConfig::Objective objective,
                    const std::string& source);

// Gives the workload this load.
void SetLoad(const LoadAxis& axis, double load, WorkloadConfig& workload);

struct LoadSearch {
  double start = 1;         // where the answer is expected
  double low = 0;           // smallest load to try; above 0
  double high = 0;          // largest load to try
  bool whole = false;       // loads are whole numbers
  double tolerance = 0.01;  // relative width of the last bracket
  double step = 2;          // first ratio of the bracket; later ones grow, up to 4
};

// Returns the load at which `room` crosses zero: positive where the bounds hold, negative where
// they do not; it should fall with the load. Grows a bracket about `start`, bisects it at geometric
// means, and draws a straight line through its ends. Of whole loads, returns the largest one that
// holds. Returns `low` if the bounds hold nowhere, `high` if they hold everywhere. Calls `room`
// once per load. REQUIRES: 0 < low <= start <= high, step > 1.
double FindLoadLimit(const LoadSearch& search, const std::function<double(double)>& room);

}  // namespace twin::run
