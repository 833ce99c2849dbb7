// The weights of a model directory: one safetensors file or several shards with an index.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/model/safetensors.h"

namespace twin::exec {

// Finds tensors by name. They borrow from the mapped files.
class Checkpoint {
 public:
  // Reads model.safetensors, or if there is none, the shards of model.safetensors.index.json.
  // Throws InputError (data) if there is neither, a file or the index is damaged, a shard that the
  // index names is absent, a tensor is not in the shard that the index names, or a tensor is in two
  // shards.
  explicit Checkpoint(const std::filesystem::path& directory);

  // The tensor of that name; null if there is none.
  [[nodiscard]] const StoredTensor* Find(const std::string& name) const;
  // All tensors, names ascending.
  [[nodiscard]] const std::map<std::string, const StoredTensor*>& tensors() const {
    return by_name_;
  }
  // The path that messages name: of the file, or of the index.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void ReadShards(const std::filesystem::path& directory, const std::filesystem::path& index);

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const StoredTensor*> by_name_;
};

}  // namespace twin::exec
