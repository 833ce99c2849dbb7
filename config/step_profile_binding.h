// Which member of a StepProfile, and of the terms in it, holds which field of its message
// (field_binding.h).
#pragma once

#include <string>

#include "config/field_binding.h"
#include "config/system_binding.h"
#include "sim/devices/step_profile.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, sim::StepTerm& term) {
  fields.Value("value", term.value);
  fields.Value("log_sd", term.log_sd);
}

template <class Archive>
void Bind(Archive& fields, sim::RecordedRatios& ratios) {
  fields.Values("rows", ratios.rows);
  fields.Values("log_ratios", ratios.log_ratios);
}

template <class Archive>
void Bind(Archive& fields, sim::RecordedModel& recorded) {
  fields.Value("model", recorded.model);
  fields.Value("tensor", recorded.tensor);
  fields.template Enum<DType>("weight_dtype", recorded.weight_dtype, kDTypeNames);
  fields.template Enum<DType>("kv_dtype", recorded.kv_dtype, kDTypeNames);
  fields.Nested("decode_ratios", recorded.decode_ratios);
  fields.Nested("prompt_ratios", recorded.prompt_ratios);
  fields.Value("lasting_sd", recorded.lasting_sd);
  fields.Value("prompt_lasting_sd", recorded.prompt_lasting_sd);
  fields.Value("step_sd", recorded.step_sd);
  fields.Value("rows_max", recorded.rows_max);
  fields.Value("decodes_max", recorded.decodes_max);
  fields.Value("context_tokens_max", recorded.context_tokens_max);
}

template <class Archive>
void Bind(Archive& fields, sim::StepProfile& profile) {
  for (const sim::StepTermField& field : sim::kStepTermFields) {
    fields.OptionalNested(std::string(field.name).c_str(), profile.*field.fitted);
  }
  fields.List("models", profile.models);
}

}  // namespace twin
