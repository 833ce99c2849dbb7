// One block of threads of a kernel, run on the calling thread: each of the block's threads is a
// fiber that leaves when it has to wait for others.
#pragma once

#include <vector_types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulation/fiber.h"

namespace twin::cuda_emulation {

constexpr unsigned kWarpSize = 32;
// At most so many blocks of a kernel start early: a few suffice to show an early access.
#if defined(__SANITIZE_THREAD__)
constexpr unsigned kEarlyBlocks = 1;  // it knows 8,000 stacks at most, and is slow with many
#else
constexpr unsigned kEarlyBlocks = 8;
#endif

// A line of device code that calls something collective.
struct CodePlace {
  const char* file = "";
  int line = 0;
  bool operator==(const CodePlace& other) const {
    // Mostly one and the same literal.
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
};

// What a kernel is launched with.
struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  // dynamic ones
};

struct Kernel {
  Grid grid;
  std::function<void()> body;  // of one thread
};

class Block;

// A thread of the block that runs now.
struct DeviceThread {
  uint3 index{};
  unsigned number = 0;  // within the block
  Block* block = nullptr;
  Fiber* fiber = nullptr;
  bool done = false;
};

// Where the calling fiber is; only within device code.
struct DevicePlace {
  const DeviceThread* thread = nullptr;
  uint3 block_index{};
  const Grid* grid = nullptr;
};
DevicePlace& CurrentPlace();

// Undefined behavior is refused: a barrier or a warp's exchange that not all threads reach, or that
// they reach in different lines. Start() and Finish() of a block are called on one thread.
class Block {
 public:
  // REQUIRES: `kernel` outlives the block.
  explicit Block(const Kernel& kernel);
  // Starts the threads of the block of that index. An `early` block runs in front of an earlier
  // kernel's end: its threads stop at AwaitEarlierKernels().
  void Start(uint3 index, bool descending, bool early);
  // Runs the rest. Empty if every thread ended; else what went wrong, one line.
  std::string Finish();
  // The block that runs on the calling thread. REQUIRES: called from device code.
  static Block& Current();

  // Waits until the kernels in front of this one have ended.
  void AwaitEarlierKernels();
  // Waits for all threads of the block.
  void Barrier(CodePlace place);
  // Gives `value` and waits for all lanes of `mask`; returns what each lane of the warp gave.
  const std::array<std::uint64_t, kWarpSize>& Exchange(unsigned mask, std::uint64_t value,
                                                       CodePlace place);

  // Memory that the threads of the block share; bytes 0xFF at its start. `key` names a variable.
  std::byte* Shared(const void* key, std::size_t bytes);
  std::byte* DynamicShared() { return dynamic_.get(); }

 private:
  struct Meeting {  // of some lanes of a warp
    unsigned mask = 0;
    unsigned arrived = 0;
    CodePlace place;
    std::uint64_t turn = 0;
    std::array<std::array<std::uint64_t, kWarpSize>, 2> values{};
    std::vector<unsigned> waiting;
  };
  struct Warp {
    unsigned ended = 0;              // lanes
    std::deque<Meeting> meetings{};  // kept from block to block
  };
  struct Variable {
    const void* key = nullptr;
    std::size_t bytes = 0;
    std::unique_ptr<std::byte[]> memory;
  };

  void RunReady();
  void Begin(unsigned thread);
  void GoOn(unsigned thread);
  void AfterLeaving();
  void MakeReady(std::vector<unsigned>& threads);
  unsigned TakeReady();
  void End(const DeviceThread& thread);
  void Wait();
  [[noreturn]] void Fail(const char* what, CodePlace place);
  DeviceThread& Self();

  const Kernel& kernel_;
  uint3 index_{};
  bool early_ = false;
  bool starting_ = false;  // not every thread has begun
  std::vector<DeviceThread> threads_;
  std::vector<Warp> warps_;
  std::vector<Variable> variables_;
  std::unique_ptr<std::byte[]> dynamic_;
  std::vector<unsigned> waiting_;  // at the barrier
  CodePlace barrier_;
  std::vector<unsigned> held_;   // at AwaitEarlierKernels()
  std::vector<unsigned> ready_;  // a ring with room for each thread
  std::size_t first_ready_ = 0;
  std::size_t ready_count_ = 0;
  unsigned ended_ = 0;
  std::string failure_;
};

// A run of a kernel: its blocks one after the other.
class GridRun {
 public:
  explicit GridRun(std::shared_ptr<const Kernel> kernel);
  // Runs the first blocks up to their wait for earlier kernels, as a device may while the kernel in
  // front of this one still runs.
  void StartEarly();
  // Runs the rest. Empty if every thread of every block ended; else what went wrong, one line.
  // REQUIRES: called on the thread that called StartEarly().
  std::string Finish();

 private:
  [[nodiscard]] uint3 IndexOf(std::uint64_t number) const;

  std::shared_ptr<const Kernel> kernel_;
  std::uint64_t blocks_;
  std::vector<std::unique_ptr<Block>> early_;  // the first ones
};

}  // namespace twin::cuda_emulation
