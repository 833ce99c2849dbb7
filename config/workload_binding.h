// Binds members of a workload's config to fields of its message (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "traces/workload.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, IntegerDistribution& config) {
  using Kind = IntegerDistribution::Kind;
  fields.template Enum<Kind>("kind", config.kind,
                             {{"none", Kind::kNone},
                              {"fixed", Kind::kFixed},
                              {"uniform", Kind::kUniform},
                              {"lognormal", Kind::kLogNormal},
                              {"zipf", Kind::kZipf},
                              {"empirical", Kind::kEmpirical}});
  fields.Value("value", config.value);
  fields.Value("min", config.min);
  fields.Value("max", config.max);
  fields.Value("mean", config.mean);
  fields.Value("median", config.median);
  fields.Value("sigma", config.sigma);
  fields.Value("exponent", config.exponent);
  fields.Values("probabilities", config.probabilities);
  fields.Values("values", config.values);
  fields.Value("path", config.path);
}

template <class Archive>
void Bind(Archive& fields, DurationDistribution& config) {
  using Kind = DurationDistribution::Kind;
  fields.template Enum<Kind>("kind", config.kind,
                             {{"constant", Kind::kConstant},
                              {"exponential", Kind::kExponential},
                              {"lognormal", Kind::kLogNormal}});
  fields.Seconds("mean_s", config.mean);
  fields.Value("cv", config.cv);
}

template <class Archive>
void Bind(Archive& fields, ArrivalConfig& config) {
  using Kind = ArrivalConfig::Kind;
  fields.template Enum<Kind>("kind", config.kind,
                             {{"none", Kind::kNone},
                              {"poisson", Kind::kPoisson},
                              {"gamma", Kind::kGamma},
                              {"weibull", Kind::kWeibull},
                              {"constant", Kind::kConstant},
                              {"ramp", Kind::kRamp},
                              {"closed_loop", Kind::kClosedLoop},
                              {"all_at_once", Kind::kAllAtOnce}});
  fields.Value("rate", config.rate);
  fields.Value("rate_to", config.rate_to);
  fields.Value("cv", config.cv);
  fields.Seconds("ramp_s", config.ramp);
  fields.Value("users", config.users);
  fields.Nested("think", config.think);
}

template <class Archive>
void Bind(Archive& fields, ColumnFilter& config) {
  fields.Value("column", config.column);
  fields.Value("value", config.value);
}

template <class Archive>
void Bind(Archive& fields, TraceConfig& config) {
  fields.Value("path", config.path);
  fields.Value("format", config.format);
  fields.List("filters", config.read.filters);
  fields.template Enum<FailedRows>("failed_rows", config.read.failed_rows,
                                   {{"skip", FailedRows::kSkip},
                                    {"refuse", FailedRows::kRefuse},
                                    {"one_token", FailedRows::kOneToken}});
  fields.Seconds("start_s", config.start);
  fields.Seconds("duration_s", config.duration);
  fields.Value("rate_scale", config.rate_scale);
  fields.Value("repeat", config.repeat);
}

template <class Archive>
void Bind(Archive& fields, ServeGenConfig& config) {
  using Dependence = ServeGenConfig::Dependence;
  using Missing = ServeGenConfig::MissingLengths;
  fields.Value("arrivals_path", config.arrivals_path);
  fields.Value("lengths_path", config.lengths_path);
  fields.Values("clients", config.clients);
  fields.Seconds("start_s", config.start);
  fields.Seconds("duration_s", config.duration);
  fields.Value("rate_scale", config.rate_scale);
  fields.template Enum<Dependence>(
      "dependence", config.dependence,
      {{"comonotone", Dependence::kComonotone}, {"independent", Dependence::kIndependent}});
  fields.template Enum<Missing>("missing_lengths", config.missing_lengths,
                                {{"borrow", Missing::kBorrow}, {"skip", Missing::kSkip}});
}

template <class Archive>
void Bind(Archive& fields, MaxOutputRule& config) {
  using Kind = MaxOutputRule::Kind;
  fields.template Enum<Kind>(
      "kind", config.kind,
      {{"equal", Kind::kEqual}, {"fixed", Kind::kFixed}, {"scaled", Kind::kFactor}});
  fields.RenamedValue("tokens", "value", config.tokens);
  fields.Value("factor", config.factor);
}

template <class Archive>
void Bind(Archive& fields, PredictionConfig& config) {
  using Kind = PredictionConfig::Kind;
  fields.template Enum<Kind>(
      "kind", config.kind,
      {{"none", Kind::kNone}, {"oracle", Kind::kOracle}, {"lognormal", Kind::kLogNormal}});
  fields.Value("sigma", config.sigma);
}

template <class Archive>
void Bind(Archive& fields, TenantConfig& config) {
  fields.Value("weight", config.weight);
  fields.OptionalNested("prompt", config.prompt);
  fields.OptionalNested("output", config.output);
  fields.OptionalValue("priority", config.priority);
}

template <class Archive>
void Bind(Archive& fields, SharedPrefixConfig& config) {
  fields.Value("prompts", config.prompts);
  fields.Value("tokens", config.tokens);
  fields.Value("zipf_exponent", config.zipf_exponent);
}

template <class Archive>
void Bind(Archive& fields, SessionConfig& config) {
  fields.Nested("turns", config.turns);
  fields.Nested("think", config.think);
  fields.Value("context_tokens_max", config.context_tokens_max);
}

template <class Archive>
void Bind(Archive& fields, RequestShape& config) {
  fields.Nested("prompt", config.prompt);
  fields.Nested("output", config.output);
  fields.List("tenants", config.tenants);
  fields.Value("priority", config.priority);
  fields.Nested("shared_prefix", config.shared_prefix);
  fields.Nested("sessions", config.sessions);
  fields.Value("prefix_chunk_tokens", config.prefix_chunk_tokens);
}

template <class Archive>
void Bind(Archive& fields, WorkloadClass& config) {
  fields.Value("name", config.name);
  fields.Value("weight", config.weight);
  fields.OptionalNested("arrivals", config.arrivals);
  fields.Nested("shape", config.shape);
}

template <class Archive>
void Bind(Archive& fields, WorkloadConfig& config) {
  fields.Value("requests", config.requests);
  fields.Seconds("duration_s", config.duration);
  fields.OptionalNested("trace", config.trace);
  fields.OptionalNested("servegen", config.servegen);
  fields.Nested("arrivals", config.arrivals);
  fields.template Enum<WorkloadPreset>("preset", config.preset,
                                       {{"none", WorkloadPreset::kNone},
                                        {"conversation", WorkloadPreset::kConversation},
                                        {"code", WorkloadPreset::kCode}});
  fields.Nested("shape", config.shape);
  fields.List("classes", config.classes);
  fields.Nested("max_output", config.max_output);
  fields.Nested("prediction", config.prediction);
  fields.Value("max_in_flight", config.max_in_flight);
  fields.Value("prompt_pool", config.prompt_pool);
}

}  // namespace twin
