// A model directory with the logits and tokens that a correct executor gives for it.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/dtype.h"
#include "exec/generate_world.h"
#include "exec/model/safetensors.h"

namespace twin::testing {

struct ReferencePrompt {
  std::vector<std::int32_t> tokens;
  std::vector<float> last_logits;
  std::vector<std::vector<float>> all_logits;  // of some prompts
  std::vector<std::int32_t> greedy;
  std::vector<float> greedy_margins;  // best minus second best logit
};

// Limits of a comparison: relative L2 distance of logits; margin below which a token may differ.
struct ReferenceTolerance {
  double logits = 0;
  double margin = 0;
};

struct ReferenceModel {
  std::filesystem::path directory;
  nlohmann::json facts;  // expected.json
  std::vector<ReferencePrompt> prompts;

  // False where rounding changes which experts of a mixture are chosen.
  [[nodiscard]] bool HasTolerance(DType dtype) const { return !Limits(dtype).is_null(); }
  [[nodiscard]] ReferenceTolerance Tolerance(DType dtype) const {
    const nlohmann::json& limits = Limits(dtype);
    return {limits.at("rel_l2").get<double>(), limits.at("margin").get<double>()};
  }

 private:
  // What anything rounded to 16 bits or fewer may differ by is stated for bf16.
  [[nodiscard]] const nlohmann::json& Limits(DType dtype) const {
    const DType stated = dtype == DType::kFp32 ? dtype : DType::kBf16;
    return facts.at("tolerance").at(std::string(Name(stated)));
  }
};

template <class T>
std::vector<T> Elements(const exec::StoredTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

inline ReferenceModel ReadReference(const std::filesystem::path& directory) {
  ReferenceModel model{directory, {}, {}};
  std::ifstream(directory / "expected.json") >> model.facts;
  const exec::SafetensorsFile file(directory / "expected.safetensors");
  const auto find = [&](const char* name, std::size_t prompt) {
    return file.Find(name + std::to_string(prompt));
  };
  for (std::size_t i = 0; find("prompt_", i) != nullptr; ++i) {
    ReferencePrompt prompt;
    prompt.tokens = Elements<std::int32_t>(*find("prompt_", i));
    prompt.last_logits = Elements<float>(*find("last_logits_", i));
    prompt.greedy = Elements<std::int32_t>(*find("greedy_", i));
    prompt.greedy_margins = Elements<float>(*find("greedy_margin_", i));
    if (const exec::StoredTensor* all = find("logits_all_", i)) {
      const std::vector<float> values = Elements<float>(*all);
      const auto width = static_cast<std::ptrdiff_t>(all->shape[1]);
      for (auto row = values.begin(); row != values.end(); row += width) {
        prompt.all_logits.emplace_back(row, row + width);
      }
    }
    model.prompts.push_back(std::move(prompt));
  }
  CHECK(!model.prompts.empty());
  return model;
}

// Where the whole set of reference models lies, or an empty path: $TWIN_SHARED/golden/models, else
// in shared/ beside the source tree.
inline std::filesystem::path ReferenceModels() {
  const char* const shared = std::getenv("TWIN_SHARED");
  const std::filesystem::path folder =
      (shared != nullptr ? std::filesystem::path(shared)
                         : std::filesystem::path(TWIN_SOURCE_DIR) / ".." / "shared") /
      "golden" / "models";
  return std::filesystem::is_directory(folder) ? folder : std::filesystem::path();
}

// |got - expected| / |expected|; infinite where sizes differ or a number is not finite.
inline double RelativeDistance(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double gap = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    const double difference = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    gap += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(gap / norm);
}

// The first step at which a token differs although the reference is sure of it, or -1. Behind a
// near tie that fell differently nothing is compared.
inline std::int32_t FirstWrongToken(const std::vector<std::int32_t>& got,
                                    const ReferencePrompt& expected, double margin) {
  for (std::size_t i = 0; i < expected.greedy.size(); ++i) {
    if (i < got.size() && got[i] == expected.greedy[i]) continue;
    const bool tie = i < got.size() && static_cast<double>(expected.greedy_margins[i]) <= margin;
    return tie ? -1 : static_cast<std::int32_t>(i);
  }
  return -1;
}

}  // namespace twin::testing
