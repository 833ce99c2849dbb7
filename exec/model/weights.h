// The weights of a model, or of one rank's share, ready to compute with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "exec/model/model_config.h"
#include "exec/model/model_parts.h"
#include "exec/model/model_share.h"
#include "exec/model/tensor_plan.h"
#include "exec/model/tensor_source.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::exec {

// A norm; empty if the model has no such norm. Only LayerNorm has a bias.
struct NormWeights {
  std::vector<float> gain;
  std::vector<float> bias;

  [[nodiscard]] bool empty() const { return gain.empty(); }
};

// y = W x + b. The matrix has no rows if the model has no such part, the bias is empty if it has
// none.
struct LinearWeights {
  kernels::WeightMatrix matrix;
  std::vector<float> bias;

  [[nodiscard]] bool empty() const { return matrix.view().rows == 0; }
};

using LayerWeights = LayerParts<LinearWeights, NormWeights>;

struct ModelWeights : ModelParts<LinearWeights, NormWeights> {
  // Size of all matrices as packed.
  [[nodiscard]] std::int64_t matrix_bytes() const;
};

struct LoadedWeights {
  ModelWeights weights;
  std::vector<std::string> warnings;  // one line each: tensors that are not finite, unused tensors
};

// Reads a matrix of a model in 4 bits: as the source stores it, or, if the source stores no matrix
// in 4 bits, rounded to groups of kInt4Group. Has no rows if the source stores other matrices in 4
// bits and this one in 16. Throws InputError (data), as LoadWeights().
kernels::WeightMatrix ReadInt4Matrix(const MatrixPlan& plan, TensorSource& source,
                                     kernels::ThreadPool& pool);

// Reads the weights beside `directory`/config.json and packs them as `format`: kFp32, kBf16, kInt8
// (an untied embedding is kept in bf16) or kInt4 (projections of layers; embedding and head are
// kept in bf16). Matrices stored in 4 bits are taken as they are for kInt4, with bf16 for the
// layers that the checkpoint leaves in 16 bits, and widened for the other formats. Norms, biases,
// learned positions and routers stay fp32. With a place in a grid, reads only the rank's part
// (ShareOf). Throws InputError (usage) for another format than kFp32 and kBf16 of a model without
// plain layers (HasPlainLayers), and (data): safetensors.h, checkpoint.h, tensor_source.h. Memory
// beyond the packed weights: none (F64 files: one tensor).
LoadedWeights LoadWeights(const std::filesystem::path& directory, const ModelConfig& model,
                          DType format, kernels::ThreadPool& pool, const GridPlace& place = {});

// Makes random weights of the model's shape (DummySource), for measuring speed. Throws InputError
// (usage) as LoadWeights().
ModelWeights MakeDummyWeights(const ModelConfig& model, DType format, std::uint64_t seed,
                              kernels::ThreadPool& pool, const GridPlace& place = {});

}  // namespace twin::exec
