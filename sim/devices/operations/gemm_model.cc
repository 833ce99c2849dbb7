#include "sim/devices/operations/gemm_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "sim/devices/operations/gemm_kriging.h"
#include "sim/devices/operations/gemm_table.h"
#include "sim/devices/operations/unmeasured_device.h"

namespace twin::sim {
namespace {

// Deviation of a format that was not measured, computed with the coefficients of bf16.
constexpr double kOtherFormatSd = 0.25;
// Repeated measurements of one product.
constexpr double kRepeatSd = 0.02;
// Between libraries that both call the vendor's kernels.
constexpr double kOtherLibrarySd = 0.05;
// Between versions of one library: the smaller end of the differences of 2 to 5 % between the
// measured versions.
constexpr double kOtherVersionSd = 0.03;
// The mean error over all m of an (n, k) that was left out, or that lies 1 to 1.4 octaves beyond
// the rest, in units of the spread of its single errors: 0.2 to 0.6 (weights of 8 M numbers and
// more; H100, H200, A100, L40S).
constexpr double kLastingProductShare = 0.5;
// Quantization of activations for fp8, where it was not measured: one more kernel that reads bf16
// and writes fp8.
constexpr double kQuantizeSeconds = 2.5e-6;
constexpr double kQuantizePasses = 1.5;

// Values of m that a curve remembers.
constexpr std::size_t kRememberedMax = GemmTokenWeights::kRememberedMax;

bool QuantizesActivations(GemmFormat format) {
  return format == GemmFormat::kFp8 || format == GemmFormat::kFp8Block ||
         format == GemmFormat::kFp4 || format == GemmFormat::kMxfp4Fp8;
}

// Whose table of a format counts if the library has none: vLLM's, or the first there is.
KernelLibrary ReplacementOf(const GemmProfile& profile, GemmFormat format) {
  KernelLibrary replacement = KernelLibrary::kTrtllm;
  for (const GemmTable& table : profile.tables) {
    if (table.format == format) replacement = std::min(replacement, table.library);
  }
  return replacement;
}

// True for tables of the library and of the one that replaces it, and for tables that one of them
// takes into account.
bool IsUsed(const GemmProfile& profile, const GemmTable& table, KernelLibrary library) {
  const KernelLibrary replacement = ReplacementOf(profile, table.format);
  const auto is_own = [library, replacement](const GemmTable& any) {
    return any.library == library || any.library == replacement;
  };
  const auto takes_into_account = [&](const GemmTable& any) {
    const bool is_trend = any.trend_share > 0 && any.trend_library == table.library;
    return any.format == table.format &&
           (any.between_shapes == GemmBetweenShapes::kPooled || is_trend);
  };
  return is_own(table) || std::ranges::any_of(profile.tables, [&](const GemmTable& any) {
           return is_own(any) && takes_into_account(any);
         });
}

}  // namespace

struct GemmModel::Table {
  explicit Table(const GemmTable& table) : measured(table), tokens(table.m) {}

