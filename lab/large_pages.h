// Memory in pages of 2 MiB, for runs that visit much memory in no order.
#pragma once

#include <cstddef>

namespace twin::lab {

// Lets the heap of this process take its next `bytes` bytes, at most 2 GiB, in large pages, where
// the C library is glibc and the system grants them; returns whether it asked for them. The heap
// keeps what is freed from then on, for the rest of the process: for programs that make one run.
//
// Why: a thousand replicas have hundreds of MiB, and every step visits those of another one. With
// pages of 4 KiB nearly every visit first has to look its page up.
bool UseLargePages(std::size_t bytes);

}  // namespace twin::lab
