// The table of the kernels' inner loops; each instruction set has one. Private to this layer.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/gumbel.h"
#include "kernels/instruction_set.h"

namespace twin::kernels {

constexpr std::int64_t kPanelColumns = 32;  // outputs per panel, equal to WeightView::kPanelRows
constexpr std::int64_t kDepthBlock = 192;   // words of a row of x summed in one accumulator
constexpr std::int64_t kHeadDimMax = 1024;
constexpr std::int64_t kTileStride = 272;  // from one row of a tile's x to the next; not a power
                                           // of two, so that rows fall into different cache sets

// The operands of a microkernel: y[r][c] += sum over k < depth of x[r * kTileStride + k] * w[k][c],
// for r < rows and c < 32. The sum starts from zero and is computed in ascending k before it is
// added to y. k counts words of 32 bits: fp32 numbers, or pairs of bf16.
struct Tile {
  std::int64_t rows;
  const void* x;
  std::int64_t depth;
  float* y;
  std::int64_t y_stride;
  // Memory to prefetch into the cache meanwhile: from `ahead` on, ahead_step bytes for each k.
  const void* ahead;
  std::int64_t ahead_step;
};

// 4-bit weights of a panel, from a column on (see WeightView).
struct Int4Block {
  const std::uint8_t* weights;  // beginning with that column
  const float* scales;          // [group][32], of the panel
  const std::uint8_t* zeros;    // [group][32], of the panel
  std::int64_t first;           // the column, even
  std::int64_t group;           // columns, even
};

// One row of an online softmax, restricted to one chunk of scores.
struct SoftmaxChunk {
  float* scores;            // [width]; replaced by weights, which are zero outside begin..end - 1
  std::int64_t width;       // a multiple of 16
  std::int64_t begin, end;  // visible scores; not empty
  float cap;                // cap of the scores (AttentionOptions::logit_cap); 0: no cap
  float* maximum;           // running maximum, initially -infinity
  float* sum;               // running sum of weights
};

// One token of the gated delta rule in one head: state = decay * state, then state += key (rate *
// (value - state^T key))^T, and out = state^T query.
struct DeltaStep {
  std::int64_t key_dim, value_dim;
  float* state;  // [key_dim][value_dim]
  const float* query;
  const float* key;
  const float* value;
  float decay, rate;
  float* out;
};

// The loops process one row, one tile or one chunk at a time. `size` may be any number from 0.
struct VectorKernels {
  std::int64_t tile_rows;  // the largest number of rows of a tile
  void (*fp32_tile)(const Tile& tile, const float* panel);
  void (*bf16_tile)(const Tile& tile, const std::uint16_t* panel);
  void (*int8_tile)(const Tile& tile, const std::int8_t* panel, const std::uint16_t* scales);
  void (*int4_tile)(const Tile& tile, const Int4Block& block);
  // If not null, replaces bf16_tile: words of x and of the panel are pairs of bf16, and the product
  // of two words is the sum of two products.
  void (*bf16_pairs_tile)(const Tile& tile, const std::uint16_t* panel);
  // out[depth][32] = the panel's weights in fp32.
  void (*widen_bf16_panel)(const std::uint16_t* panel, std::int64_t depth, float* out);
  void (*widen_int8_panel)(const std::int8_t* panel, const std::uint16_t* scales,
                           std::int64_t depth, float* out);
  void (*widen_int4_panel)(const Int4Block& block, std::int64_t depth, float* out);

  void (*rms_norm)(const float* x, const float* gain, float epsilon, std::int64_t size, float* y);
  void (*layer_norm)(const float* x, const float* gain, const float* bias, float epsilon,
                     std::int64_t size, float* y);
  void (*add)(const float* x, std::int64_t size, float* y);
  void (*scale)(float factor, std::int64_t size, float* y);
  void (*soft_cap)(float cap, std::int64_t size, float* y);
  // Rotates pairs (i, i + pairs), or pairs of neighbours (2 i, 2 i + 1), of a head.
  void (*rotate)(const float* cosines, const float* sines, std::int64_t pairs, float* head);
  void (*rotate_neighbours)(const float* cosines, const float* sines, std::int64_t pairs,
                            float* head);
  // y = activation(gate) * up; if `up` is null, y = activation(gate).
  void (*activate)(Activation activation, const float* gate, const float* up, std::int64_t size,
                   float* y);

  float (*sum_of_squares)(const float* x, std::int64_t size);
  // x *= factor * gain.
  void (*scale_by_gain)(float factor, const float* gain, std::int64_t size, float* x);
  // y *= sigmoid(gate).
  void (*gate_by_sigmoid)(const float* gate, std::int64_t size, float* y);
  // See ActivateClamped (activation.h).
  void (*clamped_gate)(float limit, const float* gate, const float* up, std::int64_t size,
                       float* y);
  // y[i] = silu(sum over tap < tap_count of taps[tap * tap_stride + i] * rows[tap][i]); y may be a
  // row.
  void (*convolve)(const float* const* rows, const float* taps, std::int64_t tap_count,
                   std::int64_t tap_stride, std::int64_t size, float* y);
  void (*delta_step)(const DeltaStep& step);

  void (*narrow_to_bf16)(const float* x, std::int64_t size, std::uint16_t* y);
  // Packs keys as out[panel][dim][32]: key i, with dim elements at keys[i], becomes column i % 32
  // of panel i / 32. `keys` holds 32 pointers per panel.
  void (*pack_keys)(const void* const* keys, bool bf16, std::int64_t panels, std::int64_t dim,
                    float* out);
  // Packs values as out[panel][count][32]: element d of the value at values[i] becomes
  // [d / 32][i][d % 32]. Columns from dim on are zero.
  void (*pack_values)(const void* const* values, bool bf16, std::int64_t count, std::int64_t dim,
                      float* out);
  // Replaces scores by exp(score - new maximum), and updates maximum and sum. Returns the factor by
  // which the caller must multiply its earlier weighted sums.
  float (*softmax_chunk)(const SoftmaxChunk& chunk);

  // The index of the candidate with the largest GumbelScore, and with the lowest token among
  // equals; -1 if size is 0. If `tokens` is null, the indices are the tokens. The result is the
  // same for every instruction set.
  std::int64_t (*gumbel_choice)(const GumbelRow& row, const float* logits,
                                const std::int32_t* tokens, std::int64_t size);
  // The sum of WeightOf over the logits. The same for every instruction set.
  std::uint64_t (*sum_of_weights)(const float* logits, std::int64_t size, float largest,
                                  float sharpness);

  // The lowest logit whose WeightOf is at least `enough` <= kLargestWeight. REQUIRES: `largest` is
  // the largest logit. The same for every instruction set.
  float (*lowest_of_weight)(const float* logits, std::int64_t size, float largest, float sharpness,
                            std::uint64_t enough);

  // The loops of ceilings.h. Their results only keep the compiler from removing the work.
  float (*multiply_adds)(std::int64_t rounds, std::int64_t* operations);
  float (*read_through)(const float* p, std::int64_t size);
};

// The kernels of an instruction set. REQUIRES: this build has code for it.
const VectorKernels& KernelsFor(InstructionSet set);

extern const VectorKernels kPortableKernels;
#ifdef __x86_64__
extern const VectorKernels kAvx2Kernels;
extern const VectorKernels kAvx512Kernels;
extern const VectorKernels kAvx512Bf16Kernels;
#endif

}  // namespace twin::kernels
