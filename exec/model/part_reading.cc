#include "exec/model/part_reading.h"

namespace twin::exec {

std::vector<std::int64_t> MatrixRequest::TensorShape() const {
  const std::int64_t stored_rows = rows * stored.every;
  std::vector<std::int64_t> shape =
      transposed ? std::vector{columns, stored_rows} : std::vector{stored_rows, columns};
  if (stored.stack > 0) shape.insert(shape.begin(), stored.stack);
  return shape;
}

std::int64_t MatrixRequest::First() const {
  const std::int64_t step = transposed ? 1 : columns;
  return stored.index * rows * stored.every * columns + stored.offset * step;
}

std::int64_t MatrixRequest::RowStep() const { return stored.every * (transposed ? 1 : columns); }

std::int64_t MatrixRequest::ColumnStep() const { return transposed ? rows * stored.every : 1; }

std::vector<IndexRange> RangesOf(const VectorRequest& request) {
  if (!request.taken.empty()) return request.taken;
  std::int64_t elements = 1;
  for (const std::int64_t size : request.shape) elements *= size;
  return {{0, elements}};
}

std::vector<MatrixRequest> RequestsOf(const MatrixPlan& plan, const TensorSource& source) {
  std::vector<MatrixRequest> requests;
  std::int64_t rows = 0;
  for (const MatrixPart& part : plan.parts) {
    requests.push_back({part.weight, part.rows, plan.columns, plan.transposed, part.taken(),
                        plan.taken(), rows, part.stored});
    source.Require(requests.back());
    rows += part.taken().count;
  }
  return requests;
}

std::vector<float> ReadBias(const MatrixPlan& plan, TensorSource& source) {
  std::vector<float> all;
  for (const MatrixPart& part : plan.parts) {
    if (part.bias.empty()) continue;
    const StoredRows& stored = part.stored;
    const std::int64_t width = part.rows * stored.every;
    VectorRequest request{part.bias, {width}};
    if (stored.stack > 0) {
      request.shape = {stored.stack, width};
      request.taken = {{stored.index * width, width}};
    }
    const std::vector<float> bias = source.ReadVector(request, VectorKind::kBias);
    const IndexRange rows = part.taken();
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
      all.push_back(bias[static_cast<std::size_t>(stored.offset + row * stored.every)]);
    }
  }
  return all;
}

std::vector<float> ReadGain(const NormPlan& plan, const ModelConfig& model, TensorSource& source) {
  VectorRequest request{plan.gain, {plan.width}};
  if (plan.slice) request.taken = {*plan.slice};
  std::vector<float> gain = source.ReadVector(request, VectorKind::kGain);
  if (plan.plain) return gain;
  for (float& value : gain) value += model.norm_gain_offset;
  return gain;
}

std::vector<float> ReadVector(const VectorPlan& plan, TensorSource& source) {
  if (plan.name.empty()) return {};
  return source.ReadVector({plan.name, plan.shape, plan.taken}, VectorKind::kBias);
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
