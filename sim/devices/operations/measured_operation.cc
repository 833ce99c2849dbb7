#include "sim/devices/operations/measured_operation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "sim/devices/operations/kriging.h"

namespace twin::sim {
namespace {

constexpr double kUnmeasuredOperationSd = 0.4;
constexpr double kOtherTableSd = 0.15;
constexpr double kLastingOperationShare = 0.6;
// Octaves at which the covariance of two shapes has fallen to 1/e.
constexpr double kShapeRange = 6;
constexpr KrigingRules kShapeRules{.neighbours = 12, .nugget = 0.01};

// The words that two variants begin with in common.
int CommonWords(std::string_view a, std::string_view b) {
  int words = 0;
  while (!a.empty() && !b.empty()) {
    const std::string_view first = a.substr(0, a.find(' '));
    const std::string_view second = b.substr(0, b.find(' '));
    if (first != second) break;
    ++words;
    a.remove_prefix(std::min(a.size(), first.size() + 1));
    b.remove_prefix(std::min(b.size(), second.size() + 1));
  }
  return words;
}

double Distance(const std::array<double, kPlacesMax>& a, const std::array<double, kPlacesMax>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kPlacesMax; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

bool HasShape(const OperationTable& table, const std::vector<double>& shape) {
  return std::ranges::any_of(table.rows,
                             [&](const std::string& row) { return ShapeOfRow(row) == shape; });
}

}  // namespace

MeasuredOperation::MeasuredOperation(const HardwareSpec& hardware, const OperationKind& kind,
                                     KernelLibrary library, std::string_view variant,
                                     std::vector<double> shape, const OperationProfile& profile)
    : kind_(&kind),
      variant_(variant),
      shape_(std::move(shape)),
      form_(hardware, OperationCoefficientsOf(hardware)),
      log_sd_(kUnmeasuredOperationSd) {
  CHECK(shape_.size() == kind.shape.size());
  const OperationTable* const table = Best(profile, library);
  if (table == nullptr) return;
  form_ = OperationForm(hardware, table->coefficients);
  const OperationGrid& grid = profile.grids[table->grid];
  std::vector<std::array<double, kPlacesMax>> places;
  double variance = 0;
  for (const std::string& row : table->rows) {
    const std::vector<double> measured = ShapeOfRow(row);
    if (measured == shape_) {
      surface_ = OperationSurface(grid, ParseOperationRow(row, grid).log_ratios);
      places.clear();
      measured_ = true;
      break;
    }
    places.push_back(kind.place(measured));
  }
  if (!places.empty()) {
    const std::array<double, kPlacesMax> here = kind.place(shape_);
    const KrigingWeights weights = Krige(
        places.size(), places.size(), kShapeRules,
        [&](std::size_t i) { return std::exp(-Distance(places[i], here) / kShapeRange); },
        [&](std::size_t i, std::size_t j) {
          return std::exp(-Distance(places[i], places[j]) / kShapeRange);
        });
    variance = weights.variance;
    for (std::size_t i = 0; i < weights.count; ++i) {
      const OperationRow row = ParseOperationRow(table->rows[weights.points[i]], grid);
      surface_.Add(OperationSurface(grid, row.log_ratios), weights.weights[i]);
    }
    measured_ = true;
  }
  const bool same = table->library == library && table->variant.starts_with(variant_);
  log_sd_ = measured_ ? std::hypot(table->measured_sd, table->shape_sd * std::sqrt(variance),
                                   same ? 0 : kOtherTableSd)
                      : table->log_sd;
}

const OperationTable* MeasuredOperation::Best(const OperationProfile& profile,
                                              KernelLibrary library) const {
  const OperationTable* best = nullptr;
  std::tuple<int, std::ptrdiff_t, bool, bool> best_rank;
  for (const OperationTable& table : profile.tables) {
    if (table.kind != kind_->name) continue;
    const std::ptrdiff_t common =
        std::ranges::mismatch(variant_, table.variant).in1 - variant_.begin();
    const std::tuple rank{CommonWords(table.variant, variant_), common, table.library == library,
                          HasShape(table, shape_)};
    if (best != nullptr && rank <= best_rank) continue;
    best = &table;
    best_rank = rank;
  }
  return best;
}

TimeEstimate MeasuredOperation::operator()(std::span<const double> call) const {
  return For(kind_->work(shape_, call, variant_), call);
}

TimeEstimate MeasuredOperation::For(const OperationWork& work, std::span<const double> call) const {
  double seconds = form_.Seconds(work);
  if (measured_) {
    // The last size is that of the third axis.
    const std::size_t unused = 3 - kind_->call.size();
    const auto size = [&](std::size_t axis) { return axis < unused ? 1 : call[axis - unused]; };
    seconds *= std::exp(surface_.At(size(0), size(1), size(2)));
  }
  return {seconds, log_sd_, kLastingOperationShare * log_sd_};
}

}  // namespace twin::sim
