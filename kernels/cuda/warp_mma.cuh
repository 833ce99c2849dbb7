// Products of small tiles on tensor cores, and the loads that feed them. In all functions, all
// lanes of a warp take part.
#pragma once

#include <cstdint>

namespace twin::kernels::cuda {

// Four matrices of 8 x 8 elements of 16 bits: lane 8 * i + j gives the place of row j of matrix i,
// in shared memory and aligned to 16 bytes. Lane l gets the elements 2 * (l % 4) and the next one
// of row l / 4 of each.
__device__ __forceinline__ void LoadMatrices(const void* row, unsigned (&registers)[4]) {
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(place)
               : "memory");
}

// c += a * b: a is 16 x 16, b is 16 x 8, both bf16; c is 16 x 8. a consists of the matrices (rows
// 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15), and b, transposed, of its rows 0-7 and
// 8-15, as LoadMatrices() loads them. Lane l has the elements 2 * (l % 4) and the next one of the
// rows l / 4 and l / 4 + 8 of c.
__device__ __forceinline__ void MultiplyTiles(const unsigned (&a)[4], unsigned b_low,
                                              unsigned b_high, float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

// Starts a copy of 16 bytes from global to shared memory; zeros where `exists` is false.
__device__ __forceinline__ void StartCopy(void* to, const void* from, bool exists) {
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}

// Ends a group of copies, which may be empty.
__device__ __forceinline__ void EndCopyGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but the last kGroups groups of the calling thread have arrived.
template <int kGroups>
__device__ __forceinline__ void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace twin::kernels::cuda
