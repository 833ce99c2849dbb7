// Reading the parts of a model from a tensor source, shared by all devices.
#pragma once

#include <vector>

#include "exec/model/checkpoint.h"
#include "exec/model/model_config.h"
#include "exec/model/tensor_plan.h"
#include "exec/model/tensor_source.h"

namespace twin::exec {

// What a plan's matrix asks of a source, part by part. Throws as Require.
std::vector<MatrixRequest> RequestsOf(const MatrixPlan& plan, const TensorSource& source);
// The biases of its parts as taken, one behind the other; empty where it has none.
std::vector<float> ReadBias(const MatrixPlan& plan, TensorSource& source);
// With the offset that the model adds to stored gains.
std::vector<float> ReadGain(const NormPlan& plan, const ModelConfig& model, TensorSource& source);

// The plan under the first of the family's prefixes that the checkpoint's embedding has.
TensorPlan PlanStored(const ModelConfig& model, const Checkpoint& checkpoint);

// Made for dummy weights: adding gemma2's offset to gains of 1 would double every norm.
ModelConfig WithoutGainOffset(ModelConfig model);

}  // namespace twin::exec
