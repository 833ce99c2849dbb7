// Reads weights files in the safetensors format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exec/model/stored_tensor.h"

namespace twin::exec {

// A file in the format: 8 bytes with the little-endian length of the header, the header in JSON,
// the data.
//
// Maps the file into memory as long as the object lives; the tensors borrow from the mapping.
// Opening reads the header alone; data are read from the disk when they are used. The file must not
// be changed meanwhile.
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

  // All tensors, in the order of their data.
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
