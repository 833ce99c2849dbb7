// Binds members of a device's profile to fields of its message (field_binding.h).
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "config/field_binding.h"
#include "config/system_binding.h"
#include "core/input_error.h"
#include "sim/devices/operations/collective_profile.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/operations/gemm_table.h"
#include "sim/devices/operations/moe_profile.h"
#include "sim/devices/step_profile.h"

namespace twin {

inline constexpr EnumNames<sim::GemmFormat> kGemmFormatNames = {
    {"bf16", sim::GemmFormat::kBf16},          {"fp8", sim::GemmFormat::kFp8},
    {"fp8_block", sim::GemmFormat::kFp8Block}, {"int8", sim::GemmFormat::kInt8},
    {"int4", sim::GemmFormat::kInt4},          {"fp4", sim::GemmFormat::kFp4},
    {"fp32", sim::GemmFormat::kFp32},          {"mxfp4", sim::GemmFormat::kMxfp4},
    {"mxfp4_fp8", sim::GemmFormat::kMxfp4Fp8}};

inline constexpr EnumNames<sim::GemmBetweenShapes> kGemmBetweenShapesNames = {
    {"near", sim::GemmBetweenShapes::kNear},
    {"additive", sim::GemmBetweenShapes::kAdditive},
    {"pooled", sim::GemmBetweenShapes::kPooled}};

inline constexpr EnumNames<sim::KernelLibrary> kKernelLibraryNames = {
    {"vllm", sim::KernelLibrary::kVllm},
    {"sglang", sim::KernelLibrary::kSglang},
    {"trtllm", sim::KernelLibrary::kTrtllm}};

inline constexpr EnumNames<DType> kAttentionFormatNames = {
    {"bf16", DType::kBf16}, {"fp8", DType::kFp8}, {"int8", DType::kInt8}};

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
  fields.Value("whole_waves", c.whole_waves);
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
  fields.Value("untimed_calls", table.calls.untimed);
  fields.Value("timed_calls", table.calls.timed);
  fields.template Enum<sim::GemmBetweenShapes>("between_shapes", table.between_shapes,
                                               kGemmBetweenShapesNames);
  fields.Value("trend_share", table.trend_share);
  fields.template Enum<sim::KernelLibrary>("trend_library", table.trend_library,
                                           kKernelLibraryNames);
  fields.Values("m", table.m);
  fields.Values("n", table.n);
  fields.Values("k", table.k);
  std::vector<std::string> curves = sim::JoinGemmCurves(table);
  fields.Values("curves", curves);
  table.curves = sim::SplitGemmCurves(curves);
}

template <class Archive>
void Bind(Archive& fields, sim::GemmProfile& profile) {
  fields.List("fits", profile.fits);
  fields.List("tables", profile.tables);
}

// The fitted numbers of a kernel as one list.
template <class Archive, class Kernel>
void BindFitted(Archive& fields, Kernel& kernel) {
  std::vector<double> numbers;
  for (const double* number : kernel.fields()) numbers.push_back(*number);
  fields.Values("fitted", numbers);
  if (numbers.size() != Kernel::kFields) {
    throw InputError(InputError::Kind::kUsage, "fitted",
                     fmt::format("{} numbers; allowed: {}", numbers.size(), Kernel::kFields));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) *kernel.fields()[i] = numbers[i];
}

template <class Archive>
void Bind(Archive& fields, sim::ContextKernel& kernel) {
  BindFitted(fields, kernel);
  fields.Value("packs_heads", kernel.packs_heads);
  fields.Value("tile_rows", kernel.tile_rows);
  fields.Value("slots_per_multiprocessor", kernel.slots_per_multiprocessor);
}

template <class Archive>
void Bind(Archive& fields, sim::GenerationKernel& kernel) {
  BindFitted(fields, kernel);
  fields.Value("splits_single_heads", kernel.splits_single_heads);
  fields.Value("slots_per_multiprocessor", kernel.slots_per_multiprocessor);
  fields.Value("packed_group_max", kernel.packed_group_max);
}

template <class Archive>
void Bind(Archive& fields, sim::AttentionGrid& grid) {
  fields.Values("batches", grid.batches);
  fields.Values("lengths", grid.lengths);
}

