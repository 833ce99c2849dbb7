// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

#include "core/model_spec.h"

namespace twin::lab {

// Bytes that the machine can give without swapping, or fewer where the process's control group has
// less left. Throws std::system_error if the system does not tell.
std::int64_t AvailableMemory();

// As "1.500 GB", of 1e9 bytes.
std::string Gigabytes(double bytes);

// Throws InputError (usage) with the numbers unless `available` bytes hold `share` of the model's
// weights and of so many KV blocks of `block_size` tokens, in the formats of the model.
void RequireRoom(const ModelSpec& model, std::int64_t blocks, std::int32_t block_size,
                 std::int64_t available, double share = 1);

}  // namespace twin::lab