  GemmTable measured;
  GemmTokenWeights tokens;
};

struct GemmCurve::Known {
  std::mutex mutex;
  std::unordered_map<std::int64_t, TimeEstimate> estimates;
};

// References to elements of a map stay valid.
struct GemmModel::Curves {
  std::mutex mutex;
  std::map<std::tuple<std::int64_t, std::int64_t, GemmFormat>, GemmCurve> all;
};

GemmModel::GemmModel(const HardwareSpec& hardware, const GemmProfile& profile,
                     KernelLibrary library)
    : hardware_(hardware),
      library_(library),
      fits_(profile.fits),
      curves_(std::make_shared<Curves>()) {
  auto tables = std::make_shared<std::deque<Table>>();
  for (const GemmTable& table : profile.tables) {
    if (IsUsed(profile, table, library)) tables->emplace_back(table);
  }
  tables_ = std::move(tables);
}

GemmModel::Fit GemmModel::FitOf(GemmFormat format) const {
  const auto find = [this](GemmFormat wanted) {
    return std::ranges::find(fits_, wanted, &GemmFit::format);
  };
  if (const auto own = find(format); own != fits_.end()) return {own->coefficients, own->log_sd};
  Fit fit;
  if (const auto bf16 = find(GemmFormat::kBf16); bf16 != fits_.end()) {
    fit = {bf16->coefficients, std::hypot(bf16->log_sd, kOtherFormatSd)};
  } else {
    fit = {GemmCoefficientsOf(hardware_), kUnmeasuredGemmSd};
  }
  if (QuantizesActivations(format)) {
    fit.coefficients.quantize_s = kQuantizeSeconds;
    fit.coefficients.quantize_passes = kQuantizePasses;
  }
  return fit;
}

const GemmModel::Table* GemmModel::TableOf(GemmFormat format, KernelLibrary library) const {
  const auto found = std::ranges::find_if(*tables_, [&](const Table& table) {
    return table.measured.format == format && table.measured.library == library;
  });
  return found == tables_->end() ? nullptr : &*found;
}

GemmKriging GemmModel::KrigingOf(const GemmTable& table) const {
  std::vector<const GemmTable*> pool;
  for (const Table& other : *tables_) {
    if (other.measured.format == table.format) pool.push_back(&other.measured);
  }
  return GemmKriging(table, pool);
}

GemmCurve GemmModel::Curve(std::int64_t n, std::int64_t k, GemmFormat format) const {
  GemmCurve curve;
  curve.hardware_ = hardware_;
  curve.limits_.emplace(hardware_);
  curve.shape_ = {.m = 1, .n = n, .k = k, .format = format};
  curve.fit_ = FitOf(format);
  curve.known_ = std::make_shared<GemmCurve::Known>();
  curve.tables_ = tables_;
  curve.table_ = TableOf(format, library_);
  for (const KernelLibrary other :
       {KernelLibrary::kVllm, KernelLibrary::kSglang, KernelLibrary::kTrtllm}) {
    if (curve.table_ == nullptr) curve.table_ = TableOf(format, other);
  }
  if (curve.table_ == nullptr) curve.fit_.coefficients.whole_waves = 0;
  curve.form_.emplace(hardware_, curve.fit_.coefficients, n, k, format);
  if (curve.table_ == nullptr) return curve;
  const GemmTable& table = curve.table_->measured;
  if (table.library != library_) curve.library_sd_ = kOtherLibrarySd;
  const auto at_n = static_cast<std::uint32_t>(n);
  const auto at_k = static_cast<std::uint32_t>(k);
  GemmCurveRatios ratios = KrigingOf(table).CurveAt(at_n, at_k);
  curve.log_ratios_ = std::move(ratios.log_ratios);
  curve.shape_variance_ = ratios.variance;
  if (table.trend_share > 0) {
    curve.trend_ = TableOf(format, table.trend_library);
    CHECK(curve.trend_ != nullptr);
    curve.trend_log_ratios_ = KrigingOf(curve.trend_->measured).CurveAt(at_n, at_k).log_ratios;
    curve.log_ratios_ =
        WithoutTrend(table, curve.log_ratios_, curve.trend_->tokens, curve.trend_log_ratios_);
  }
  return curve;
}

const GemmCurve& GemmModel::KnownCurve(const GemmShape& shape) const {
  const std::tuple key{shape.n, shape.k, shape.format};
  const std::lock_guard lock(curves_->mutex);
  auto found = curves_->all.find(key);
  if (found == curves_->all.end()) {
    found = curves_->all.emplace(key, Curve(shape.n, shape.k, shape.format)).first;
  }
  return found->second;
}

TimeEstimate GemmModel::operator()(const GemmShape& shape) const {
  return KnownCurve(shape)(shape.m);
}

TimeEstimate GemmModel::EstimateFromMemory(const GemmShape& shape) const {
  return KnownCurve(shape).EstimateFromMemory(shape.m);
}

TimeEstimate GemmCurve::operator()(std::int64_t m) const {
  const std::lock_guard lock(known_->mutex);
  const auto found = known_->estimates.find(m);
  if (found != known_->estimates.end()) return found->second;
  const TimeEstimate estimate = Compute(m);
  if (known_->estimates.size() < kRememberedMax) known_->estimates.emplace(m, estimate);
  return estimate;
}

GemmShape GemmCurve::ShapeOf(std::int64_t m) const {
  GemmShape shape = shape_;
  shape.m = m;
  return shape;
}

TimeEstimate GemmCurve::Compute(std::int64_t m) const {
  const GemmShape shape = ShapeOf(m);
  const double seconds = (*form_)(m);
  const double least = limits_->Gemm(shape);
  if (table_ == nullptr) return AtLeast({seconds, fit_.log_sd, fit_.log_sd}, least);
  const GemmTable& table = table_->measured;
  const GemmRatio ratio = RatioAt(m);
  const std::size_t range = GemmRangeOf(m);
  const double of_shape = table.shape_sd[range] * std::sqrt(shape_variance_);
  const double of_m = std::sqrt(ratio.variance);
  return AtLeast({seconds * std::exp(ratio.log_ratio),
                  std::hypot(std::hypot(of_shape, of_m), std::hypot(kRepeatSd, library_sd_)),
                  std::hypot(kLastingProductShare * of_shape, kOtherVersionSd, library_sd_)},
                 least);
}

GemmRatio GemmCurve::RatioAt(std::int64_t m) const {
  const GemmTable& table = table_->measured;
  const std::size_t range = GemmRangeOf(m);
  GemmRatio ratio = table_->tokens.RatioAt(log_ratios_, m);
  const bool measured = ratio.variance == 0;
  ratio.variance *= table.m_sd[range] * table.m_sd[range];
  if (trend_ == nullptr) return ratio;
  const GemmRatio trend = trend_->tokens.RatioAt(trend_log_ratios_, m);
  ratio.log_ratio += table.trend_share * trend.log_ratio;
  const double trend_sd = table.trend_share * trend_->measured.m_sd[range];
  if (!measured) ratio.variance += trend_sd * trend_sd * trend.variance;
  return ratio;
}

TimeEstimate GemmCurve::EstimateFromMemory(std::int64_t m) const {
  return AtLeast((*this)(m), limits_->Gemm(ShapeOf(m), true));
}

BackToBackCalls GemmCurve::calls() const {
  return table_ == nullptr ? BackToBackCalls{} : table_->measured.calls;
}

double GemmCurve::MeasuredCall(std::int64_t m) const {
  const double seconds = (*this)(m).seconds;
  if (table_ == nullptr) return seconds;
  const GemmTable& table = table_->measured;
  // Where heat counts, times go with the work.
  const auto share = [](const std::vector<std::uint32_t>& axis, std::int64_t size) {
    return std::min(1.0, static_cast<double>(axis.back()) / static_cast<double>(size));
  };
  return seconds * share(table.m, m) * share(table.n, shape_.n) * share(table.k, shape_.k);
}

}  // namespace twin::sim
