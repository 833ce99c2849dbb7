// Reading whole files that a user named.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "core/input_error.h"

namespace twin {

// Throws InputError (`kind`) unless `path` leads to a regular file: reading a device may never end,
// and opening a FIFO without a writer waits for ever.
void RequireRegularFile(const std::filesystem::path& path,
                        InputError::Kind kind = InputError::Kind::kData);

// As RequireRegularFile(), but accepts a missing file: for callers that report it themselves.
void RequireRegularFileIfThere(const std::filesystem::path& path,
                               InputError::Kind kind = InputError::Kind::kData);

// The content of a regular file. Throws InputError (`kind`) if it is none, cannot be read, or has
// more than `bytes_max` bytes.
std::string ReadFile(const std::filesystem::path& path, std::size_t bytes_max,
                     InputError::Kind kind = InputError::Kind::kData);

}  // namespace twin
