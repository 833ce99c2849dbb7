#include "sim/devices/operations/experts_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/check.h"
#include "sim/devices/operations/operation_table.h"

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

constexpr KernelLibrary kLibraries[] = {KernelLibrary::kVllm, KernelLibrary::kSglang,
                                        KernelLibrary::kTrtllm};

// How much the measurements of a table are like a shape of experts: the same sizes, the same ranks
// that divide them, or neither.
enum class Likeness : std::uint8_t { kShape, kRanks, kAny };

// Names of tables for the kernels: TensorRT-LLM calls the one that it generates "min_latency", and
// does not say which one it ran where a format has one alone.
bool IsKernel(const OperationTable& table, ExpertsKernel kernel) {
  if (table.variant.ends_with(" moe_torch_flow")) return true;
  const auto names = [&](std::string_view word) {
    return table.variant.find(word) != std::string::npos;
  };
  switch (kernel) {
    case ExpertsKernel::kCutlass:
      return names("cutlass");
    case ExpertsKernel::kDeepGemm:
      return names("deepgemm");
    case ExpertsKernel::kTriton:
      return names("triton");
    case ExpertsKernel::kTrtllmGen:
      return names("trtllm") || names("min_latency");
    case ExpertsKernel::kAny:
      break;
  }
  return true;
}

bool Measures(const OperationTable& table, const std::vector<double>& shape, Likeness likeness) {
  constexpr std::ptrdiff_t kRankSizes = 2;  // the last ones of a shape
  return std::ranges::any_of(table.rows, [&](const std::string& row) {
    const std::vector<double> measured = ShapeOfRow(row);
    switch (likeness) {
      case Likeness::kShape:
        return measured == shape;
      case Likeness::kRanks:
        return std::equal(shape.end() - kRankSizes, shape.end(), measured.end() - kRankSizes);
      case Likeness::kAny:
        break;
    }
    return true;
  });
}

}  // namespace

ExpertsModel::ExpertsModel(const HardwareSpec& hardware, const ExpertSizes& sizes,
                           GemmFormat format, KernelLibrary library,
                           const OperationProfile& profile, ExpertsKernel kernel, ExpertLoad load) {
  const std::vector<double> shape = {sizes.hidden,  sizes.intermediate, sizes.experts_per_token,
                                     sizes.experts, sizes.tp_ranks,     sizes.ep_ranks};
  const std::string words = std::string(FormatWord(format)).append(" ").append(LoadWord(load));
  ExpertsKernel wanted = kernel;
  const auto add_kernels = [&](bool own, Likeness likeness) {
    for (const KernelLibrary of : kLibraries) {
      if ((of == library) != own) continue;
      const OperationKind& kind = KindOfExperts(of);
      for (const OperationTable& table : profile.tables) {
        if (table.kind != kind.name || !table.variant.starts_with(words)) continue;
        if (!IsKernel(table, wanted) || !Measures(table, shape, likeness)) continue;
        const OperationProfile alone{profile.grids, {table}};
        kernels_.emplace_back(hardware, kind, of, table.variant, shape, alone);
      }
    }
    return !kernels_.empty();
  };
  const auto add_nearest = [&] {
    for (const Likeness likeness : {Likeness::kShape, Likeness::kRanks, Likeness::kAny}) {
      if (add_kernels(true, likeness)) return true;
    }
    return add_kernels(false, Likeness::kAny);
  };
  if (add_nearest()) return;
  wanted = ExpertsKernel::kAny;
  if (kernel != wanted && add_nearest()) return;
  kernels_.emplace_back(hardware, KindOfExperts(library), library, words, shape,
                        OperationProfile{});
}

bool ExpertsModel::HasTables(KernelLibrary library, const OperationProfile& profile) {
  return std::ranges::find(profile.tables, KindWord(library), &OperationTable::kind) !=
         profile.tables.end();
}

TimeEstimate ExpertsModel::operator()(double tokens) const {
  const std::array call = {tokens};
  TimeEstimate fastest = kernels_.front()(call);
  for (const MeasuredOperation& kernel : kernels_) {
    const TimeEstimate other = kernel(call);
    if (other.seconds < fastest.seconds) fastest = other;
  }
  return fastest;
}

double DistinctExperts(double experts, double per_token, double tokens) {
  return experts * (1 - std::pow(1 - per_token / experts, tokens));
}

}  // namespace twin::sim
