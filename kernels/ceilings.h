// Work that runs at the machine's limits and does nothing else, for measuring those limits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/thread_pool.h"

namespace twin::kernels {

// Independent fp32 multiply-adds in the registers of every thread, `rounds` times over; returns the
// floating-point operations that all threads did, two for each multiply-add.
std::int64_t RunMultiplyAdds(ThreadPool& pool, std::int64_t rounds);

// Reads the whole memory once, all threads together.
void ReadMemory(ThreadPool& pool, std::span<const float> memory);

}  // namespace twin::kernels
