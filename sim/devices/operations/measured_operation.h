// How long an operation of operation_kinds.h takes: the closed form of its work (operation_form.h),
// times the correction of the measured table that resembles it most.
//
// Among the tables of the kind, the one counts whose variant begins with the most words of the
// wanted one, and with the most letters of the next word; among equals the wanted library's, then
// one that measured the shape, then the first. Shapes that were not measured take a mean of the
// measured surfaces, weighted by kriging (kriging.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/hardware_spec.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/operation_form.h"
#include "sim/devices/operations/operation_kinds.h"
#include "sim/devices/operations/operation_profile.h"
#include "sim/devices/operations/operation_table.h"

namespace twin::sim {

// Thread-safe after construction. A prediction takes some tens of nanoseconds.
class MeasuredOperation {
 public:
  // Takes up to some milliseconds. `kind` outlives this; `shape` has its sizes. REQUIRES: the
  // profile is valid.
  MeasuredOperation(const HardwareSpec& hardware, const OperationKind& kind, KernelLibrary library,
                    std::string_view variant, std::vector<double> shape,
                    const OperationProfile& profile);

  // A call of the kind's sizes. REQUIRES: at least as many as the kind has.
  [[nodiscard]] TimeEstimate operator()(std::span<const double> call) const;
  // Other work, with the correction of that call.
  [[nodiscard]] TimeEstimate For(const OperationWork& work, std::span<const double> call) const;

  [[nodiscard]] bool measured() const { return measured_; }

 private:
  [[nodiscard]] const OperationTable* Best(const OperationProfile& profile,
                                           KernelLibrary library) const;

  const OperationKind* kind_;
  std::string variant_;
  std::vector<double> shape_;
  OperationForm form_;
  bool measured_ = false;
  OperationSurface surface_;
  double log_sd_ = 0;
};

}  // namespace twin::sim
