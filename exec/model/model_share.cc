#include "exec/model/model_share.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"

namespace twin::exec {
namespace {

// The share of `rank` if `count` things are divided as evenly as possible.
IndexRange Share(std::int64_t count, std::int32_t ranks, std::int32_t rank) {
  const std::int64_t first = count * rank / ranks;
  return {first, count * (rank + 1) / ranks - first};
}

IndexRange QueryHeads(const LayerSpec& model, const GridPlace& place) {
  return Share(model.query_heads, place.grid.tensor, place.tensor_rank);
}

IndexRange KvHeads(const LayerSpec& model, const GridPlace& place) {
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

// Compressed queries and the compressed vector are whole on every rank.
void ShareLatent(const LayerPlan& plan, const LayerSpec& model, const GridPlace& place,
                 LayerPlan& share) {
  const IndexRange heads = QueryHeads(model, place);
  const IndexRange queries = Scaled(heads, model.head_dim);
  if (plan.query_up.parts.empty()) {
    const std::int64_t width = std::int64_t{model.query_heads} * model.head_dim;
    share.qkv = TakeRows(plan.qkv, {queries, {width, plan.qkv.rows() - width}});
  } else {
    share.query_up = TakeRows(plan.query_up, {queries});
  }
  const auto first = plan.latent_heads.begin() + heads.first;
  share.latent_heads.assign(first, first + heads.count);
  share.output =
      TakeColumns(plan.output, Scaled(heads, model.value_width()), place.tensor_rank == 0);
}

// Key heads go with their value heads.
void ShareGatedDelta(const LayerPlan& plan, const RecurrentSpec& spec, const GridPlace& place,
                     LayerPlan& share) {
  const IndexRange key_heads = Share(spec.key_heads, place.grid.tensor, place.tensor_rank);
  const IndexRange heads = Share(spec.value_heads, place.grid.tensor, place.tensor_rank);
  const IndexRange keys = Scaled(key_heads, spec.key_dim);
  const IndexRange values = Scaled(heads, spec.value_dim);
  const std::int64_t key_width = std::int64_t{spec.key_heads} * spec.key_dim;
  const std::int64_t value_width = std::int64_t{spec.value_heads} * spec.value_dim;
  const auto from = [](std::int64_t first, const IndexRange& range) {
    return IndexRange{first + range.first, range.count};
  };
  const std::int64_t rates = 2 * (key_width + value_width);
  share.qkv = TakeRows(plan.qkv, {keys, from(key_width, keys), from(2 * key_width, values),
                                  from(2 * key_width + value_width, values), from(rates, heads),
                                  from(rates + spec.value_heads, heads)});
  const std::int64_t taps = spec.convolution;
  share.convolution.taken = {Scaled(keys, taps), Scaled(from(key_width, keys), taps),
                             Scaled(from(2 * key_width, values), taps)};
  share.decay.taken = share.decay_bias.taken = {heads};
  share.output = TakeColumns(plan.output, values, place.tensor_rank == 0);
}

void ShareHeads(const LayerPlan& plan, const LayerSpec& model, const GridPlace& place,
                LayerPlan& share) {
  const IndexRange queries = Scaled(QueryHeads(model, place), model.head_dim);
  const IndexRange keys = Scaled(KvHeads(model, place), model.head_dim);
  const std::int64_t gated = model.output_gate == OutputGate::kFull ? 2 : 1;
  const std::int64_t query_width = gated * model.query_heads * model.head_dim;
  const std::int64_t key_width = std::int64_t{model.kv_heads} * model.head_dim;
  share.qkv = TakeRows(plan.qkv, {Scaled(queries, gated),
                                  {query_width + keys.first, keys.count},
                                  {query_width + key_width + keys.first, keys.count}});
  share.output = TakeColumns(plan.output, queries, place.tensor_rank == 0);
  if (model.sinks) share.sinks.taken = {QueryHeads(model, place)};
  if (!model.full_qk_norm) return;
  share.query_norm.slice = queries;
  share.key_norm.slice = keys;
}

LayerPlan LayerShare(const LayerPlan& plan, const LayerSpec& model, const GridPlace& place) {
  LayerPlan share = plan;
  if (model.latent) {
    ShareLatent(plan, model, place, share);
  } else if (model.recurrent) {
    ShareGatedDelta(plan, *model.recurrent, place, share);
  } else {
    ShareHeads(plan, model, place, share);
  }
  const bool has_bias = place.tensor_rank == 0;
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

// Makes a layer one rank's share of it.
void Divide(const Parallelism& grid, LayerSpec& layer) {
  const std::int32_t kv_heads = KvHeadsPerRank(layer, grid);
  layer.query_heads /= grid.tensor;
  layer.kv_heads = kv_heads;
  layer.intermediate /= grid.tensor;
  layer.moe.expert_intermediate /= grid.tensor;
  layer.moe.shared_intermediate /= grid.tensor;
  if (layer.recurrent) {
    layer.recurrent->key_heads /= grid.tensor;
    layer.recurrent->value_heads /= grid.tensor;
  }
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
  if (!ListsLayers(model.shape)) {
    share.shape.layers = static_cast<std::int32_t>(layers.count);
    Divide(place.grid, share.shape);
    return share;
  }
  const std::vector<LayerSpec> all = LayerList(model.shape);
  std::vector<LayerSpec> own(all.begin() + layers.first, all.begin() + layers.first + layers.count);
  for (LayerSpec& layer : own) Divide(place.grid, layer);
  SetLayerList(own, share.shape);
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
  const std::vector<LayerSpec> specs = LayerList(model.shape);
  for (std::int64_t i = layers.first; i < layers.first + layers.count; ++i) {
    const auto layer = static_cast<std::size_t>(i);
    share.layers.push_back(LayerShare(plan.layers[layer], specs[layer], place));
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
