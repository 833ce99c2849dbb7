#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/input_error.h"
#include "traces/trace_limits.h"
#include "traces/workload.h"

namespace twin {
namespace {

[[noreturn]] void Refuse(const std::string& field, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, field, what);
}

template <class T>
std::string Found(const T& value) {
  return fmt::format("found {}; allowed: ", value);
}

// Comparisons are written so that NaN fails them.
void RequireWithin(const std::string& field, double value, double low, double high) {
  if (value >= low && value <= high) return;
  Refuse(field, Found(value) + fmt::format("{} to {}", low, high));
}

void RequirePositive(const std::string& field, double value) {
  if (value > 0 && std::isfinite(value)) return;
  Refuse(field, Found(value) + "a number above 0");
}

void RequireDuration(const std::string& field, Duration value) {
  if (value >= Duration::zero() && value <= kArrivalMax) return;
  Refuse(field, Found(Seconds(value)) + "0 to 4000000000 s");
}

void ValidateEmpirical(const std::string& field, const IntegerDistribution& d) {
  if (d.path.empty() == d.values.empty()) Refuse(field, "give either path or quantiles");
  if (d.probabilities.size() != d.values.size()) {
    Refuse(field + ".values", Found(d.values.size()) + "as many as probabilities, " +
                                  std::to_string(d.probabilities.size()));
  }
  for (std::size_t i = 0; i < d.values.size(); ++i) {
    RequireWithin(field + ".probabilities", d.probabilities[i], 0, 1);
    RequireWithin(field + ".values", d.values[i], 0, kTokensMax);
    if (i == 0) continue;
    if (d.probabilities[i] <= d.probabilities[i - 1]) {
      Refuse(field + ".probabilities", Found(d.probabilities[i]) + "rising values");
    }
    if (d.values[i] < d.values[i - 1]) {
      Refuse(field + ".values", Found(d.values[i]) + "values that do not fall");
    }
  }
}

}  // namespace

void ValidateInteger(const std::string& field, const IntegerDistribution& d) {
  using Kind = IntegerDistribution::Kind;
  if (d.kind == Kind::kNone) Refuse(field, "missing; allowed: a distribution");
  if (d.kind == Kind::kFixed) return RequireWithin(field + ".value", d.value, 1, kTokensMax);
  RequireWithin(field + ".min", d.min, 1, kTokensMax);
  RequireWithin(field + ".max", d.max, d.min, kTokensMax);
  if (d.kind == Kind::kLogNormal) {
    RequireWithin(field + ".sigma", d.sigma, 0, 20);
    if ((d.mean > 0) == (d.median > 0)) {
      Refuse(field, fmt::format("found mean {} and median {}; allowed: one of them, above 0",
                                d.mean, d.median));
    }
    RequirePositive(d.mean > 0 ? field + ".mean" : field + ".median", std::max(d.mean, d.median));
  }
  if (d.kind == Kind::kZipf) RequireWithin(field + ".exponent", d.exponent, 0, 100);
  if (d.kind == Kind::kEmpirical) ValidateEmpirical(field, d);
}

