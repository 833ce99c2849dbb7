// Measurements of operations whose closed form is operation_form.h, for each device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/operation_form.h"

namespace twin::sim {

// Sizes of calls that were measured, each axis ascending: the last one of a kind on the third axis,
// the one before it on the second. Axes that a kind has not are {1}.
struct OperationGrid {
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> second;
  std::vector<std::uint32_t> third;

  bool operator==(const OperationGrid&) const = default;
};

// One kernel of one library: its closed form, and how far measurements are from it.
struct OperationTable {
  std::string kind;  // a name in operation_kinds.h
  KernelLibrary library{};
  std::string variant;  // formats, phase, kernel: words in the order that the kind says
  OperationCoefficients coefficients;
  double log_sd = 0.3;        // of the closed form
  double measured_sd = 0.03;  // of measured shapes
  // Deviation of shapes that were not measured, over the square root of the kriging variance.
  double shape_sd = 0.2;
  std::uint32_t grid = 0;         // of the profile's grids
  std::vector<std::string> rows;  // one per shape; operation_table.h has the format

  bool operator==(const OperationTable&) const = default;
};

// Empty: closed forms with the fractions of the data sheet.
struct OperationProfile {
  std::vector<OperationGrid> grids;
  std::vector<OperationTable> tables;

  bool operator==(const OperationProfile&) const = default;
};

// Throws InputError (usage) "operation tables[1]: ..." for the first table of an unknown kind, or
// with a malformed row or grid.
void Validate(const OperationProfile& profile);

}  // namespace twin::sim
