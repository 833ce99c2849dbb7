// Writes weights files in the safetensors format.
#pragma once

#include <filesystem>
#include <vector>

#include "exec/model/stored_tensor.h"

namespace twin::exec {

// The file's bytes: header, padded with spaces to a multiple of 8, then the tensors in the order
// given. REQUIRES: names differ; each tensor's bytes are those of its type and shape.
std::vector<std::byte> SafetensorsBytes(const std::vector<StoredTensor>& tensors);

// Throws InputError (data) if the file cannot be written; then none is left.
void WriteSafetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

}  // namespace twin::exec
