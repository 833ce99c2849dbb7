#include "apps/recommend/load_search.h"

#include <algorithm>
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

constexpr double kStepMax = 4;

struct Probe {
  double load = 0;
  double room = 0;
};

double RoundedLoad(double load, bool whole) { return whole ? std::round(load) : load; }

// `load` times `ratio`; of whole loads at least one further.
double Moved(double load, double ratio, bool whole) {
  const double moved = RoundedLoad(load * ratio, whole);
  if (!whole || moved != load) return moved;
  return ratio > 1 ? load + 1 : load - 1;
}

double Between(const Probe& low, const Probe& high, const LoadSearch& search) {
  if (search.whole) return low.load;
  const double share = std::isfinite(high.room) ? low.room / (low.room - high.room) : 0;
  return low.load + share * (high.load - low.load);
}

double Bisect(Probe low, Probe high, const LoadSearch& search,
              const std::function<double(double)>& room) {
  for (;;) {
    const bool narrow = search.whole ? high.load - low.load <= 1
                                     : high.load - low.load <= search.tolerance * high.load;
    if (narrow) return Between(low, high, search);
    const double middle = RoundedLoad(std::sqrt(low.load * high.load), search.whole);
    if (middle <= low.load || middle >= high.load) return Between(low, high, search);
    const Probe probe{middle, room(middle)};
    (probe.room >= 0 ? low : high) = probe;
  }
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
  const bool takes_users = objective == Objective::kUsers || objective == Objective::kLatency ||
                           objective == Objective::kEnergy;
  if (!takes_users && axis.whole()) {
    RefuseLoad(source,
               "objective: needs a rate, and a closed loop has none; allowed: users, latency or "
               "energy");
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

double FindLoadLimit(const LoadSearch& search, const std::function<double(double)>& room) {
  CHECK(search.low > 0 && search.low <= search.start && search.start <= search.high);
  CHECK(search.step > 1);
  const double start = RoundedLoad(search.start, search.whole);
  Probe here{start, room(start)};
  const bool up = here.room >= 0;
  for (double step = search.step;; step = std::min(step * step, std::max(kStepMax, step))) {
    const double ratio = up ? step : 1 / step;
    const double next = std::clamp(Moved(here.load, ratio, search.whole), search.low, search.high);
    if (next == here.load) return here.load;
    const Probe there{next, room(next)};
    if ((there.room >= 0) != up)
      return up ? Bisect(here, there, search, room) : Bisect(there, here, search, room);
    here = there;
  }
}

}  // namespace twin::run
