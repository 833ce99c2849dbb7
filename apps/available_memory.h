// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace twin::apps {

// Bytes that the machine can give without swapping, or fewer where the process's control group has
// less left. Throws std::system_error if the system does not tell.
std::int64_t AvailableMemory();

}  // namespace twin::apps
