#include "exec/cuda/step_arena.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace twin::exec::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;

// Assigns consecutive places in an arena.
class Places {
 public:
  explicit Places(std::byte* base) : base_(base) {}

  template <class T>
  void Take(std::int64_t count, T*& array) {
    static_assert(alignof(T) <= kAlignment);
    array = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += count * static_cast<std::int64_t>(sizeof(T));
    bytes_ = (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::int64_t bytes_ = 0;
};

std::int64_t Assign(std::byte* base, const StepShape& shape, std::int64_t pages,
                    StepArrays& arrays) {
  Places places(base);
  places.Take(shape.rows, arrays.token_ids);
  places.Take(shape.rows, arrays.positions);
  places.Take(shape.rows, arrays.slots);
  places.Take(shape.sequences + 1, arrays.first_query);
  places.Take(shape.sequences, arrays.kv_lengths);
  places.Take(shape.sequences + 1, arrays.page_begin);
  places.Take(shape.sequences, arrays.last_page_tokens);
  places.Take(shape.logit_rows, arrays.logit_rows);
  places.Take(1, arrays.first_sampled);
  places.Take(shape.logit_rows, arrays.sampling);
  places.Take(shape.plan_bytes, arrays.plan);
  places.Take(pages, arrays.page_indices);
  return places.bytes();
}

}  // namespace

StepArrays ArraysAt(std::byte* base, const StepShape& shape) {
  StepArrays arrays;
  Assign(base, shape, 0, arrays);
  return arrays;
}

std::int64_t ArenaBytes(const StepShape& shape, std::int64_t pages) {
  StepArrays unused;
  return Assign(nullptr, shape, pages, unused);
}

bool StepArena::Reserve(StreamView stream, std::int64_t bytes) {
  if (bytes <= device_.bytes()) return false;
  AwaitStream(stream, "work on the device");
  const std::int64_t grown = std::max(bytes, 2 * device_.bytes());
  device_ = DeviceBuffer(grown, "device memory for steps' inputs");
  for (Turn& turn : turns_) turn.buffer = PinnedBuffer(grown, "pinned memory for steps' inputs");
  return true;
}

StepMemory StepArena::Next(StreamView stream, const StepShape& shape, std::int64_t pages,
                           bool& moved) {
  bytes_ = ArenaBytes(shape, pages);
  if (Reserve(stream, bytes_)) moved = true;
  turn_ = (turn_ + 1) % kTurns;
  turns_[turn_].sent.Await("the copy of the inputs of an earlier step");
  return {ArraysAt(turns_[turn_].buffer.data(), shape), ArraysAt(device_.data(), shape)};
}

void StepArena::Send(StreamView stream) {
  const Turn& turn = turns_[turn_];
  CheckCuda(cudaMemcpyAsync(device_.data(), turn.buffer.data(), static_cast<std::size_t>(bytes_),
                            cudaMemcpyHostToDevice, stream.get()),
            "the copy of a step's inputs");
  turn.sent.Record(stream);
}

}  // namespace twin::exec::cuda
