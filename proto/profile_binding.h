// Which member of a device's profile holds which field of its message (field_binding.h).
#pragma once

#include "proto/field_binding.h"
#include "sim/cost/operations/device_profile.h"

namespace twin {

inline constexpr EnumNames<sim::KernelLibrary> kKernelLibraryNames = {
    {"vllm", sim::KernelLibrary::kVllm},
    {"sglang", sim::KernelLibrary::kSglang},
    {"trtllm", sim::KernelLibrary::kTrtllm}};

inline constexpr EnumNames<sim::GemmFormat> kGemmFormatNames = {
    {"bf16", sim::GemmFormat::kBf16},          {"fp8", sim::GemmFormat::kFp8},
    {"fp8_block", sim::GemmFormat::kFp8Block}, {"int8", sim::GemmFormat::kInt8},
    {"int4", sim::GemmFormat::kInt4},          {"fp4", sim::GemmFormat::kFp4}};

template <class Archive>
void Bind(Archive& fields, sim::GemmFit& fit) {
  sim::GemmCoefficients& c = fit.coefficients;
  fields.template Enum<sim::GemmFormat>("format", fit.format, kGemmFormatNames);
  fields.Value("log_sd", fit.log_sd);
  fields.Value("flops_fraction", c.flops_fraction);
  fields.Value("bandwidth_fraction", c.bandwidth_fraction);
  fields.Value("latency_s", c.latency_s);
  fields.Value("tile_loss", c.tile_loss);
  fields.Value("wave_s", c.wave_s);
  fields.Value("saturating_tiles", c.saturating_tiles);
  fields.Value("split_s", c.split_s);
  fields.Value("l2_bytes_per_s", c.l2_bytes_per_s);
  fields.Value("overlap", c.overlap);
  fields.Value("wave_rounding", c.wave_rounding);
  fields.Value("row_rounding", c.row_rounding);
  fields.Value("weight_copies", c.weight_copies);
  fields.Value("resident_bytes_per_s", c.resident_bytes_per_s);
  fields.Value("quantize_s", c.quantize_s);
  fields.Value("quantize_passes", c.quantize_passes);
}

template <class Archive>
void Bind(Archive& fields, sim::GemmTable& table) {
  fields.template Enum<sim::KernelLibrary>("library", table.library, kKernelLibraryNames);
  fields.template Enum<sim::GemmFormat>("format", table.format, kGemmFormatNames);
  fields.Values("shape_sd", table.shape_sd);
  fields.Values("m_sd", table.m_sd);
  fields.Values("m", table.m);
  fields.Values("n", table.n);
  fields.Values("k", table.k);
  fields.Values("curves", table.curves);
}

template <class Archive>
void Bind(Archive& fields, sim::GemmProfile& profile) {
  fields.List("fits", profile.fits);
  fields.List("tables", profile.tables);
}

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
void Bind(Archive& fields, sim::MoeProfile& profile) {
  fields.List("fits", profile.fits);
}

template <class Archive>
void Bind(Archive& /*fields*/, sim::AttentionProfile& /*profile*/) {}

template <class Archive>
void Bind(Archive& /*fields*/, sim::CollectiveProfile& /*profile*/) {}

template <class Archive>
void Bind(Archive& fields, sim::StepTerm& term) {
  fields.Value("value", term.value);
  fields.Value("log_sd", term.log_sd);
}

template <class Archive>
void Bind(Archive& fields, sim::StepProfile& profile) {
  for (const sim::StepTermField& field : sim::kStepTermFields) {
    fields.OptionalNested(std::string(field.name).c_str(), profile.*field.fitted);
  }
}

}  // namespace twin
