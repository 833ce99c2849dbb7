// Captured graphs of decode steps, one per decode bucket.
#pragma once

#include <cstdint>
#include <map>

#include "core/step_parts.h"
#include "exec/cuda/step_clock.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// Every kDetailInterval-th replay is timed operation by operation.
constexpr std::int32_t kDetailInterval = 64;

// A step captured twice: `detailed` with events between its operations, `plain` without them.
// `plain` is faster.
struct DecodeGraph {
  Graph plain;
  Graph detailed;
  LapEvents laps{LapEvents::Kind::kInGraph};  // of `detailed`
  StepParts shares;                           // parts of the time of the last detailed replay
  DetailTurns turns{kDetailInterval};
  bool laps_in_use = false;  // a detailed replay has not been read yet

  // Chooses and counts the next replay: true for `detailed`. ReadLaps() must follow when it has
  // ended.
  bool NextIsDetailed();
  // REQUIRES: the detailed replay has ended.
  void ReadLaps();
};

using DecodeGraphs = std::map<std::int64_t, DecodeGraph>;  // by batch size

}  // namespace twin::exec::cuda
