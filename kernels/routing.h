// Routes rows to the experts of a mixture, and sums the results of the experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// (row, expert) pairs, sorted by expert, then by row.
struct RoutedRows {
  std::vector<std::int32_t> rows;
  std::vector<float> weights;  // of the expert in that row's sum
  std::vector<std::int64_t>
      first;  // first pair of each expert, then the number of pairs: experts + 1 entries

  // The rows and weights of one expert. REQUIRES: 0 <= expert < experts.
  [[nodiscard]] std::span<const std::int32_t> RowsOf(std::int64_t expert) const;
  [[nodiscard]] std::span<const float> WeightsOf(std::int64_t expert) const;

  // The choices by row, in the order of choice: experts_per_row for each row.
  std::vector<std::int32_t> chosen;
  std::vector<float> chosen_weights;
};

enum class ExpertScore : std::uint8_t {
  kSoftmax,  // over all experts
  kSigmoid,
};

// How a row's experts are chosen and weighted.
struct ExpertChoice {
  std::int32_t experts_per_row = 1;
  bool normalised = false;  // weights are divided by their sum
  ExpertScore score = ExpertScore::kSoftmax;
  std::span<const float> bias = {};  // for each expert, added to its score for the choice; or empty
  // Groups of neighbouring experts, as many in each. Experts of the groups_kept groups with the
  // largest sums of their best_of_group largest scores, with bias, can be chosen.
  std::int32_t groups = 1;
  std::int32_t groups_kept = 1;
  std::int32_t best_of_group = 1;
  float scale = 1;  // of the weights
};

// Chooses for each row the experts with the largest scores, the first ones among equals. Their
// weights are their scores without bias. A row's experts and weights depend on its logits alone.
//
// Shapes    logits: [rows, experts]. REQUIRES: 1 <= experts_per_row <= experts that can be chosen;
//           groups divides experts; best_of_group <= experts / groups.
// Error     1e-5 relative to each weight, against double precision, for logits up to 30.
// Source    groups and bias: DeepSeek-AI, 2024, arXiv:2412.19437, section 2.1.2, and
//           arXiv:2405.04434, section 2.2.2.
void RouteRows(ThreadPool& pool, MatrixView<const float> logits, const ExpertChoice& choice,
               RoutedRows& routed);

// y[rows[i]] += factors[i] * x[i]. REQUIRES: no row appears twice. Aliasing: none.
void AddScaledRows(ThreadPool& pool, MatrixView<const float> x, std::span<const std::int32_t> rows,
                   std::span<const float> factors, MatrixView<float> y);

// y[i] += sigmoid(gates[i, 0]) * x[i]. Shapes: gates [rows, 1]. Aliasing: none.
void AddGatedRows(ThreadPool& pool, MatrixView<const float> x, MatrixView<const float> gates,
                  MatrixView<float> y);

}  // namespace twin::kernels
