#include "exec/model/checkpoint.h"

#include <nlohmann/json.hpp>

#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::exec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::size_t kIndexBytesMax = 256 << 20;  // the largest models have indices of 10 MB

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what);
}

// Tensor name -> file name.
std::map<std::string, std::string> ReadWeightMap(const fs::path& index) {
  const Json json = Json::parse(ReadFile(index, kIndexBytesMax), nullptr, false);
  if (json.is_discarded()) Refuse(index.string(), "is not JSON");
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object()) {
    Refuse(index.string(), "weight_map is missing, must be an object of tensor and file names");
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : found->items()) {
    const bool plain = file.is_string() &&
                       file.get_ref<const std::string&>().find('/') == std::string::npos &&
                       !file.get_ref<const std::string&>().empty();
    if (!plain) {
      Refuse(index.string(), "weight_map of tensor '" + Printable(tensor, kMessageBytesMax) +
                                 "' must be the name of a file in the same directory");
    }
    files[tensor] = file.get<std::string>();
  }
  if (files.empty()) Refuse(index.string(), "weight_map names no weights");
  return files;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& directory) {
  if (fs::exists(directory / kSingle)) {
    path_ = (directory / kSingle).string();
    files_.emplace_back(directory / kSingle);
    for (const StoredTensor& tensor : files_.back().tensors()) by_name_[tensor.name] = &tensor;
    return;
  }
  if (!fs::exists(directory / kIndex)) {
    Refuse(directory.string(),
           std::string("no weights found: neither ") + kSingle + " nor " + kIndex + " is there");
  }
  path_ = (directory / kIndex).string();
  ReadShards(directory, directory / kIndex);
}

void Checkpoint::ReadShards(const fs::path& directory, const fs::path& index) {
  const std::map<std::string, std::string> weight_map = ReadWeightMap(index);
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, file] : weight_map) {
    if (opened.contains(file)) continue;
    if (!fs::exists(directory / file)) {
      Refuse(path_, "the shard " + Printable(file, kMessageBytesMax) + " is missing");
    }
    opened[file] = files_.size();
    files_.emplace_back(directory / file);
  }
  for (const SafetensorsFile& file : files_) {
    for (const StoredTensor& tensor : file.tensors()) {
      if (by_name_.emplace(tensor.name, &tensor).second) continue;
      Refuse(path_,
             "tensor '" + Printable(tensor.name, kMessageBytesMax) + "' is in two of the shards");
    }
  }
  for (const auto& [tensor, file] : weight_map) {
    if (files_[opened[file]].Find(tensor) != nullptr) continue;
    Refuse(path_, "tensor '" + Printable(tensor, kMessageBytesMax) + "' is missing in the shard " +
                      Printable(file, kMessageBytesMax));
  }
}

const StoredTensor* Checkpoint::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace twin::exec