template <class Archive>
void Bind(Archive& fields, sim::AttentionTable& table) {
  fields.template Enum<sim::AttentionKind>(
      "kind", table.kind,
      {{"context", sim::AttentionKind::kContext}, {"generation", sim::AttentionKind::kGeneration}});
  fields.template Enum<sim::KernelLibrary>("library", table.library, kKernelLibraryNames);
  fields.template Enum<DType>("compute_dtype", table.compute_dtype, kAttentionFormatNames);
  fields.template Enum<DType>("kv_dtype", table.kv_dtype, kAttentionFormatNames);
  fields.Value("head_dim", table.head_dim);
  fields.Value("window", table.window);
  if (table.kind == sim::AttentionKind::kContext) {
    fields.Nested("context_kernel", table.context);
  } else {
    fields.Nested("generation_kernel", table.generation);
  }
  fields.Value("group_scale", table.group_scale);
  fields.Value("by_query_heads", table.by_query_heads);
  fields.Value("batch_scale", table.batch_scale);
  fields.Value("spread", table.spread);
  fields.Value("grid", table.grid);
  fields.Value("base", table.base);
  fields.Values("rows", table.rows);
}

template <class Archive>
void Bind(Archive& fields, sim::MemoryBoundFit& fit) {
  using enum sim::MemoryBoundKernel;
  fields.template Enum<sim::MemoryBoundKernel>("kernel", fit.kernel,
                                               {{"embedding", kEmbedding},
                                                {"norm", kNorm},
                                                {"head_norm", kHeadNorm},
                                                {"rotary", kRotary},
                                                {"activation", kActivation},
                                                {"residual_add", kResidualAdd},
                                                {"sampling", kSampling}});
  fields.Value("latency_us", fit.latency_us);
  fields.Value("bandwidth_fraction", fit.bandwidth_fraction);
  fields.Value("spread", fit.spread);
}

template <class Archive>
void Bind(Archive& fields, sim::AttentionProfile& profile) {
  fields.OptionalValue("straggler_us_per_key", profile.straggler_us_per_key);
  fields.Value("mixed_factor", profile.mixed_factor);
  fields.List("grids", profile.grids);
  fields.List("tables", profile.tables);
  fields.List("memory_bound", profile.memory_bound.kernels);
}

template <class Archive>
void Bind(Archive& fields, sim::BoundaryProfile& profile) {
  fields.OptionalNested("one_rank_s", profile.one_rank_s);
  fields.OptionalNested("more_ranks_s", profile.more_ranks_s);
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

template <class Archive>
void Bind(Archive& fields, sim::OperationGrid& grid) {
  fields.Values("first", grid.first);
  fields.Values("second", grid.second);
  fields.Values("third", grid.third);
}

template <class Archive>
void Bind(Archive& fields, sim::OperationTable& table) {
  fields.Value("kind", table.kind);
  fields.template Enum<sim::KernelLibrary>("library", table.library, kKernelLibraryNames);
  fields.Value("variant", table.variant);
  BindFitted(fields, table.coefficients);
  fields.Value("log_sd", table.log_sd);
  fields.Value("measured_sd", table.measured_sd);
  fields.Value("shape_sd", table.shape_sd);
  fields.Value("grid", table.grid);
  fields.Values("rows", table.rows);
}

template <class Archive>
void Bind(Archive& fields, sim::OperationProfile& profile) {
  fields.List("grids", profile.grids);
  fields.List("tables", profile.tables);
}

template <class Archive>
void Bind(Archive& fields, sim::CollectiveCurve& curve) {
  using enum sim::Collective;
  using enum sim::CollectiveImplementation;
  fields.template Enum<sim::Collective>("kind", curve.kind,
                                        {{"all_reduce", kAllReduce},
                                         {"all_gather", kAllGather},
                                         {"reduce_scatter", kReduceScatter},
                                         {"all_to_all", kAllToAll},
                                         {"send", kSend}});
  fields.template Enum<sim::CollectiveImplementation>(
      "implementation", curve.implementation,
      {{"nccl", kNccl}, {"vllm", kVllm}, {"sglang", kSglang}, {"trtllm", kTrtllm}});
  fields.Value("ranks", curve.ranks);
  fields.Value("spread", curve.spread);
  fields.Values("bytes", curve.bytes);
  fields.Values("microseconds", curve.microseconds);
}

template <class Archive>
void Bind(Archive& fields, sim::CollectiveProfile& profile) {
  fields.List("curves", profile.curves);
}

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