namespace {

void ValidatePause(const std::string& field, const DurationDistribution& d) {
  RequireDuration(field + ".mean_s", d.mean);
  if (d.kind == DurationDistribution::Kind::kLogNormal) RequireWithin(field + ".cv", d.cv, 0, 1000);
}

// Refuses a field that is set but not used by the kind of arrivals.
void RefuseUnusedArrivals(const std::string& field, const ArrivalConfig& arrivals) {
  using Kind = ArrivalConfig::Kind;
  const ArrivalConfig unset;
  const Kind kind = arrivals.kind;
  const bool paced = kind == Kind::kPoisson || kind == Kind::kGamma || kind == Kind::kWeibull ||
                     kind == Kind::kConstant || kind == Kind::kRamp;
  const struct {
    const char* name;
    bool set;
    bool used;
    const char* users;
  } rows[] = {
      {".rate", arrivals.rate != unset.rate, paced, "poisson, gamma, weibull, constant, ramp"},
      {".rate_to", arrivals.rate_to != unset.rate_to, kind == Kind::kRamp, "ramp"},
      {".cv", arrivals.cv != unset.cv, kind == Kind::kGamma || kind == Kind::kWeibull,
       "gamma, weibull"},
      {".ramp_s", arrivals.ramp != unset.ramp, kind == Kind::kRamp || kind == Kind::kClosedLoop,
       "ramp, closed_loop"},
      {".users", arrivals.users != unset.users, kind == Kind::kClosedLoop, "closed_loop"},
      {".think", arrivals.think != unset.think, kind == Kind::kClosedLoop, "closed_loop"}};
  for (const auto& row : rows) {
    if (row.set && !row.used) {
      Refuse(field + row.name,
             "unused by this kind of arrivals; allowed with kind: " + std::string(row.users));
    }
  }
}

void ValidateArrivals(const std::string& field, const ArrivalConfig& arrivals) {
  using Kind = ArrivalConfig::Kind;
  if (arrivals.kind != Kind::kNone) RefuseUnusedArrivals(field, arrivals);
  switch (arrivals.kind) {
    case Kind::kNone:
      Refuse(field, "missing; allowed: an arrival process, as the requests bring no arrivals");
    case Kind::kAllAtOnce:
      return;
    case Kind::kClosedLoop:
      RequireWithin(field + ".users", arrivals.users, 1, 10'000'000);
      RequireDuration(field + ".ramp_s", arrivals.ramp);
      return ValidatePause(field + ".think", arrivals.think);
    case Kind::kRamp:
      RequireWithin(field + ".rate", arrivals.rate, 0, 1e9);
      RequireWithin(field + ".rate_to", arrivals.rate_to, 0, 1e9);
      RequirePositive(field + ".rate (plus rate_to)", arrivals.rate + arrivals.rate_to);
      RequireDuration(field + ".ramp_s", arrivals.ramp);
      return RequirePositive(field + ".ramp_s", Seconds(arrivals.ramp));
    case Kind::kGamma:
    case Kind::kWeibull:
      RequireWithin(field + ".cv", arrivals.cv, 0.01, 100);
      [[fallthrough]];
    default:
      RequireWithin(field + ".rate", arrivals.rate, 1e-9, 1e9);
  }
}

void ValidateShape(const std::string& field, const RequestShape& shape) {
  ValidateInteger(field + ".prompt", shape.prompt);
  ValidateInteger(field + ".output", shape.output);
  double weights = 0;
  for (std::size_t i = 0; i < shape.tenants.size(); ++i) {
    const TenantConfig& tenant = shape.tenants[i];
    const std::string name = field + ".tenants[" + std::to_string(i) + "]";
    RequireWithin(name + ".weight", tenant.weight, 0, 1e12);
    weights += tenant.weight;
    if (tenant.prompt) ValidateInteger(name + ".prompt", *tenant.prompt);
    if (tenant.output) ValidateInteger(name + ".output", *tenant.output);
  }
  if (!shape.tenants.empty()) RequirePositive(field + ".tenants.weight (their sum)", weights);
  RequireWithin(field + ".prefix_chunk_tokens", shape.prefix_chunk_tokens, 1, 1 << 20);
  const SharedPrefixConfig& prefix = shape.shared_prefix;
  RequireWithin(field + ".shared_prefix.prompts", prefix.prompts, 0, 1 << 30);
  if (prefix.prompts > 0) {
    RequireWithin(field + ".shared_prefix.tokens", prefix.tokens, 1, 1 << 24);
    RequireWithin(field + ".shared_prefix.zipf_exponent", prefix.zipf_exponent, 0, 100);
  }
  const SessionConfig& sessions = shape.sessions;
  if (sessions.turns.kind != IntegerDistribution::Kind::kNone) {
    ValidateInteger(field + ".sessions.turns", sessions.turns);
    ValidatePause(field + ".sessions.think", sessions.think);
  }
  if (sessions.context_tokens_max != 0) {
    RequireWithin(field + ".sessions.context_tokens_max", sessions.context_tokens_max, 2,
                  kTokensMax);
  }
}

void ValidateClasses(const WorkloadConfig& config) {
  bool shared_arrivals = false;
  double weights = 0;
  for (std::size_t i = 0; i < config.classes.size(); ++i) {
    const WorkloadClass& entry = config.classes[i];
    const std::string name = "workload.classes[" + std::to_string(i) + "]";
    ValidateShape(name + ".shape", entry.shape);
    if (entry.arrivals) {
      ValidateArrivals(name + ".arrivals", *entry.arrivals);
      continue;
    }
    RequireWithin(name + ".weight", entry.weight, 0, 1e12);
    weights += entry.weight;
    shared_arrivals = true;
  }
  if (shared_arrivals) {
    RequirePositive("workload.classes.weight (their sum)", weights);
    ValidateArrivals("workload.arrivals", config.arrivals);
  } else if (config.arrivals != ArrivalConfig{}) {
    Refuse("workload.arrivals", "unused: every class has arrivals of its own; leave one out");
  }
}

void ValidateDrawn(const WorkloadConfig& config) {
  if (config.requests == 0 && config.duration == Duration::zero()) {
    Refuse("workload.requests",
           "found 0; allowed: 1 or more, or a workload.duration_s, as drawn requests have no end");
  }
  if (!config.classes.empty()) {
    if (config.shape != RequestShape{} || config.preset != WorkloadPreset::kNone) {
      Refuse("workload.classes", "excludes workload.shape and workload.preset");
    }
    return ValidateClasses(config);
  }
  RequestShape shape = config.shape;
  if (config.preset != WorkloadPreset::kNone) {
    if (shape.prompt != IntegerDistribution{} || shape.output != IntegerDistribution{}) {
      Refuse("workload.preset", "excludes workload.shape.prompt and .output");
    }
    shape.prompt = shape.output = {.kind = IntegerDistribution::Kind::kFixed, .value = 1};
  }
  ValidateShape("workload.shape", shape);
  ValidateArrivals("workload.arrivals", config.arrivals);
}

void ValidateTrace(const TraceConfig& trace) {
  if (trace.path.empty()) Refuse("workload.trace.path", "missing; allowed: a file");
  RequireDuration("workload.trace.start_s", trace.start);
  RequireDuration("workload.trace.duration_s", trace.duration);
  RequireWithin("workload.trace.rate_scale", trace.rate_scale, 1e-9, 1e9);
  RequireWithin("workload.trace.repeat", trace.repeat, 1, 1'000'000'000);
}

void ValidateServeGen(const ServeGenConfig& servegen) {
  if (servegen.arrivals_path.empty()) Refuse("workload.servegen.arrivals_path", "missing");
  if (servegen.lengths_path.empty()) Refuse("workload.servegen.lengths_path", "missing");
  RequireDuration("workload.servegen.start_s", servegen.start);
  RequireDuration("workload.servegen.duration_s", servegen.duration);
  RequireWithin("workload.servegen.rate_scale", servegen.rate_scale, 1e-9, 1e9);
}

// Refuses a pool for drawn conversations, which already define the content that they share.
void ValidatePool(const WorkloadConfig& config) {
  if (config.prompt_pool == 0) return;
  const auto shares = [](const RequestShape& shape) {
    return shape.shared_prefix.prompts > 0 ||
           shape.sessions.turns.kind != IntegerDistribution::Kind::kNone;
  };
  bool shared = shares(config.shape);
  for (const WorkloadClass& entry : config.classes) shared = shared || shares(entry.shape);
  if (shared) Refuse("workload.prompt_pool", "excludes shared_prefix and sessions");
}

}  // namespace

void Validate(const WorkloadConfig& config) {
  RequireWithin("workload.requests", static_cast<double>(config.requests), 0, 4294967295.0);
  RequireDuration("workload.duration_s", config.duration);
  RequireWithin("workload.max_in_flight", config.max_in_flight, 0, 1 << 30);
  RequireWithin("workload.prompt_pool", config.prompt_pool, 0, 1 << 30);
  ValidatePool(config);
  if (config.max_output.kind == MaxOutputRule::Kind::kFixed) {
    RequireWithin("workload.max_output.value", config.max_output.tokens, 1, kTokensMax);
  }
  if (config.max_output.kind == MaxOutputRule::Kind::kFactor) {
    RequireWithin("workload.max_output.factor", config.max_output.factor, 1, 1e9);
  }
  RequireWithin("workload.prediction.sigma", config.prediction.sigma, 0, 20);
  if (!config.trace && !config.servegen) return ValidateDrawn(config);
  if (config.trace && config.servegen) Refuse("workload.servegen", "excludes workload.trace");
  if (config.shape != RequestShape{} || config.preset != WorkloadPreset::kNone ||
      !config.classes.empty()) {
    Refuse(config.trace ? "workload.trace" : "workload.servegen",
           "excludes workload.shape, .preset and .classes, which draw requests");
  }
  if (config.trace) ValidateTrace(*config.trace);
  if (config.servegen) ValidateServeGen(*config.servegen);
  if (config.arrivals == ArrivalConfig{}) return;
  if (config.arrivals.kind == ArrivalConfig::Kind::kNone) {
    Refuse("workload.arrivals.kind", "missing; allowed: a kind, or no other field of arrivals");
  }
  ValidateArrivals("workload.arrivals", config.arrivals);
  const auto refuse_scale = [](const char* field, double rate_scale) {
    if (rate_scale != 1) {
      Refuse(field, "unused: workload.arrivals replaces the trace's own; leave one out");
    }
  };
  if (config.trace) refuse_scale("workload.trace.rate_scale", config.trace->rate_scale);
  if (config.servegen) refuse_scale("workload.servegen.rate_scale", config.servegen->rate_scale);
}

}  // namespace twin
