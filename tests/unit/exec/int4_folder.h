// Model directories that tests write, with the layers in 4 bits as GPTQ and AWQ store them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "exec/model/stored_int4.h"
#include "kernels/float_formats.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec::testing {

inline constexpr const char* kInt4Config = R"({"model_type": "llama", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "quantization_config": {)";

inline std::string ConfigOf(const std::string& quantization) {
  return kInt4Config + quantization + "}}";
}

inline constexpr const char* kGptq = R"("quant_method": "gptq", "bits": 4, "group_size": 32)";
inline constexpr const char* kAwq = R"("quant_method": "awq", "bits": 4, "group_size": 32)";

// Numbers of a layer that depend on its name and their place alone.
class Numbers {
 public:
  static constexpr std::int64_t kGroup = 32;

  Numbers(const std::string& name, bool shuffled) : key_(HashText(name)), shuffled_(shuffled) {}

  [[nodiscard]] std::uint32_t Q(std::int64_t output, std::int64_t input) const {
    return Bits(1, output, input) % 16;
  }
  [[nodiscard]] std::uint32_t Zero(std::int64_t output, std::int64_t group) const {
    return 1 + Bits(2, output, group) % 15;
  }
  // fp16 numbers around 0.01.
  [[nodiscard]] std::uint16_t Scale(std::int64_t output, std::int64_t group) const {
    return static_cast<std::uint16_t>(0x2000 + Bits(3, output, group) % 0x400);
  }
  // In order, or dealt out to the groups in turn.
  [[nodiscard]] std::int64_t GroupOf(std::int64_t input, std::int64_t inputs) const {
    return shuffled_ ? input % (inputs / kGroup) : input / kGroup;
  }
  [[nodiscard]] double Weight(std::int64_t output, std::int64_t input, std::int64_t inputs) const {
    const std::int64_t group = GroupOf(input, inputs);
    const double scale{kernels::Fp16ToFloat(Scale(output, group))};
    return (static_cast<double>(Q(output, input)) - static_cast<double>(Zero(output, group))) *
           scale;
  }

 private:
  [[nodiscard]] std::uint32_t Bits(std::uint64_t what, std::int64_t a, std::int64_t b) const {
    const std::uint64_t place =
        MixWords(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
    return static_cast<std::uint32_t>(MixWords(MixWords(key_, what), place) >> 32);
  }

  std::uint64_t key_;
  bool shuffled_;
};

// A checkpoint in which every projection of a layer is stored in 4 bits.
class Int4Folder {
 public:
  using Kind = Int4Layout::Kind;

  Int4Folder(Kind kind, const ModelConfig& model, bool shuffled = false, bool minus_one = true)
      : kind_(kind), shuffled_(shuffled), minus_one_(minus_one) {
    TensorSet tensors = RandomTensors(model, "model.");
    const TensorPlan plan = PlanTensors(model, "model.");
    for (const LayerPlan& layer : plan.layers) {
      for (const MatrixPlan* matrix : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
        for (const MatrixPart& part : matrix->parts) {
          tensors.Remove(part.weight);
          Store(part.weight, part.rows, matrix->columns);
        }
      }
    }
    rest_ = std::move(tensors);
  }

  // Those of the layer whose input order they share depend on the same name.
  [[nodiscard]] Numbers NumbersOf(const std::string& weight) const { return {weight, shuffled_}; }

  [[nodiscard]] StoredTensor& Find(const std::string& name) {
    for (StoredTensor& tensor : stored_) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  [[nodiscard]] std::vector<std::int32_t>& values(const std::string& name) {
    return numbers_.at(name);
  }
  void Remove(const std::string& name) {
    std::erase_if(stored_, [&](const StoredTensor& tensor) { return tensor.name == name; });
  }
  void Write() const {
    std::vector<StoredTensor> all = rest_.Stored();
    all.insert(all.end(), stored_.begin(), stored_.end());
    WriteSafetensors(folder_.path() / "model.safetensors", all);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void Add(const std::string& name, std::vector<std::int64_t> shape,
           std::vector<std::int32_t> values) {
    std::vector<std::int32_t>& kept = numbers_[name] = std::move(values);
    stored_.push_back({name, StoredType::kI32, std::move(shape), std::as_bytes(std::span(kept))});
  }

  // Written from the formats' descriptions, apart from the reader.
  void Store(const std::string& weight, std::int64_t outputs, std::int64_t inputs) {
    const std::string base = weight.substr(0, weight.size() - 7);
    const Numbers numbers = NumbersOf(weight);
    const std::int64_t groups = inputs / Numbers::kGroup;
    constexpr std::array<std::int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto neighbour = [&](std::int64_t nibble) {
      return kind_ == Kind::kAwq ? kAwqOrder[static_cast<std::size_t>(nibble)] : nibble;
    };
    const auto pack = [&](const auto& number_of) {
      std::uint32_t word = 0;
      for (std::int64_t i = 0; i < 8; ++i) word |= number_of(neighbour(i)) << (4 * i);
      return static_cast<std::int32_t>(word);
    };
    std::vector<std::int32_t> weights;
    if (kind_ == Kind::kGptq) {
      for (std::int64_t k = 0; k < inputs; k += 8) {
        for (std::int64_t n = 0; n < outputs; ++n) {
          weights.push_back(pack([&](std::int64_t i) { return numbers.Q(n, k + i); }));
        }
      }
      Add(base + ".qweight", {inputs / 8, outputs}, std::move(weights));
    } else {
      for (std::int64_t k = 0; k < inputs; ++k) {
        for (std::int64_t n = 0; n < outputs; n += 8) {
          weights.push_back(pack([&](std::int64_t i) { return numbers.Q(n + i, k); }));
        }
      }
      Add(base + ".qweight", {inputs, outputs / 8}, std::move(weights));
    }
    const std::uint32_t less = kind_ == Kind::kGptq && minus_one_ ? 1 : 0;
    std::vector<std::int32_t> zeros;
    std::vector<std::uint16_t>& scales = scales_[base];
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t n = 0; n < outputs; n += 8) {
        zeros.push_back(pack([&](std::int64_t i) { return numbers.Zero(n + i, g) - less; }));
      }
      for (std::int64_t n = 0; n < outputs; ++n) scales.push_back(numbers.Scale(n, g));
    }
    Add(base + ".qzeros", {groups, outputs / 8}, std::move(zeros));
    stored_.push_back(
        {base + ".scales", StoredType::kF16, {groups, outputs}, std::as_bytes(std::span(scales))});
    if (kind_ != Kind::kGptq) return;
    std::vector<std::int32_t> group_of;
    for (std::int64_t k = 0; k < inputs; ++k) {
      group_of.push_back(static_cast<std::int32_t>(numbers.GroupOf(k, inputs)));
    }
    Add(base + ".g_idx", {inputs}, std::move(group_of));
  }

  Kind kind_;
  bool shuffled_;
  bool minus_one_;
  ModelFolder folder_{"int4"};
  TensorSet rest_;
  std::map<std::string, std::vector<std::int32_t>> numbers_;
  std::map<std::string, std::vector<std::uint16_t>> scales_;
  std::vector<StoredTensor> stored_;
};

}  // namespace twin::exec::testing
