// What a step's kernels read besides weights and cache: small arrays, sent with one copy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/device_memory.h"
#include "exec/cuda/stream.h"
#include "kernels/cuda/attention.h"
#include "kernels/sampling.h"

namespace twin::exec::cuda {

// Sizes that decide where arrays lie. Steps of one shape have all arrays at the same places, but
// that the list of pages, which comes last, may be of any length: captured graphs find them again.
struct StepShape {
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t logit_rows = 0;

  bool operator==(const StepShape&) const = default;
};

// Arrays of one step, in host or in device memory.
struct StepArrays {
  std::int32_t* token_ids = nullptr;                // [rows]; -1 - i: sampled token i of the ring
  std::int32_t* positions = nullptr;                // [rows]
  std::int32_t* slots = nullptr;                    // [rows]; -1: nowhere
  std::int32_t* first_query = nullptr;              // [sequences + 1]
  std::int32_t* kv_lengths = nullptr;               // [sequences]
  std::int32_t* page_begin = nullptr;               // [sequences + 1]
  std::int32_t* last_page_tokens = nullptr;         // [sequences]
  std::int32_t* logit_rows = nullptr;               // [logit rows]
  std::int32_t* first_sampled = nullptr;            // [1]: where in the ring this step's tokens go
  kernels::SamplingParameters* sampling = nullptr;  // [logit rows]
  std::int32_t* page_indices = nullptr;             // [pages]

  [[nodiscard]] kernels::cuda::AttentionArrays attention() const {
    return {first_query, kv_lengths, page_begin, page_indices, last_page_tokens};
  }
};

// The arrays of a shape behind `base`, each aligned to 16 bytes.
StepArrays ArraysAt(std::byte* base, const StepShape& shape);
// Bytes up to and with `pages` entries of the list of pages.
std::int64_t ArenaBytes(const StepShape& shape, std::int64_t pages);

// One arena on the device, and pinned ones on the host that are written in turn, so that a step can
// be put together while those before it are on their way.
class StepArena {
 public:
  static constexpr std::size_t kTurns = 2;

  explicit StepArena(std::int64_t bytes);

  // Host arrays for the next step: waits until the copy of the step kTurns before has been made.
  // Grows where the step needs more, which waits for the stream and moves the device's arena: then
  // `moved` becomes true, and graphs captured before are stale.
  StepArrays Next(StreamView stream, const StepShape& shape, std::int64_t pages, bool& moved);
  // Sends what Next() gave out. The arrays that kernels behind it in the stream read.
  StepArrays Send(StreamView stream);

 private:
  struct Turn {
    PinnedBuffer buffer;
    Event sent{Event::Kind::kOrder};
  };

  void Grow(StreamView stream, std::int64_t bytes);

  DeviceBuffer device_;
  std::array<Turn, kTurns> turns_;
  std::size_t turn_ = 0;
  StepShape shape_;
  std::int64_t bytes_ = 0;  // of the step given out
};

}  // namespace twin::exec::cuda
