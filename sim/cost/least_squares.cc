#include "sim/cost/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <Eigen/QR>

#include "core/check.h"
#include "core/statistics.h"

namespace twin::sim {
namespace {

constexpr int kReweightings = 12;
constexpr double kHuber = 1.345;
constexpr double kNormalMad = 1.4826;  // standard deviation over median absolute deviation

}  // namespace

Eigen::VectorXd NonNegativeLeastSquares(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const Eigen::Index columns = a.cols();
  CHECK(columns <= 8 && a.rows() == b.rows());
  // Columns of one size: features differ by many powers of ten.
  Eigen::VectorXd size = a.colwise().norm();
  Eigen::VectorXd best = Eigen::VectorXd::Zero(columns);
  double least = b.squaredNorm();
  for (unsigned set = 1; set < (1U << columns); ++set) {
    std::vector<Eigen::Index> chosen;
    for (Eigen::Index c = 0; c < columns; ++c) {
      if ((set >> c & 1U) != 0 && size[c] > 0) chosen.push_back(c);
    }
    if (chosen.empty()) continue;
    Eigen::MatrixXd part(a.rows(), static_cast<Eigen::Index>(chosen.size()));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      part.col(static_cast<Eigen::Index>(i)) = a.col(chosen[i]) / size[chosen[i]];
    }
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(b);
    if ((x.array() < 0).any() || !x.allFinite()) continue;
    const double residual = (part * x - b).squaredNorm();
    // By a margin: of equally good sets the first, which has the fewest late columns.
    if (residual >= least * (1 - 1e-12)) continue;
    least = residual;
    best.setZero();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      best[chosen[i]] = x[static_cast<Eigen::Index>(i)] / size[chosen[i]];
    }
  }
  return best;
}

Eigen::VectorXd RelativeFit(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  CHECK((b.array() > 0).all());
  const Eigen::MatrixXd relative = a.array().colwise() / b.array();
  Eigen::VectorXd weight = Eigen::VectorXd::Ones(b.rows());
  Eigen::VectorXd x;
  for (int pass = 0; pass < kReweightings; ++pass) {
    const Eigen::VectorXd root = weight.cwiseSqrt();
    x = NonNegativeLeastSquares(root.asDiagonal() * relative, root);
    const Eigen::VectorXd residual = relative * x - Eigen::VectorXd::Ones(b.rows());
    std::vector<double> sizes;
    for (const double r : residual) sizes.push_back(std::abs(r));
    const double limit = kHuber * kNormalMad * Median(std::move(sizes));
    if (limit <= std::numeric_limits<double>::epsilon()) break;
    for (Eigen::Index i = 0; i < residual.rows(); ++i) {
      const double r = std::abs(residual[i]);
      weight[i] = r <= limit ? 1 : limit / r;
    }
  }
  return x;
}

}  // namespace twin::sim
