// Linear fits with coefficients of at least 0 that are robust against outliers.
#pragma once

#include <Eigen/Core>

namespace twin::sim {

// The x >= 0 that minimises |A x - b|, found exactly by trying every subset of columns. Columns of
// zeros get 0. REQUIRES: as many rows in A as in b; at most 8 columns.
Eigen::VectorXd NonNegativeLeastSquares(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

// The x >= 0 that minimises the relative residuals (A x - b) / b. Rows with residuals beyond 1.345
// robust standard deviations get Huber's smaller weights. REQUIRES: also b > 0.
// Source: Huber and Ronchetti, Robust Statistics, 2009, section 7.8.
Eigen::VectorXd RelativeFit(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

}  // namespace twin::sim
