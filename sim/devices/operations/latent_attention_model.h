// How long latent attention (MLA) takes on a device: one layer, one rank.
//
// Prompts run as attention with keys and values of their own for each head; decodes run absorbed,
// every head against the one latent cache, between two batched products (5.1 of DeepSeek-V2's
// paper, arXiv 2405.04434). Projections are products of GemmModel: down (T, rq + rkv + dr, H),
// query up, key and value up of prompts and their cached prefix (T, n (dn + dv), rkv), output.
#pragma once

#include "core/dtype.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/measured_operation.h"
#include "sim/devices/operations/operation_kinds.h"
#include "sim/devices/operations/operation_profile.h"

namespace twin::sim {

// Heads of one rank; the cache is whole on each.
struct LatentShape {
  LatentSizes sizes;
  std::int32_t heads = 0;
  DType cache_dtype = DType::kBf16;
  GemmFormat absorbed_format = GemmFormat::kBf16;  // of the batched products: bf16 or fp8
};

// Thread-safe. Without a table: the closed forms with the fractions of the data sheet.
class LatentAttentionModel {
 public:
  LatentAttentionModel(const HardwareSpec& hardware, const LatentShape& shape,
                       KernelLibrary library, const OperationProfile& profile = {});

  // 0 seconds without work. Prompts with a prefix read its keys too, and take the correction of
  // prompts of as many new tokens.
  [[nodiscard]] TimeEstimate operator()(const ContextAttention& chunks) const;
  // Without the batched products.
  [[nodiscard]] TimeEstimate operator()(const GenerationAttention& decodes) const;
  // Both batched products of so many decoded tokens.
  [[nodiscard]] TimeEstimate AbsorbedProducts(double tokens) const;

 private:
  LatentShape shape_;
  MeasuredOperation context_;
  MeasuredOperation generation_;
  MeasuredOperation into_latent_;
  MeasuredOperation out_of_latent_;
};

}  // namespace twin::sim
