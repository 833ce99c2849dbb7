#include "exec/model/model_share.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::exec {
namespace {

// The share of `rank` if `count` things are divided as evenly as possible.
IndexRange Share(std::int64_t count, std::int32_t ranks, std::int32_t rank) {
  const std::int64_t first = count * rank / ranks;
  return {first, count * (rank + 1) / ranks - first};
}

IndexRange QueryHeads(const ModelSpec& model, const GridPlace& place) {
  return Share(model.query_heads, place.grid.tensor, place.tensor_rank);
}

IndexRange KvHeads(const ModelSpec& model, const GridPlace& place) {
  const std::int64_t first = std::int64_t{model.kv_heads} * place.tensor_rank / place.grid.tensor;
  return {first, KvHeadsPerRank(model, place.grid)};
}

IndexRange Scaled(const IndexRange& range, std::int64_t factor) {
  return {range.first * factor, range.count * factor};
}

// Appends the rows `range` of `from`, counted over all parts.
void AppendRows(const MatrixPlan& from, const IndexRange& range, MatrixPlan& to) {
  std::int64_t row = 0;
  for (const MatrixPart& part : from.parts) {
    const IndexRange rows = part.taken();
    const std::int64_t begin = std::max(range.first, row);
    const std::int64_t end = std::min(range.first + range.count, row + rows.count);
    if (begin < end) {
      MatrixPart& cut = to.parts.emplace_back(part);
      cut.slice = IndexRange{rows.first + begin - row, end - begin};
    }
    row += rows.count;
  }
}

MatrixPlan TakeRows(const MatrixPlan& plan, std::initializer_list<IndexRange> ranges) {
  MatrixPlan taken;
  taken.columns = plan.columns;
  taken.transposed = plan.transposed;
  for (const IndexRange& range : ranges) AppendRows(plan, range, taken);
  return taken;
}

MatrixPlan TakeColumns(const MatrixPlan& plan, const IndexRange& range, bool with_bias) {
  MatrixPlan taken = plan;
  taken.slice = range;
  for (MatrixPart& part : taken.parts) {
    if (!with_bias) part.bias.clear();
  }
  return taken;
}

LayerPlan LayerShare(const LayerPlan& plan, const ModelSpec& model, const GridPlace& place) {
  LayerPlan share = plan;
  const IndexRange queries = Scaled(QueryHeads(model, place), model.head_dim);
  const IndexRange keys = Scaled(KvHeads(model, place), model.head_dim);
  const std::int64_t query_width = std::int64_t{model.query_heads} * model.head_dim;
  const std::int64_t key_width = std::int64_t{model.kv_heads} * model.head_dim;
  share.qkv = TakeRows(plan.qkv, {queries,
                                  {query_width + keys.first, keys.count},
                                  {query_width + key_width + keys.first, keys.count}});
  const bool has_bias = place.tensor_rank == 0;
  share.output = TakeColumns(plan.output, queries, has_bias);
  const auto cut_mlp = [&](std::int64_t width, MatrixPlan& up, MatrixPlan& down) {
    const IndexRange inner = Share(width, place.grid.tensor, place.tensor_rank);
    up = model.gated_mlp ? TakeRows(up, {inner, {width + inner.first, inner.count}})
                         : TakeRows(up, {inner});
    down = TakeColumns(down, inner, has_bias);
  };
  const bool mixture = model.moe.experts > 0;
  cut_mlp(mixture ? model.moe.shared_intermediate : model.intermediate, share.up, share.down);
  for (ExpertPlan& expert : share.experts) {
    cut_mlp(model.moe.expert_intermediate, expert.up, expert.down);
  }
  return share;
}

}  // namespace

GridPlace PlaceOf(const Parallelism& grid, std::int32_t rank) {
  CHECK(rank >= 0 && rank < grid.devices());
  return {grid, rank % grid.tensor, rank / grid.tensor};
}

void ValidateGrid(const ModelConfig& model, const Parallelism& grid) {
  Validate(model.shape, grid);
  if (model.shape.vocab >= grid.tensor) return;
  throw InputError(InputError::Kind::kUsage, "model " + model.shape.name,
                   "its " + std::to_string(model.shape.vocab) +
                       " tokens of vocabulary cannot be divided over tensor parallelism " +
                       std::to_string(grid.tensor));
}

IndexRange LayersOf(const ModelSpec& model, const GridPlace& place) {
  IndexRange layers;
  for (std::int32_t stage = 0; stage < place.stage; ++stage) {
    layers.first += StageLayers(model, place.grid, stage);
  }
  layers.count = StageLayers(model, place.grid, place.stage);
  return layers;
}

IndexRange VocabularyOf(const ModelSpec& model, const GridPlace& place) {
  return Share(model.vocab, place.grid.tensor, place.tensor_rank);
}

ModelConfig ShareOf(const ModelConfig& model, const GridPlace& place) {
  ModelConfig share = model;
  const IndexRange layers = LayersOf(model.shape, place);
  const auto first = model.layer_windows.begin() + layers.first;
  share.layer_windows.assign(first, first + layers.count);
  share.shape.layers = static_cast<std::int32_t>(layers.count);
  share.shape.query_heads = model.shape.query_heads / place.grid.tensor;
  share.shape.kv_heads = KvHeadsPerRank(model.shape, place.grid);
  share.shape.intermediate = model.shape.intermediate / place.grid.tensor;
  share.shape.moe.expert_intermediate = model.shape.moe.expert_intermediate / place.grid.tensor;
  share.shape.moe.shared_intermediate = model.shape.moe.shared_intermediate / place.grid.tensor;
  return share;
}

TensorPlan ShareOf(const TensorPlan& plan, const ModelConfig& model, const GridPlace& place) {
  TensorPlan share;
  const IndexRange vocabulary = VocabularyOf(model.shape, place);
  if (place.first_stage()) {
    share.embedding = TakeRows(plan.embedding, {vocabulary});
    share.positions = plan.positions;
    share.project_in = plan.project_in;
  }
  const IndexRange layers = LayersOf(model.shape, place);
  for (std::int64_t i = 0; i < layers.count; ++i) {
    const LayerPlan& layer = plan.layers[static_cast<std::size_t>(layers.first + i)];
    share.layers.push_back(LayerShare(layer, model.shape, place));
  }
  if (!place.last_stage()) return share;
  share.final_norm = plan.final_norm;
  share.project_out = plan.project_out;
  if (!model.shape.tied_embeddings) {
    share.head = TakeRows(plan.head, {vocabulary});
  } else if (!place.first_stage()) {
    share.head = TakeRows(plan.embedding, {vocabulary});
  }
  return share;
}

}  // namespace twin::exec
