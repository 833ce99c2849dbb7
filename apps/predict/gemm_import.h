// Makes the gemm.textproto of a device from measured matrix products.
#pragma once

#include <string>
#include <vector>

#include "apps/predict/gemm_left_out.h"
#include "apps/predict/gemm_rows.h"
#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::run {

struct GemmTableErrors {
  ImportError closed_form;     // of all rows
  ImportError left_out_shape;  // each (n, k) interpolated from the other (n, k)
  ImportError left_out_m;      // each m but the first and last; of this library alone
};

struct GemmImport {
  sim::GemmProfile profile;
  std::vector<GemmTableErrors> errors;  // of profile.tables
};

// Fits the closed form of each format to all libraries together, and tabulates each library and
// format that was measured on a grid; an (n, k) that lacks an m of the grid is left out. Formats
// without a grid (fewer than 3 m or 4 (n, k)) have a closed form only. The closed form's
// `whole_waves` is chosen for the errors of interpolation in all tables of a format together; with
// fewer than 40 (n, k) it stays 0.
// Throws InputError (data) without rows, and ends early as EndIfStopped() does.
GemmImport ImportGemm(const HardwareSpec& hardware, const GemmRows& rows, RunControl& control);

// Returns the content of gemm.textproto; `origin` is the first line of its comment.
std::string WriteGemmImport(const GemmImport& import, const GemmRows& rows,
                            const std::string& origin);

}  // namespace twin::run
