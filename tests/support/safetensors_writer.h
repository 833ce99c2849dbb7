// Writes weights files in the safetensors format.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "exec/model/stored_tensor.h"

namespace twin::exec::testing {

// The file's bytes: header, padded with spaces to a multiple of 8, then the tensors in the order
// given. REQUIRES: names differ and need no escapes in JSON; each tensor has as many bytes as its
// type and shape say.
inline std::vector<std::byte> SafetensorsBytes(const std::vector<StoredTensor>& tensors) {
  std::string text = "{";
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    std::uint64_t bytes = ByteSize(tensor.type);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
    CHECK(bytes == tensor.bytes.size());
    const std::uint64_t begin = end;
    end += bytes;
    text += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        text.size() > 1 ? "," : "", tensor.name, Name(tensor.type),
                        fmt::join(tensor.shape, ","), begin, end);
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::vector<std::byte> file(sizeof(length) + text.size() + end);
  std::byte* at = file.data();
  const auto append = [&at](const void* data, std::size_t size) {
    if (size > 0) std::memcpy(at, data, size);
    at += size;
  };
  append(&length, sizeof(length));
  append(text.data(), text.size());
  for (const StoredTensor& tensor : tensors) append(tensor.bytes.data(), tensor.bytes.size());
  return file;
}

inline void WriteSafetensors(const std::filesystem::path& path,
                             const std::vector<StoredTensor>& tensors) {
  const std::vector<std::byte> bytes = SafetensorsBytes(tensors);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  CHECK(!out.fail());
}

}  // namespace twin::exec::testing
