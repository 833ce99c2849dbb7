// Tiles of tensor cores and asynchronous copies, in the emulation; stands in for
// kernels/cuda/warp_mma.cuh. A copy arrives when it is awaited, not before.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "tests/cuda_emulation/block.h"

namespace twin::kernels::cuda {

namespace emulated {

using ::twin::cuda_emulation::Block;
using ::twin::cuda_emulation::CodePlace;
using ::twin::cuda_emulation::CurrentPlace;
using ::twin::cuda_emulation::kWarpSize;

struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: zeros
};

// Of one thread of a block.
struct Copies {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

inline Copies& CopiesOfThread() {
  static thread_local std::unordered_map<unsigned, Copies> copies;
  return copies[CurrentPlace().thread->number];
}

constexpr std::size_t kCopyBytes = 16;

inline unsigned Lane() { return CurrentPlace().thread->number % kWarpSize; }

// The two elements of a register.
inline std::array<float, 2> Elements(unsigned bits) {
  const auto element = [](unsigned number) {
    return static_cast<float>(std::bit_cast<__nv_bfloat16>(static_cast<std::uint16_t>(number)));
  };
  return {element(bits), element(bits >> 16U)};
}

}  // namespace emulated

inline void LoadMatrices(const void* row, unsigned (&registers)[4]) {
  using emulated::kWarpSize;
  const auto& rows = emulated::Block::Current().Exchange(~0U, reinterpret_cast<std::uint64_t>(row),
                                                         emulated::CodePlace{__FILE__, __LINE__});
  const unsigned lane = emulated::Lane();
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto* from = reinterpret_cast<const std::byte*>(rows[matrix * 8 + lane / 4]);
    std::memcpy(&registers[matrix], from + std::size_t{lane % 4} * sizeof(unsigned),
                sizeof(unsigned));
  }
}

inline void MultiplyTiles(const unsigned (&a)[4], unsigned b_low, unsigned b_high, float (&c)[4]) {
  const auto both = [](unsigned low, unsigned high) {
    return std::uint64_t{low} | std::uint64_t{high} << 32U;
  };
  emulated::Block& block = emulated::Block::Current();
  // Copies: the next exchange but one overwrites what an exchange returned.
  const auto left = block.Exchange(~0U, both(a[0], a[2]), emulated::CodePlace{__FILE__, __LINE__});
  const auto right = block.Exchange(~0U, both(a[1], a[3]), emulated::CodePlace{__FILE__, __LINE__});
  const auto b = block.Exchange(~0U, both(b_low, b_high), emulated::CodePlace{__FILE__, __LINE__});
  const unsigned lane = emulated::Lane();
  for (unsigned i = 0; i < 4; ++i) {
    const auto& rows = i < 2 ? left : right;
    const unsigned row = lane / 4;
    const unsigned column = 2 * (lane % 4) + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned half = k / 8 * 32;  // of what a lane gave
      const unsigned pair = k % 8 / 2;
      const auto x = emulated::Elements(static_cast<unsigned>(rows[row * 4 + pair] >> half));
      const auto w = emulated::Elements(static_cast<unsigned>(b[column * 4 + pair] >> half));
      c[i] += x[k % 2] * w[k % 2];
    }
  }
}

inline void StartCopy(void* to, const void* from, bool exists) {
  emulated::CopiesOfThread().open.push_back(
      {static_cast<std::byte*>(to), exists ? static_cast<const std::byte*>(from) : nullptr});
}

inline void EndCopyGroup() {
  emulated::Copies& copies = emulated::CopiesOfThread();
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}

template <int kGroups>
void AwaitCopies() {
  emulated::Copies& copies = emulated::CopiesOfThread();
  while (copies.groups.size() > kGroups) {
    for (const emulated::Copy& copy : copies.groups.front()) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, emulated::kCopyBytes);
      } else {
        std::memcpy(copy.to, copy.from, emulated::kCopyBytes);
      }
    }
    copies.groups.pop_front();
  }
}

}  // namespace twin::kernels::cuda
