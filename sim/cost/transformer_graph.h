// The operations of one pipeline stage of a transformer, with their closed-form work and rates.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/operation_graph.h"
#include "sim/cost/roofline_config.h"

namespace twin::sim {

// Dense peak for operands of this type: the device's own unit, else the next wider one that it has.
double PeakFlops(const HardwareSpec& hardware, DType type);

// Work of one rank, T = tokens, d = hidden, h = heads x head size, all widths divided by `tensor`:
//   GEMMs       2 T k n flops; weights k n and activations T (k + n) read or written
//   norms       fused with the residual addition: 4 T d activations moved
//   prefill     4 h flops for each (query, key) pair; keys and values of each item read once
//   decode      4 h flops for each key; keys and values of the context read
//   all-reduce  ring of n ranks: 2 (n - 1) latencies, 2 (n - 1) / n of T d over the link
//   experts     weights of the touched ones; rows T x experts per token
//   LM head, final norm, sampling: emitting rows only
// The first stage embeds; the last one has the head and samples; the others send T d on, over the
// link, or between nodes where the stages' ranks lie on different ones.
// REQUIRES: Validate() accepts model, parallelism and hardware.
OperationGraph BuildStageGraph(const ModelSpec& model, const HardwareSpec& hardware,
                               const Parallelism& parallelism, std::int32_t stage,
                               const RooflineCostConfig& config);

}  // namespace twin::sim
