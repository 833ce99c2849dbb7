// The weights of a model directory: one safetensors file or several shards with an index.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/model/safetensors.h"

namespace twin::exec {

// Tensors by name, borrowed from the mapped files.
class Checkpoint {
 public:
  // Reads model.safetensors, or else the shards of model.safetensors.index.json.
  // Throws InputError (data) if there is neither, a file is damaged, the index is, a shard that it
  // names is absent, a tensor is not in the shard that it names, or one is in two shards.
  explicit Checkpoint(const std::filesystem::path& directory);

  // Null if there is none of that name.
  [[nodiscard]] const StoredTensor* Find(const std::string& name) const;
  // All of them, names ascending.
  [[nodiscard]] const std::map<std::string, const StoredTensor*>& tensors() const {
    return by_name_;
  }
  // What messages call the weights: the file, or the index.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void ReadShards(const std::filesystem::path& directory, const std::filesystem::path& index);

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const StoredTensor*> by_name_;
};

}  // namespace twin::exec
