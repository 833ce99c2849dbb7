#include "sim/devices/operations/experts_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/check.h"

namespace twin::sim {
namespace {

std::string_view KindWord(KernelLibrary library) {
  switch (library) {
    case KernelLibrary::kVllm:
      return "moe_vllm";
    case KernelLibrary::kSglang:
      return "moe_sglang";
    case KernelLibrary::kTrtllm:
      return "moe_trtllm";
  }
  return "moe_vllm";
}

const OperationKind& KindOfExperts(KernelLibrary library) {
  const OperationKind* const kind = OperationKindOf(KindWord(library));
  CHECK(kind != nullptr);
  return *kind;
}

std::string_view FormatWord(GemmFormat format) {
  switch (format) {
    case GemmFormat::kFp8:
      return "fp8";
    case GemmFormat::kFp8Block:
      return "fp8_block";
    case GemmFormat::kInt4:
      return "int4_wo";
    case GemmFormat::kFp4:
      return "nvfp4";
    case GemmFormat::kMxfp4:
      return "w4a16_mxfp4";
    case GemmFormat::kMxfp4Fp8:
      return "w4a8_mxfp4_mxfp8";
    case GemmFormat::kBf16:
    case GemmFormat::kInt8:
    case GemmFormat::kFp32:
      break;
  }
  return "bfloat16";
}

std::string_view LoadWord(ExpertLoad load) {
  switch (load) {
    case ExpertLoad::kTrained:
      return "power_law_1.01";
    case ExpertLoad::kSkewed:
      return "power_law_1.2";
    case ExpertLoad::kBalanced:
      break;
  }
  return "balanced";
}

}  // namespace

ExpertsModel::ExpertsModel(const HardwareSpec& hardware, const ExpertSizes& sizes,
                           GemmFormat format, KernelLibrary library,
                           const OperationProfile& profile, ExpertLoad load) {
  const std::vector<double> shape = {sizes.hidden,  sizes.intermediate, sizes.experts_per_token,
                                     sizes.experts, sizes.tp_ranks,     sizes.ep_ranks};
  const std::string words = std::string(FormatWord(format)).append(" ").append(LoadWord(load));
  const auto add_kernels = [&](KernelLibrary of) {
    const OperationKind& kind = KindOfExperts(of);
    for (const OperationTable& table : profile.tables) {
      if (table.kind != kind.name || !table.variant.starts_with(words)) continue;
      const OperationProfile alone{profile.grids, {table}};
      kernels_.emplace_back(hardware, kind, of, table.variant, shape, alone);
    }
  };
  add_kernels(library);
  if (!kernels_.empty()) return;
  for (const KernelLibrary other :
       {KernelLibrary::kVllm, KernelLibrary::kSglang, KernelLibrary::kTrtllm}) {
    if (other != library) add_kernels(other);
  }
  if (!kernels_.empty()) return;
  kernels_.emplace_back(hardware, KindOfExperts(library), library, words, shape,
                        OperationProfile{});
}

Estimate ExpertsModel::operator()(double tokens) const {
  const std::array call = {tokens};
  Estimate fastest = kernels_.front()(call);
  for (const MeasuredOperation& kernel : kernels_) {
    const Estimate other = kernel(call);
    if (other.seconds < fastest.seconds) fastest = other;
  }
  return fastest;
}

double DistinctExperts(double experts, double per_token, double tokens) {
  return experts * (1 - std::pow(1 - per_token / experts, tokens));
}

}  // namespace twin::sim
