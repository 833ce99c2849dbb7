// Binds members of a study's config to fields of its message (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "config/study_config.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, AxisConfig& config) {
  fields.Value("path", config.path);
  fields.Values("values", config.values);
  fields.Values("files", config.files);
  fields.OptionalValue("from", config.from);
  fields.OptionalValue("to", config.to);
  fields.Value("steps", config.steps);
  fields.Value("log", config.log);
  fields.List("coupled", config.coupled);
}

template <class Archive>
void Bind(Archive& fields, SamplingConfig& config) {
  using Kind = SamplingConfig::Kind;
  fields.template Enum<Kind>(
      "kind", config.kind,
      {{"grid", Kind::kGrid}, {"latin_hypercube", Kind::kLatinHypercube}, {"sobol", Kind::kSobol}});
  fields.Value("points", config.points);
  fields.Value("seed", config.seed);
}

template <class Archive>
void Bind(Archive& fields, DerivedConfig& config) {
  fields.Value("name", config.name);
  fields.Value("value", config.value);
}

template <class Archive>
void Bind(Archive& fields, WarmupRule& config) {
  fields.template Enum<WarmupRule>(
      "kind", config, {{"experiment", WarmupRule::kExperiment}, {"mser5", WarmupRule::kMser5}});
}

template <class Archive>
void Bind(Archive& fields, StudyConfig& config) {
  fields.Values("base", config.bases);
  fields.List("axis", config.axes);
  fields.Value("replications", config.replications);
  fields.OptionalValue("seed", config.seed);
  fields.Nested("sampling", config.sampling);
  fields.Nested("warmup", config.warmup);
  fields.Values("set", config.set);
  fields.Values("runs", config.runs);
  fields.List("derived", config.derived);
  fields.Values("primary", config.primary);
}

}  // namespace twin
