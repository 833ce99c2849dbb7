#include "sim/devices/operations/recurrent_model.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "core/check.h"
#include "sim/devices/operations/operation_kinds.h"

namespace twin::sim {
namespace {

constexpr std::string_view kConvolution = "conv1d";

const OperationKind& KindOfRecurrent(RecurrentKind kind) {
  const char* name = "gdn";
  if (kind == RecurrentKind::kKimiDelta) name = "kda";
  if (kind == RecurrentKind::kMamba2) name = "mamba2";
  const OperationKind* const found = OperationKindOf(name);
  CHECK(found != nullptr);
  return *found;
}

std::vector<double> SizesOf(const RecurrentShape& shape) {
  switch (shape.kind) {
    case RecurrentKind::kGatedDelta:
    case RecurrentKind::kLightning:
      return {static_cast<double>(shape.key_heads), static_cast<double>(shape.value_heads)};
    case RecurrentKind::kKimiDelta:
      return {static_cast<double>(shape.key_heads)};
    case RecurrentKind::kMamba2:
      break;
  }
  return {static_cast<double>(shape.value_heads), static_cast<double>(shape.value_dim),
          static_cast<double>(shape.key_dim), static_cast<double>(shape.key_heads)};
}

// The variant of a phase's convolution, or of its other kernel: that of the first table of the
// library, or of any. Without a table: words that say what work there is.
std::string VariantOf(const OperationProfile& profile, std::string_view kind, KernelLibrary library,
                      const std::string& phase, bool convolution) {
  std::string variant;
  for (const OperationTable& table : profile.tables) {
    const bool is_convolution = table.variant.find(kConvolution) != std::string::npos;
    if (table.kind != kind || !table.variant.starts_with(phase + ' ') ||
        is_convolution != convolution) {
      continue;
    }
    if (table.library == library) return table.variant;
    if (variant.empty()) variant = table.variant;
  }
  if (!variant.empty()) return variant;
  return phase + (convolution ? " causal_conv1d" : " scan");
}

// The tables that may stand for a kernel: a convolution's for no scan.
OperationProfile TablesLike(const OperationProfile& profile, std::string_view kind,
                            const std::string& variant) {
  OperationProfile alike{profile.grids, {}};
  std::ranges::copy_if(
      profile.tables, std::back_inserter(alike.tables),
      [&](const OperationTable& table) { return table.kind == kind && table.variant == variant; });
  return alike;
}

}  // namespace

RecurrentModel::Phase RecurrentModel::PhaseOf(const HardwareSpec& hardware,
                                              const RecurrentShape& shape, KernelLibrary library,
                                              const OperationProfile& profile, const char* name) {
  const OperationKind& kind = KindOfRecurrent(shape.kind);
  const auto kernel = [&](bool convolution) {
    const std::string variant = VariantOf(profile, kind.name, library, name, convolution);
    return MeasuredOperation(hardware, kind, library, variant, SizesOf(shape),
                             TablesLike(profile, kind.name, variant));
  };
  return {kernel(true), kernel(false)};
}

RecurrentModel::RecurrentModel(const HardwareSpec& hardware, const RecurrentShape& shape,
                               KernelLibrary library, const OperationProfile& profile)
    : context_(PhaseOf(hardware, shape, library, profile, "context")),
      generation_(PhaseOf(hardware, shape, library, profile, "generation")) {}

TimeEstimate RecurrentModel::Context(double prompts, double tokens) const {
  if (prompts <= 0) return {};
  const std::array call = {prompts, tokens / prompts};
  return context_.convolution(call) + context_.recurrence(call);
}

TimeEstimate RecurrentModel::Generation(double requests) const {
  if (requests <= 0) return {};
  const std::array call = {requests, 1.0};
  return generation_.convolution(call) + generation_.recurrence(call);
}

}  // namespace twin::sim
