// The operations of one pipeline stage of a transformer, with their closed-form work and rates.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/operation_graph.h"
#include "sim/cost/roofline_config.h"

namespace twin::sim {

// Dense peak flops per second for operands of this type, or of the next wider type that the device
// has units for.
double PeakFlops(const HardwareSpec& hardware, DType type);

// Work of one rank, T = tokens, d = hidden, h = heads x head size, all widths divided by `tensor`:
//   GEMMs       2 T k n flops; weights k n and activations T (k + n) read or written
//   norms       fused with the residual addition: 4 T d activations moved
//   prefill     4 h flops for each (query, key) pair; keys and values of each item read once
//   decode      4 h flops for each key; keys and values of the context read
//   all-reduce  ring of n ranks: 2 (n - 1) latencies, 2 (n - 1) / n of T d over the link
//   experts     weights of touched experts; rows T x experts per token
//   LM head, final norm, sampling: emitting rows only
// The first stage embeds. The last stage has the LM head and samples. The other stages send T d to
// the next stage, over the link or, if its ranks are on another node, over the network. REQUIRES:
// Validate() accepts model, parallelism and hardware.
OperationGraph BuildStageGraph(const ModelSpec& model, const HardwareSpec& hardware,
                               const Parallelism& parallelism, std::int32_t stage,
                               const RooflineCostConfig& config);

}  // namespace twin::sim
