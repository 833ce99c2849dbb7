#include "exec/model/safetensors_writer.h"

#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::exec {

std::vector<std::byte> SafetensorsBytes(const std::vector<StoredTensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    std::uint64_t bytes = ByteSize(tensor.type);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
    CHECK(bytes == tensor.bytes.size() && !header.contains(tensor.name));
    const std::uint64_t begin = end;
    end += bytes;
    header[tensor.name] = {
        {"dtype", Name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
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

void WriteSafetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
  const std::vector<std::byte> bytes = SafetensorsBytes(tensors);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out) return;
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  throw InputError(InputError::Kind::kData, path.string(), "cannot be written");
}

}  // namespace twin::exec
