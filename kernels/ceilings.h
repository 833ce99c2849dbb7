// Loops that run at the machine's limits of arithmetic and memory bandwidth, to measure them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/thread_pool.h"

namespace twin::kernels {

// Executes independent fp32 multiply-adds in the registers of every thread, `rounds` times. Returns
// the number of floating-point operations of all threads, two per multiply-add.
std::int64_t RunMultiplyAdds(ThreadPool& pool, std::int64_t rounds);

// Reads `memory` once, divided among all threads.
void ReadMemory(ThreadPool& pool, std::span<const float> memory);

}  // namespace twin::kernels
