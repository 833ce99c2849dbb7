// Sources of weights: a checkpoint, or a generator of random numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/model/checkpoint.h"
#include "exec/model/model_config.h"
#include "exec/model/stored_int4.h"
#include "exec/model/tensor_plan.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::exec {

// A stored matrix, the rows and columns to take of it, and where these begin in a packed matrix.
struct MatrixRequest {
  const std::string& name;
  std::int64_t rows = 0;     // of the part: stored, or every so many of the stored rows
  std::int64_t columns = 0;  // stored
  bool transposed = false;   // stored [columns, rows]
  IndexRange taken_rows;
  IndexRange taken_columns;
  std::int64_t first_row = 0;  // in the packed matrix
  StoredRows stored = {};

  // The shape of the tensor.
  [[nodiscard]] std::vector<std::int64_t> TensorShape() const;
  // Elements from the tensor's first one to row 0 and column 0, and between rows and columns.
  [[nodiscard]] std::int64_t First() const;
  [[nodiscard]] std::int64_t RowStep() const;
  [[nodiscard]] std::int64_t ColumnStep() const;
};

// Elements of a tensor in C order.
struct VectorRequest {
  const std::string& name;
  std::vector<std::int64_t> shape;     // stored
  std::vector<IndexRange> taken = {};  // one after the other; empty = all
};

// The ranges that a request takes.
std::vector<IndexRange> RangesOf(const VectorRequest& request);

enum class VectorKind : std::uint8_t { kGain, kBias };

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Throws InputError (data) if the tensor is missing, has another shape, or is not of floating
  // point. Called before memory is taken for it.
  virtual void Require(const MatrixRequest& /*request*/) const {}
  // The matrix if it is stored in 4 bits, otherwise null. Throws as Require().
  [[nodiscard]] virtual std::unique_ptr<StoredInt4> Int4(const MatrixRequest& /*request*/) const {
    return nullptr;
  }
  // True if some matrices are stored in 4 bits.
  [[nodiscard]] virtual bool has_int4() const { return false; }
  // Fill() and ReadVector() throw as Require().
  virtual void Fill(const MatrixRequest& request, kernels::ThreadPool& pool,
                    kernels::WeightSink& matrix) = 0;
  virtual std::vector<float> ReadVector(const VectorRequest& request, VectorKind kind) = 0;
};

// Reads the tensors of a checkpoint, and remembers what to warn of.
class CheckpointSource final : public TensorSource {
 public:
  // Borrows the checkpoint. `layout` is that of matrices in 4 bits, if there are any.
  CheckpointSource(const Checkpoint& checkpoint, std::optional<Int4Layout> layout)
      : checkpoint_(checkpoint), int4_(layout) {}

  void Require(const MatrixRequest& request) const override;
  [[nodiscard]] std::unique_ptr<StoredInt4> Int4(const MatrixRequest& request) const override;
  [[nodiscard]] bool has_int4() const override { return int4_.has_value(); }
  void Fill(const MatrixRequest& request, kernels::ThreadPool& pool,
            kernels::WeightSink& matrix) override;
  std::vector<float> ReadVector(const VectorRequest& request, VectorKind kind) override;

  // One line for each tensor with a NaN or an infinity in the part that was taken of it (naming the
  // first one), in the order of reading, then one line for each tensor that is not among `names`,
  // which are the model's, ascending.
  [[nodiscard]] std::vector<std::string> Warnings(WeightNaming naming,
                                                  const std::vector<std::string>& names) const;

 private:
  [[nodiscard]] const StoredTensor& Checked(const std::string& name,
                                            const std::vector<std::int64_t>& shape) const;
  void WarnIfNotFinite(const StoredTensor& tensor, std::int64_t first_not_finite);

  // Fills the matrix with fp32 numbers, some rows at a time.
  void FillWidened(const MatrixRequest& request, const StoredInt4& stored,
                   kernels::ThreadPool& pool, kernels::WeightSink& matrix);

  const Checkpoint& checkpoint_;
  std::optional<Int4Layout> int4_;
  std::vector<std::string> not_finite_;
};

// Random numbers that depend on the seed, the tensor's name and the element's place alone: matrices
// and biases N(0, 0.02), gains 1. Not zeros, because devices multiply zeros faster.
class DummySource final : public TensorSource {
 public:
  static constexpr float kDeviation = 0.02F;

  explicit DummySource(std::uint64_t seed) : seed_(seed) {}

  void Fill(const MatrixRequest& request, kernels::ThreadPool& pool,
            kernels::WeightSink& matrix) override;
  std::vector<float> ReadVector(const VectorRequest& request, VectorKind kind) override;

  // The tensor's element `index`, in C order.
  [[nodiscard]] float Element(std::uint64_t tensor_hash, std::uint64_t index) const;

 private:
  std::uint64_t seed_;
};

}  // namespace twin::exec
