// The share of a model that one rank of a grid holds and computes.
#pragma once

#include <cstdint>

#include "core/model_spec.h"
#include "exec/model/model_config.h"
#include "exec/model/tensor_plan.h"

namespace twin::exec {

// A rank's place in a grid. Each stage has grid.tensor ranks: rank = stage * tensor + tensor_rank.
struct GridPlace {
  Parallelism grid;
  std::int32_t tensor_rank = 0;
  std::int32_t stage = 0;

  [[nodiscard]] bool first_stage() const { return stage == 0; }
  [[nodiscard]] bool last_stage() const { return stage == grid.pipeline - 1; }
};

// REQUIRES: 0 <= rank < grid.devices().
GridPlace PlaceOf(const Parallelism& grid, std::int32_t rank);

// Throws InputError (usage) if the model cannot be divided by the grid: core's Validate() refuses
// it, or a rank has no row of the vocabulary.
void ValidateGrid(const ModelConfig& model, const Parallelism& grid);

// The layers of the place's stage, and the rows of embedding and head of its rank, whose number may
// differ by one between ranks.
IndexRange LayersOf(const ModelSpec& model, const GridPlace& place);
IndexRange VocabularyOf(const ModelSpec& model, const GridPlace& place);

// The part of the model that the rank computes: its layers, heads and MLP width. The vocabulary
// stays whole. REQUIRES: ValidateGrid accepts the grid.
ModelConfig ShareOf(const ModelConfig& model, const GridPlace& place);

// The rank's part of the model's tensors:
//
//   queries, keys, values    the rows of its heads; a KV head goes to several ranks where there are
//                            fewer heads than ranks
//   output, down             the columns of its heads and of its share of the MLP; products are to
//                            be summed over the ranks of the stage, the first of which has the bias
//   gate, up                 the rows of its share; of a mixture, the same of every expert
//   embedding, head          rows; the first stage embeds, the last one has the head. A tied
//                            embedding is the head of a last stage that is not the first as well
//   Gated DeltaNet           the rows, channels and numbers of its key heads and of their value
//   heads latent attention         the rows and matrices of its heads; compressed queries and the
//   compressed
//                            vector are whole on every rank
//   norms, positions, routers, projections of the embedding: whole, where they are used
//
// Sources: Shoeybi et al., 2019, arXiv:1909.08053 (columns and rows); Huang et al., 2018,
// arXiv:1811.06965 (stages).
TensorPlan ShareOf(const TensorPlan& plan, const ModelConfig& model, const GridPlace& place);

}  // namespace twin::exec
