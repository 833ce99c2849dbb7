// Reading the parts of a model from a tensor source, shared by all devices.
#pragma once

#include <vector>

#include "exec/model/checkpoint.h"
#include "exec/model/model_config.h"
#include "exec/model/tensor_plan.h"
#include "exec/model/tensor_source.h"

namespace twin::exec {

// The requests to a source for a matrix of a plan, one for each part. Throws as Require().
std::vector<MatrixRequest> RequestsOf(const MatrixPlan& plan, const TensorSource& source);
// The biases of the parts as taken, part after part; empty if the matrix has none.
std::vector<float> ReadBias(const MatrixPlan& plan, TensorSource& source);
// The gain of a norm, with the offset that the model adds to stored gains.
std::vector<float> ReadGain(const NormPlan& plan, const ModelConfig& model, TensorSource& source);

// The numbers of a vector; none if the model has no such vector.
std::vector<float> ReadVector(const VectorPlan& plan, TensorSource& source);

// The plan with the first of the family's prefixes with which the checkpoint has the embedding.
TensorPlan PlanStored(const ModelConfig& model, const Checkpoint& checkpoint);

// The configuration for dummy weights: adding gemma2's offset to gains of 1 would double every
// norm.
ModelConfig WithoutGainOffset(ModelConfig model);

}  // namespace twin::exec
