// Captured steps of decodes, one for each batch size that decodes are padded to.
#pragma once

#include <cstdint>
#include <map>

#include "core/step_parts.h"
#include "exec/cuda/step_clock.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// Of replayed steps, one in so many is measured operation by operation.
constexpr std::int32_t kDetailInterval = 64;

// The same work twice: with moments between its operations, and without, which is faster.
struct DecodeGraph {
  Graph plain;
  Graph detailed;
  LapEvents laps{LapEvents::Kind::kInGraph};  // of `detailed`
  StepParts shares;                           // where the time of the last detailed replay went
  std::int32_t until_detailed = 0;            // plain replays before the next detailed one
  bool laps_in_use = false;                   // a detailed replay has not been read

  // Chooses which one to replay next; a detailed one is read by ReadLaps behind it.
  bool NextIsDetailed();
  // REQUIRES: the detailed replay has ended.
  void ReadLaps();
};

using DecodeGraphs = std::map<std::int64_t, DecodeGraph>;  // by batch size

}  // namespace twin::exec::cuda
