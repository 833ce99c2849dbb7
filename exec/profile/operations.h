// The operations of a model, one by one: for measuring how long each takes.
#pragma once

#include <cstdint>
#include <span>

#include "exec/profile/step_item.h"

namespace twin::exec {

// Seconds of each matrix product, all layers together. Of mixtures of experts, `up` and `down` are
// those of the shared expert, and the others those of all experts that the tokens choose.
struct GemmSeconds {
  double qkv = 0;
  double output = 0;
  double up = 0;
  double down = 0;
  double router = 0;  // that of the shared expert's gate, too
  double expert_up = 0;
  double expert_down = 0;

  [[nodiscard]] double sum() const {
    return qkv + output + up + down + router + expert_up + expert_down;
  }
};

// Seconds of everything else that is done token by token, all layers together.
struct OtherSeconds {
  double norms = 0;
  double rope = 0;    // on devices that turn, write and normalise heads in one pass: all of that
  double append = 0;  // of keys and values to the cache; zero where it is part of `rope`
  double activation = 0;
  double embedding = 0;
  double routing = 0;  // of mixtures: choosing experts, gathering their rows, adding their results

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
  // Within the cache. REQUIRES: it has twice as many blocks.
  virtual double RunBlockCopies(std::int64_t blocks) = 0;
};

}  // namespace twin::exec
