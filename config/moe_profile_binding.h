// Mixtures of experts, and the formats of products, of a device's profile (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "sim/devices/operations/moe_profile.h"

namespace twin {

inline constexpr EnumNames<sim::GemmFormat> kGemmFormatNames = {
    {"bf16", sim::GemmFormat::kBf16},          {"fp8", sim::GemmFormat::kFp8},
    {"fp8_block", sim::GemmFormat::kFp8Block}, {"int8", sim::GemmFormat::kInt8},
    {"int4", sim::GemmFormat::kInt4},          {"fp4", sim::GemmFormat::kFp4},
    {"fp32", sim::GemmFormat::kFp32}};

template <class Archive>
void Bind(Archive& fields, sim::MoeFit& fit) {
  sim::MoeCoefficients& c = fit.coefficients;
  fields.template Enum<sim::GemmFormat>("format", fit.format, kGemmFormatNames);
  fields.Value("log_sd", fit.log_sd);
  fields.Value("latency_s", c.latency_s);
  fields.Value("expert_s", c.expert_s);
  fields.Value("bandwidth_fraction", c.bandwidth_fraction);
  fields.Value("flops_fraction", c.flops_fraction);
  fields.Value("spread", c.spread);
  fields.Value("padding_rows", c.padding_rows);
  fields.Value("overlap", c.overlap);
  fields.Value("activation_passes", c.activation_passes);
}

template <class Archive>
void Bind(Archive& fields, sim::MoeTable& table) {
  fields.template Enum<sim::GemmFormat>("format", table.format, kGemmFormatNames);
  fields.Value("measured_sd", table.measured_sd);
  fields.Value("shape_sd", table.shape_sd);
  fields.Values("tokens", table.tokens);
  fields.Values("rows", table.rows);
}

template <class Archive>
void Bind(Archive& fields, sim::MoeProfile& profile) {
  fields.List("fits", profile.fits);
  fields.List("tables", profile.tables);
}

}  // namespace twin
