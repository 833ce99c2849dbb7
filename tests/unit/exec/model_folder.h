// Model directories that tests write, with random weights of any family.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/hash.h"
#include "core/random.h"
#include "exec/model/model_config.h"
#include "exec/model/stored_tensor.h"
#include "exec/model/tensor_plan.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/unique_name.h"

namespace twin::exec::testing {

// Owns the numbers that its stored tensors show.
class TensorSet {
 public:
  void Add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
    values_[name] = std::move(values);
    shapes_[name] = std::move(shape);
  }
  void Remove(const std::string& name) {
    values_.erase(name);
    shapes_.erase(name);
  }
  [[nodiscard]] std::vector<float>& values(const std::string& name) { return values_.at(name); }
  [[nodiscard]] std::vector<std::int64_t>& shape(const std::string& name) {
    return shapes_.at(name);
  }
  [[nodiscard]] bool contains(const std::string& name) const { return values_.contains(name); }

  [[nodiscard]] std::vector<StoredTensor> Stored() const {
    std::vector<StoredTensor> tensors;
    for (const auto& [name, values] : values_) {
      tensors.push_back(
          {name, StoredType::kF32, shapes_.at(name), std::as_bytes(std::span(values))});
    }
    return tensors;
  }

 private:
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

inline void AddRandom(const std::string& name, std::vector<std::int64_t> shape, float mean,
                      TensorSet& tensors) {
  Random random(7, name);
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = mean + 0.2F * static_cast<float>(random.Normal());
  tensors.Add(name, std::move(shape), std::move(values));
}

// Every tensor that the model's plan names.
inline TensorSet RandomTensors(const ModelConfig& model, const std::string& prefix) {
  TensorSet tensors;
  const auto add_matrix = [&](const MatrixPlan& plan) {
    for (const MatrixPart& part : plan.parts) {
      const StoredRows& stored = part.stored;
      const std::int64_t rows = part.rows * stored.every;
      std::vector<std::int64_t> shape =
          plan.transposed ? std::vector{plan.columns, rows} : std::vector{rows, plan.columns};
      std::vector<std::int64_t> bias_shape = {rows};
      if (stored.stack > 0) {
        shape.insert(shape.begin(), stored.stack);
        bias_shape.insert(bias_shape.begin(), stored.stack);
      }
      AddRandom(part.weight, shape, 0, tensors);
      if (!part.bias.empty()) AddRandom(part.bias, bias_shape, 0, tensors);
    }
  };
  const auto add_norm = [&](const NormPlan& plan) {
    if (!plan.gain.empty()) AddRandom(plan.gain, {plan.width}, 1, tensors);
    if (!plan.bias.empty()) AddRandom(plan.bias, {plan.width}, 0, tensors);
  };
  const auto add_vector = [&](const VectorPlan& plan) {
    if (!plan.name.empty()) AddRandom(plan.name, plan.shape, 0, tensors);
  };
  const TensorPlan plan = PlanTensors(model, prefix);
  ForEachOf(plan, add_matrix, add_norm, add_vector);
  return tensors;
}

// A directory of this test's own below the system's, removed at the end.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / twin::testing::UniqueName(name)) {
    std::filesystem::create_directories(path_);
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void WriteText(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  void WriteWeights(const TensorSet& tensors, const std::string& name = "model.safetensors") const {
    WriteSafetensors(path_ / name, tensors.Stored());
  }

 private:
  std::filesystem::path path_;
};

inline constexpr const char* kLlamaConfig = R"({"model_type": "llama", "hidden_size": 16,
  "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": false, "eos_token_id": 3})";

// A mixture of five experts and a shared one.
inline constexpr const char* kMixtureConfig = R"({"model_type": "qwen2_moe", "hidden_size": 16,
  "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
  "shared_expert_intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": false, "eos_token_id": 3})";

inline constexpr const char* kMixtralConfig = R"({"model_type": "mixtral", "hidden_size": 16,
  "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 12,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 29,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
  "tie_word_embeddings": false, "eos_token_id": 3})";

inline constexpr const char* kGpt2Config = R"({"model_type": "gpt2", "n_embd": 12, "n_layer": 2,
  "n_head": 3, "n_positions": 64, "vocab_size": 17, "layer_norm_epsilon": 1e-5})";

}  // namespace twin::exec::testing
