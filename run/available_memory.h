// Memory that this process can still allocate.
#pragma once

#include <cstdint>
#include <string>

#include "core/model_spec.h"

namespace twin::run {

// Bytes that the machine can provide without swapping, limited by what the process's control group
// has left. Throws std::system_error if the system does not report it.
std::int64_t AvailableMemory();

// Text such as "1.500 GB", with GB = 1e9 bytes.
std::string Gigabytes(double bytes);

// Bytes of one token in the blocks of an executor on one rank. Executors keep all tokens of layers
// with windows too, so that this exceeds KvBytesPerToken() where some of the layers have windows
// and others do not.
std::int64_t HeldBytesPerToken(const ModelSpec& model, const Parallelism& parallelism,
                               std::int32_t stage);

// Throws InputError (usage) with the numbers unless `available` bytes are enough for `share` (a
// fraction of 1) of the model's weights and of `blocks` KV blocks of `block_size` tokens, in the
// model's number formats.
void RequireRoom(const ModelSpec& model, std::int64_t blocks, std::int32_t block_size,
                 std::int64_t available, double share = 1);

}  // namespace twin::run
