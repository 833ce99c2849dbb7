// Which member of a device's profile holds which field of its message (field_binding.h).
#pragma once

#include "proto/field_binding.h"
#include "sim/cost/operations/device_profile.h"

namespace twin {

template <class Archive>
void Bind(Archive& /*fields*/, sim::GemmProfile& /*profile*/) {}

template <class Archive>
void Bind(Archive& /*fields*/, sim::MoeProfile& /*profile*/) {}

template <class Archive>
void Bind(Archive& /*fields*/, sim::AttentionProfile& /*profile*/) {}

template <class Archive>
void Bind(Archive& /*fields*/, sim::CollectiveProfile& /*profile*/) {}

template <class Archive>
void Bind(Archive& /*fields*/, sim::StepProfile& /*profile*/) {}

}  // namespace twin
