// How long the kernels of linear attention and state spaces take: one layer, one rank.
//
// A layer runs a short convolution and the recurrence, a chunked scan for prompts and one update of
// the state for decodes. Projections are products of GemmModel. Which kernels a library runs is
// read off its tables: the first convolution and the first other kernel of a phase. A library
// without a table takes another's; a part that nobody measured, such as Mamba-2's scan, has the
// closed form alone.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "core/layer_spec.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/measured_operation.h"
#include "sim/devices/operations/operation_profile.h"

namespace twin::sim {

// Sizes of one rank. Lightning attention takes the kernels of gated delta nets. Mamba-2: key_heads
// are groups, key_dim is the size of a state, value_heads are heads.
struct RecurrentShape {
  RecurrentKind kind = RecurrentKind::kGatedDelta;
  std::int32_t key_heads = 0;
  std::int32_t key_dim = 128;
  std::int32_t value_heads = 0;
  std::int32_t value_dim = 128;
};

// Thread-safe.
class RecurrentModel {
 public:
  RecurrentModel(const HardwareSpec& hardware, const RecurrentShape& shape, KernelLibrary library,
                 const OperationProfile& profile = {});

  // Prompts of `tokens` in all; 0 seconds without one.
  [[nodiscard]] TimeEstimate Context(double prompts, double tokens) const;
  // Decodes of one token each; 0 seconds without one.
  [[nodiscard]] TimeEstimate Generation(double requests) const;

 private:
  struct Phase {
    MeasuredOperation convolution;
    MeasuredOperation recurrence;
  };
  [[nodiscard]] static Phase PhaseOf(const HardwareSpec& hardware, const RecurrentShape& shape,
                                     KernelLibrary library, const OperationProfile& profile,
                                     const char* name);

  Phase context_;
  Phase generation_;
};

}  // namespace twin::sim
