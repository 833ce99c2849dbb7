// Reads weights files in the safetensors format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exec/model/stored_tensor.h"

namespace twin::exec {

// A file: 8 bytes of little-endian length, so many bytes of JSON header, then the data.
//
// Maps the file into memory and keeps it so; the tensors borrow from the mapping. Opening costs the
// header alone; data are read from the disk when they are looked at. The file must not be changed
// meanwhile.
class SafetensorsFile {
 public:
  // Throws InputError (data) with the file's path if it cannot be read, is too short, or its header
  // is damaged (safetensors_header.h). Nothing in the file can cause a large allocation.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  // In the order of their data.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // The tensor of that name, or null. Cost: logarithmic.
  [[nodiscard]] const StoredTensor* Find(std::string_view name) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void Map();
  void ReadHeader();

  std::string path_;
  std::span<const std::byte> mapped_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::size_t> by_name_;  // indices of tensors_, names ascending
};

}  // namespace twin::exec
