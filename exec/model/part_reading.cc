#include "exec/model/part_reading.h"

namespace twin::exec {

std::vector<MatrixRequest> RequestsOf(const MatrixPlan& plan, const TensorSource& source) {
  std::vector<MatrixRequest> requests;
  std::int64_t rows = 0;
  for (const MatrixPart& part : plan.parts) {
    requests.push_back(
        {part.weight, part.rows, plan.columns, plan.transposed, part.taken(), plan.taken(), rows});
    source.Require(requests.back());
    rows += part.taken().count;
  }
  return requests;
}

std::vector<float> ReadBias(const MatrixPlan& plan, TensorSource& source) {
  std::vector<float> all;
  for (const MatrixPart& part : plan.parts) {
    if (part.bias.empty()) continue;
    const std::vector<float> bias = source.ReadVector(part.bias, part.rows, VectorKind::kBias);
    const auto first = bias.begin() + part.taken().first;
    all.insert(all.end(), first, first + part.taken().count);
  }
  return all;
}

std::vector<float> ReadGain(const NormPlan& plan, const ModelConfig& model, TensorSource& source) {
  std::vector<float> gain = source.ReadVector(plan.gain, plan.width, VectorKind::kGain);
  for (float& value : gain) value += model.norm_gain_offset;
  return gain;
}

std::vector<float> ReadVector(const VectorPlan& plan, TensorSource& source) {
  if (plan.name.empty()) return {};
  return source.ReadVector(plan.name, plan.width, VectorKind::kBias);
}

// Tries the family's prefixes in turn.
TensorPlan PlanStored(const ModelConfig& model, const Checkpoint& checkpoint) {
  const std::vector<std::string> prefixes = PrefixesOf(model.naming);
  for (const std::string& prefix : prefixes) {
    TensorPlan plan = PlanTensors(model, prefix);
    if (checkpoint.Find(plan.embedding.parts.front().weight) != nullptr) return plan;
  }
  return PlanTensors(model, prefixes.front());
}

ModelConfig WithoutGainOffset(ModelConfig model) {
  model.norm_gain_offset = 0;
  return model;
}

}  // namespace twin::exec
