// Matrices that a checkpoint stores in 4 bits, as GPTQ and AWQ write them.
//
// Tensors of a linear layer X with K inputs and N outputs, in G groups of inputs:
//
//   X.qweight  gptq: int32 [K / 8, N], eight inputs a number; awq: int32 [K, N / 8], eight outputs
//   X.qzeros   int32 [G, N / 8], eight outputs a number
//   X.scales   F16 or BF16 [G, N]
//   X.g_idx    int32 [K], the group of each input; gptq alone, and there optional
//
// Eight neighbours share a number, four bits each. From the lowest bits on, gptq has them in their
// order, awq in the order 0, 2, 4, 6, 1, 3, 5, 7. w = (q - zero) * scale; gptq may store zero - 1.
// Sources: Frantar et al., 2022, arXiv:2210.17323; Lin et al., 2023, arXiv:2306.00978; for the
// layouts, AutoGPTQ and AutoAWQ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/models/model_config.h"
#include "exec/model/checkpoint.h"
#include "exec/model/tensor_plan.h"
#include "kernels/weight_matrix.h"

namespace twin::exec {

// True if the checkpoint stores a matrix in 4 bits. `weight` is its name in the plan: "X.weight".
bool IsStoredInInt4(const Checkpoint& checkpoint, const std::string& weight);
// True for the tensors that replace a matrix "X.weight" of `weights` (names, ascending).
bool StandsForWeight(const std::string& name, const std::vector<std::string>& weights);

// Some rows and columns of a stored matrix.
class StoredInt4 final : public kernels::Int4Source {
 public:
  struct Part {
    const std::string& weight;  // name
    std::int64_t rows = 0;      // stored rows: outputs
    std::int64_t columns = 0;   // stored columns: inputs
    IndexRange taken_rows;
    IndexRange taken_columns;
  };

  // Borrows the checkpoint's bytes. Throws InputError (data), one line, if a tensor is missing or
  // has another type or shape, if g_idx does not divide into groups of the config's size, or if the
  // columns taken cut a group or are in an order of their own.
  StoredInt4(const Checkpoint& checkpoint, const Int4Layout& layout, const Part& part);

  [[nodiscard]] std::int64_t rows() const override { return part_rows_.count; }
  void CopyWeights(std::int64_t first, std::int64_t count, std::uint8_t* q) const override;
  void CopyGroups(std::int64_t first, std::int64_t count, float* scales,
                  std::uint8_t* zeros) const override;

  // The number of columns of a group, a multiple of WeightView::kGroup.
  [[nodiscard]] std::int64_t group() const { return group_; }
  // The input that each column belongs to; empty if columns are in the order of inputs.
  [[nodiscard]] const std::vector<std::int32_t>& order() const { return order_; }
  [[nodiscard]] const StoredTensor& scales() const { return *scales_; }

  // Writes the row in fp32, exactly, in the order of inputs.
  void CopyRow(std::int64_t row, float* out) const;

 private:
  [[nodiscard]] const StoredTensor& Require(const Checkpoint& checkpoint, const std::string& name,
                                            const std::vector<std::int64_t>& shape) const;
  void ReadOrder(const Checkpoint& checkpoint, const std::string& name);
  void CheckColumns(const Part& part) const;
  [[nodiscard]] std::int64_t groups() const { return (part_columns_.count + group_ - 1) / group_; }
  [[nodiscard]] std::uint8_t WeightAt(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] std::uint8_t ZeroAt(std::int64_t row, std::int64_t group) const;
  [[nodiscard]] std::int64_t InputOf(std::int64_t column) const {
    return order_.empty() ? part_columns_.first + column : order_[static_cast<std::size_t>(column)];
  }

  std::string where_;
  Int4Layout layout_;
  std::int64_t stored_rows_;
  std::int64_t stored_columns_;
  IndexRange part_rows_;
  IndexRange part_columns_;
  std::int64_t group_;
  const StoredTensor* weights_;
  const StoredTensor* zeros_;
  const StoredTensor* scales_;
  std::vector<std::int32_t> order_;
};

}  // namespace twin::exec
