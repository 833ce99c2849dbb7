// The time of a step whose attention and feed-forward networks (FFN) run on different devices.
//
// Idea: attention-FFN disaggregation (MegaScale-Infer, arXiv 2504.02263; Step-3, arXiv 2507.19427).
// A step is cut into micro-batches, so that the attention devices compute one while the FFN devices
// compute another. A micro-batch passes four resources in each layer: attention, the links out, the
// FFN, the links back. Each serves one micro-batch at a time, layer by layer, and within a layer in
// the order of the micro-batches. With pooled FFN devices that is the order in which they come.
//
// Easy to get wrong: a link is busy for the time of its bytes but not for its latency, so a long
// way delays a micro-batch without slowing the others. Micro-batches beyond FillingMicroBatches()
// gain nothing: the slowest resource is then always busy.
#pragma once

#include <cstdint>
#include <span>

#include "core/time.h"

namespace twin::sim {

enum class FfnPoolPlacement : std::uint8_t {
  kPooled,    // all FFN devices serve every layer
  kPerLayer,  // each layer has FFN devices of its own
};

// Times, >= 0, for which one micro-batch occupies the resources in one layer.
struct FfnPoolLayer {
  Duration attention{0};
  Duration send{0};  // from attention to FFN
  Duration ffn{0};
  Duration back{0};

  bool operator==(const FfnPoolLayer&) const = default;
};

struct FfnPoolPipe {
  std::int32_t micro_batches = 1;  // >= 1
  Duration latency{0};             // of the links, each way
  FfnPoolPlacement placement = FfnPoolPlacement::kPooled;
};

// Time of a micro-batch that waits for no other to pass one layer.
Duration AloneTime(const FfnPoolLayer& layer, Duration latency);
// Time of the slowest resource.
Duration SlowestTime(const FfnPoolLayer& layer);
// The fewest micro-batches, at least 1, that keep the slowest resource of a long pooled pipe busy.
// Source: MegaScale-Infer, section 4.1, for any resource.
std::int32_t FillingMicroBatches(const FfnPoolLayer& layer, Duration latency);

// Time until the last micro-batch has passed all layers, by the recurrence over layers and
// micro-batches. Any layers and placement; layers.size() x micro_batches steps. Allocates nothing
// for up to 64 micro-batches.
Duration FfnPoolTime(std::span<const FfnPoolLayer> layers, const FfnPoolPipe& pipe);

// As FfnPoolTime() of `layers` equal layers, in closed form where it is exact: pooled FFN devices,
// or FFN devices per layer that are not slower than the slowest of the other resources. With alone
// time s and slowest time b (per layer: without the FFN), (layers - 1) max(m b, s) + s + (m - 1) b.
// Elsewhere by the recurrence.
Duration FfnPoolTimeOfEqual(const FfnPoolLayer& layer, std::int32_t layers,
                            const FfnPoolPipe& pipe);

struct FfnPoolBounds {
  Duration least{0};
  Duration most{0};
};

// Bounds on FfnPoolTime() of equal layers with FFN devices per layer. REQUIRES: the FFN is not
// faster than the slowest of the other resources.
FfnPoolBounds PerLayerBounds(const FfnPoolLayer& layer, std::int32_t layers,
                             const FfnPoolPipe& pipe);

}  // namespace twin::sim
