// How long a matrix product takes on a device.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/hardware_spec.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/gemm_closed_form.h"
#include "sim/devices/operations/gemm_profile.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/physical_limits.h"

namespace twin::sim {

class GemmCurve;
class GemmKriging;
struct GemmRatio;

// With a table for the library and format: its measured times, interpolated between (n, k)
// (gemm_kriging.h), perhaps with the other libraries' tables in mind, and along m (gemm_table.h),
// perhaps along a library's that was measured at more m. A library without table takes vLLM's, or
// another's. Otherwise the closed form (gemm_closed_form.h) with the coefficients of the profile,
// or with coefficients from the data sheet (unmeasured_device.h) and a wide interval. Copies share
// the tables and the curves.
class GemmModel {
 public:
  explicit GemmModel(const HardwareSpec& hardware, const GemmProfile& profile = {},
                     KernelLibrary library = KernelLibrary::kVllm);

  // One product on a rested device, as measured: small weights may come from L2. Keeps the curves
  // of the (n, k) that occurred. Callable from several threads. REQUIRES: m, n, k >= 1.
  [[nodiscard]] TimeEstimate operator()(const GemmShape& shape) const;
  // One product whose weights come from memory, as in a model: at least the time to read them.
  [[nodiscard]] TimeEstimate EstimateFromMemory(const GemmShape& shape) const;

  // All products with one weight matrix. Interpolates between (n, k) once. The first time that an m
  // is asked of any curve of a table costs some microseconds, and then about one, or a few
  // nanoseconds where this curve has remembered it.
  [[nodiscard]] GemmCurve Curve(std::int64_t n, std::int64_t k,
                                GemmFormat format = GemmFormat::kBf16) const;

 private:
  friend class GemmCurve;
  struct Fit {
    GemmCoefficients coefficients;
    double log_sd = 0;
  };
  struct Table;
  [[nodiscard]] Fit FitOf(GemmFormat format) const;
  // Null: no such table.
  [[nodiscard]] const Table* TableOf(GemmFormat format, KernelLibrary library) const;
  [[nodiscard]] const GemmCurve& KnownCurve(const GemmShape& shape) const;
  // Kriging of a table of tables_, with the other tables of its format as the pool.
  [[nodiscard]] GemmKriging KrigingOf(const GemmTable& table) const;

  HardwareSpec hardware_;
  KernelLibrary library_;
  std::vector<GemmFit> fits_;
  std::shared_ptr<const std::deque<Table>> tables_;
  struct Curves;
  std::shared_ptr<Curves> curves_;
};

// The times of products with one weight matrix. Keeps what it needs of its model, and remembers the
// m that it was asked for; copies share that. Callable from several threads.
class GemmCurve {
 public:
  // REQUIRES: m >= 1.
  [[nodiscard]] TimeEstimate operator()(std::int64_t m) const;
  [[nodiscard]] TimeEstimate EstimateFromMemory(std::int64_t m) const;

  // How the times of the table were taken; single calls without a table.
  [[nodiscard]] BackToBackCalls calls() const;
  // Seconds of the measured calls that the time of m rests on. Sizes beyond all measured ones take
  // their share of the largest call.
  [[nodiscard]] double MeasuredCall(std::int64_t m) const;

 private:
  friend class GemmModel;
  struct Known;
  [[nodiscard]] TimeEstimate Compute(std::int64_t m) const;
  // The table's, with the variance of its logarithm. REQUIRES: table_ != nullptr.
  [[nodiscard]] GemmRatio RatioAt(std::int64_t m) const;

  [[nodiscard]] GemmShape ShapeOf(std::int64_t m) const;

  HardwareSpec hardware_;
  std::optional<PhysicalLimits> limits_;
  GemmShape shape_;  // of m = 1
  GemmModel::Fit fit_;
  std::optional<GemmForm> form_;  // of the fit
  std::shared_ptr<const std::deque<GemmModel::Table>> tables_;
  const GemmModel::Table* table_ = nullptr;  // one of tables_; null = the closed form alone
  double library_sd_ = 0;                    // of another library's table
  std::vector<double> log_ratios_;           // at the table's m; without the trend
  double shape_variance_ = 0;
  const GemmModel::Table* trend_ = nullptr;  // one of tables_; null = none
  std::vector<double> trend_log_ratios_;     // at the trend's m
  std::shared_ptr<Known> known_;
};

}  // namespace twin::sim
