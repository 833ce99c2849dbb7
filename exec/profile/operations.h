// Interface that runs the operations of a model one by one and measures their times.
#pragma once

#include <cstdint>
#include <span>

#include "exec/profile/step_item.h"

namespace twin::exec {

// Seconds of each matrix product, all layers together. In mixtures of experts, `up` and `down` are
// the products of the shared expert, and `expert_up` and `expert_down` are the products of all
// experts that the tokens choose.
struct GemmSeconds {
  double qkv = 0;
  double output = 0;
  double up = 0;
  double down = 0;
  double router = 0;  // includes the shared expert's gate
  double expert_up = 0;
  double expert_down = 0;

  [[nodiscard]] double sum() const {
    return qkv + output + up + down + router + expert_up + expert_down;
  }
};

// Seconds of all other operations on single tokens, all layers together.
struct OtherSeconds {
  double norms = 0;
  double rope = 0;    // on devices that rotate, append and normalise heads in one pass: that pass
  double append = 0;  // of keys and values to the cache; zero if part of `rope`
  double activation = 0;
  double embedding = 0;
  double routing = 0;  // in mixtures: choosing experts, gathering their rows, adding their results

  [[nodiscard]] double sum() const {
    return norms + rope + append + activation + embedding + routing;
  }
};

// Each call runs an operation once for every layer, in the order of a step, so that weights and KV
// cache are as cold in the processor's caches as in a step. Activations are random.
class Operations {
 public:
  virtual ~Operations() = default;

  virtual GemmSeconds RunGemms(std::int64_t tokens) = 0;
  virtual double RunHead(std::int64_t rows) = 0;
  virtual OtherSeconds RunOther(std::int64_t tokens) = 0;
  // REQUIRES: the cache has blocks for all items.
  virtual double RunAttention(std::span<const StepItem> items) = 0;
  // Copies blocks within the cache. REQUIRES: the cache has twice as many blocks.
  virtual double RunBlockCopies(std::int64_t blocks) = 0;
};

}  // namespace twin::exec
