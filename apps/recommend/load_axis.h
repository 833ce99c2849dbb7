// The load of a workload: the field that says how much arrives.
#pragma once

#include <cstdint>
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

}  // namespace twin::run
