#include "sim/cost/normal_equations.h"

#include <cmath>

namespace twin::sim {

NormalEquations::NormalEquations(std::size_t coefficients)
    : matrix_(Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(coefficients),
                                    static_cast<Eigen::Index>(coefficients))),
      right_(Eigen::VectorXd::Zero(static_cast<Eigen::Index>(coefficients))) {}

void NormalEquations::Add(std::span<const double> gradient, double residual, double weight) {
  const Eigen::Map<const Eigen::VectorXd> g(gradient.data(),
                                            static_cast<Eigen::Index>(gradient.size()));
  matrix_.noalias() += weight * g * g.transpose();
  right_.noalias() += weight * residual * g;
}

MapStep NormalEquations::Solve(std::span<const double> at) const {
  const Eigen::Index n = right_.size();
  const Eigen::Map<const Eigen::VectorXd> now(at.data(), n);
  const Eigen::MatrixXd posterior = matrix_ + Eigen::MatrixXd::Identity(n, n);
  const Eigen::LDLT<Eigen::MatrixXd> solver(posterior);
  const Eigen::VectorXd change = solver.solve(right_ - now);
  const Eigen::MatrixXd covariance = solver.solve(Eigen::MatrixXd::Identity(n, n));
  MapStep step;
  for (Eigen::Index i = 0; i < n; ++i) {
    step.change.push_back(change(i));
    step.sd.push_back(std::sqrt(covariance(i, i)));
    std::vector<double>& row = step.correlation.emplace_back();
    for (Eigen::Index j = 0; j < n; ++j) {
      row.push_back(covariance(i, j) / std::sqrt(covariance(i, i) * covariance(j, j)));
    }
  }
  return step;
}

}  // namespace twin::sim
