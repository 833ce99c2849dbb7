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

// The kind of the library if the profile has tables of the format, or else that of another one.
const OperationKind& KindOfExperts(const OperationProfile& profile, KernelLibrary library,
                                   std::string_view format) {
  const auto has = [&](std::string_view kind) {
    return std::ranges::any_of(profile.tables, [&](const OperationTable& table) {
      return table.kind == kind && table.variant.starts_with(std::string(format) + ' ');
    });
  };
  std::string_view name = KindWord(library);
  for (const KernelLibrary other :
       {library, KernelLibrary::kVllm, KernelLibrary::kSglang, KernelLibrary::kTrtllm}) {
    if (!has(KindWord(other))) continue;
    name = KindWord(other);
    break;
  }
  const OperationKind* const kind = OperationKindOf(name);
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
                           const OperationProfile& profile, ExpertLoad load)
    : experts_(hardware, KindOfExperts(profile, library, FormatWord(format)), library,
               std::string(FormatWord(format)).append(" ").append(LoadWord(load)),
               {sizes.hidden, sizes.intermediate, sizes.experts_per_token, sizes.experts,
                sizes.tp_ranks, sizes.ep_ranks},
               profile) {}

Estimate ExpertsModel::operator()(double tokens) const { return experts_(std::array{tokens}); }

double DistinctExperts(double experts, double per_token, double tokens) {
  return experts * (1 - std::pow(1 - per_token / experts, tokens));
}

}  // namespace twin::sim
