#include "apps/recommend/load_axis.h"

#include <cmath>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

using Arrivals = ArrivalConfig::Kind;

[[noreturn]] void RefuseLoad(const std::string& source, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, source, what);
}

bool HasRate(Arrivals kind) {
  return kind == Arrivals::kPoisson || kind == Arrivals::kGamma || kind == Arrivals::kWeibull ||
         kind == Arrivals::kConstant;
}

LoadAxis AxisWithoutObjective(const WorkloadConfig& workload, const std::string& source) {
  for (const WorkloadClass& one : workload.classes) {
    if (!one.arrivals) continue;
    RefuseLoad(source,
               "workload.classes.arrivals: the load would have several fields; allowed: classes "
               "that share workload.arrivals");
  }
  const ArrivalConfig& arrivals = workload.arrivals;
  if (HasRate(arrivals.kind)) return {LoadAxis::Kind::kRate, arrivals.rate};
  if (arrivals.kind == Arrivals::kClosedLoop)
    return {LoadAxis::Kind::kUsers, static_cast<double>(arrivals.users)};
  if (arrivals.kind == Arrivals::kNone && workload.trace)
    return {LoadAxis::Kind::kTraceScale, workload.trace->rate_scale};
  if (arrivals.kind == Arrivals::kNone && workload.servegen)
    return {LoadAxis::Kind::kServegenScale, workload.servegen->rate_scale};
  RefuseLoad(source,
             "workload.arrivals.kind: says no load; allowed: poisson, gamma, weibull, constant, "
             "closed_loop, or a trace with its own arrivals");
}

}  // namespace

std::string LoadAxis::path() const {
  switch (kind) {
    case Kind::kRate:
      return "workload.arrivals.rate";
    case Kind::kTraceScale:
      return "workload.trace.rate_scale";
    case Kind::kServegenScale:
      return "workload.servegen.rate_scale";
    case Kind::kUsers:
      return "workload.arrivals.users";
  }
  return {};
}

std::string LoadAxis::unit() const {
  if (kind == Kind::kRate) return "requests/s";
  return kind == Kind::kUsers ? "users" : "times the trace";
}

LoadAxis LoadAxisOf(const WorkloadConfig& workload, RecommendConfig::Objective objective,
                    const std::string& source) {
  using Objective = RecommendConfig::Objective;
  const LoadAxis axis = AxisWithoutObjective(workload, source);
  if (objective == Objective::kUsers && !axis.whole()) {
    RefuseLoad(source,
               "objective: users needs clients that wait; allowed: workload.arrivals { kind: "
               "closed_loop users: N }, or the objective goodput");
  }
  if (objective != Objective::kUsers && objective != Objective::kLatency && axis.whole()) {
    RefuseLoad(source,
               "objective: needs a rate, and a closed loop has none; allowed: users or latency");
  }
  return axis;
}

void SetLoad(const LoadAxis& axis, double load, WorkloadConfig& workload) {
  switch (axis.kind) {
    case LoadAxis::Kind::kRate:
      workload.arrivals.rate = load;
      return;
    case LoadAxis::Kind::kTraceScale:
      CHECK(workload.trace);
      workload.trace->rate_scale = load;
      return;
    case LoadAxis::Kind::kServegenScale:
      CHECK(workload.servegen);
      workload.servegen->rate_scale = load;
      return;
    case LoadAxis::Kind::kUsers:
      workload.arrivals.users = static_cast<std::int32_t>(std::llround(load));
      return;
  }
}

}  // namespace twin::run
