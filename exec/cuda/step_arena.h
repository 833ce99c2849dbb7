// The small inputs of a step (token ids, positions, the plan of its attention, page lists, ...),
// sent with one copy.
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

// Sizes that determine the layout of the arrays. All steps of one shape have their arrays at the
// same addresses, as graph replay requires. Only the length of the page list, which comes last, may
// vary.
struct StepShape {
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t logit_rows = 0;
  std::int64_t plan_bytes = 0;  // of PagedAttention

  bool operator==(const StepShape&) const = default;
};

// Arrays of one step, in host or in device memory.
struct StepArrays {
  std::int32_t* token_ids = nullptr;                // [rows]; -1 - i = sampled token i of the ring
  std::int32_t* positions = nullptr;                // [rows]
  std::int32_t* slots = nullptr;                    // [rows]; -1 = not written to the cache
  std::int32_t* first_query = nullptr;              // [sequences + 1]
  std::int32_t* kv_lengths = nullptr;               // [sequences]
  std::int32_t* page_begin = nullptr;               // [sequences + 1]
  std::int32_t* last_page_tokens = nullptr;         // [sequences]
  std::int32_t* logit_rows = nullptr;               // [logit rows]
  std::int32_t* first_sampled = nullptr;            // [1]; index in the ring of this step's tokens
  kernels::SamplingParameters* sampling = nullptr;  // [logit rows]
  std::byte* plan = nullptr;                        // [plan_bytes]
  std::int32_t* page_indices = nullptr;             // [pages]

  [[nodiscard]] kernels::cuda::AttentionArrays attention() const {
    return {first_query, kv_lengths, page_begin, page_indices, last_page_tokens};
  }
};

// Pointers to the arrays of a shape in the memory at `base`, each aligned to 16 bytes.
StepArrays ArraysAt(std::byte* base, const StepShape& shape);
// Size of the arrays with `pages` entries in the page list.
std::int64_t ArenaBytes(const StepShape& shape, std::int64_t pages);

// Steps that may be launched and not collected.
constexpr std::size_t kStepsInFlightMax = 8;

// The arrays of one step on both sides.
struct StepMemory {
  StepArrays host;
  StepArrays device;
};

// One arena on the device and kTurns pinned arenas on the host, which are used in turn, so that the
// host can build a step while the copy of the previous one is in flight.
class StepArena {
 public:
  static constexpr std::size_t kTurns = kStepsInFlightMax;

  StepArena() = default;

  // Makes room for steps of `bytes` bytes. If it has to grow, it waits for the stream and returns
  // true; graphs captured before are then invalid. Throws DeviceError.
  bool Reserve(StreamView stream, std::int64_t bytes);
  // Returns the arrays of the next step, to be written on the host. Waits until the copy of the
  // step kTurns earlier has finished. Sets `moved` to true if Reserve() had to grow.
  StepMemory Next(StreamView stream, const StepShape& shape, std::int64_t pages, bool& moved);
  // Copies the arrays of the last Next() to the device. Kernels enqueued later on the stream may
  // read them.
  void Send(StreamView stream);

 private:
  struct Turn {
    PinnedBuffer buffer;
    Event sent{Event::Kind::kOrder};
  };

  DeviceBuffer device_;
  std::array<Turn, kTurns> turns_;
  std::size_t turn_ = 0;
  std::int64_t bytes_ = 0;  // of the step of the last Next()
};

}  // namespace twin::exec::cuda
