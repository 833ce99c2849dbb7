// Weighted least squares with a prior, and what the data says about each coefficient.
#pragma once

#include <span>
#include <vector>

#include <Eigen/Dense>

namespace twin::sim {

struct MapStep {
  std::vector<double> change;  // of the coefficients
  std::vector<double> sd;      // of each, data and prior together
  std::vector<std::vector<double>> correlation;
};

// Sums up rows; memory does not grow with them. Coefficients are in units of their prior's standard
// deviation.
class NormalEquations {
 public:
  explicit NormalEquations(std::size_t coefficients);

  // residual = measured - predicted; it and the gradient of the prediction in units of the noise.
  void Add(std::span<const double> gradient, double residual, double weight);

  // The Gauss-Newton step from `at` for the sum of squares and a standard normal prior around 0.
  [[nodiscard]] MapStep Solve(std::span<const double> at) const;

 private:
  Eigen::MatrixXd matrix_;
  Eigen::VectorXd right_;
};

}  // namespace twin::sim
