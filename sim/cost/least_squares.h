// Linear fits whose coefficients are no less than 0, not led astray by single points.
#pragma once

#include <Eigen/Core>

namespace twin::sim {

// The x >= 0 that minimises |A x - b|: exactly, by trying every set of columns. Columns of zeros
// get 0. REQUIRES: as many rows in A as in b; at most 8 columns.
Eigen::VectorXd NonNegativeLeastSquares(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

// The same for relative residuals (A x - b) / b, rows far off (Huber's weights at 1.345 robust
// standard deviations) counting less. REQUIRES: also b > 0.
// Source: Huber and Ronchetti, Robust Statistics, 2009, section 7.8.
Eigen::VectorXd RelativeFit(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

}  // namespace twin::sim
