// Every model of the golden data set, read as the simulator reads it and as the executor does: the
// shapes are the same, and those of the tensors in the weights file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "config/models/named_model.h"
#include "core/model_spec.h"
#include "exec/model/checkpoint.h"
#include "exec/model/model_config.h"
#include "tests/golden/models/reference_model.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> ModelsIn(const fs::path& folder) {
  std::vector<fs::path> models;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "config.json")) models.push_back(entry.path());
  }
  return models;
}

// Of the weights file, less the mask buffers of old GPT-2 files.
std::int64_t StoredParameters(const fs::path& directory) {
  const exec::Checkpoint checkpoint(directory);
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor->shape) elements *= size;
    parameters += elements;
  }
  return parameters;
}

void ExpectOneReading(const fs::path& directory) {
  SCOPED_TRACE(directory.filename());
  const ModelSpec simulated = ReadNamedShape(directory.string(), false);
  EXPECT_EQ(ReadNamedShape((directory / "config.json").string(), false), simulated);
  EXPECT_EQ(TotalParameters(simulated), StoredParameters(directory));
  const ModelConfig computed = exec::ReadModelConfig(directory);
  EXPECT_EQ(computed.shape, simulated);
  const auto windowed = std::count(computed.layer_windows.begin(), computed.layer_windows.end(),
                                   simulated.sliding_window);
  EXPECT_EQ(simulated.sliding_window == 0 ? 0 : windowed, simulated.windowed_layers);
}

TEST(BothUsesTest, ReadTheShippedModelAlike) {
  ExpectOneReading(fs::path(TWIN_SOURCE_DIR) / "tests" / "golden" / "models" / "tiny-llama");
}

TEST(BothUsesTest, ReadEveryReferenceModelAlike) {
  if (testing::ReferenceModels().empty()) {
    GTEST_SKIP() << "golden data set not found; set TWIN_SHARED to the folder that holds golden/";
  }
  const std::vector<fs::path> models = ModelsIn(testing::ReferenceModels());
  EXPECT_EQ(models.size(), 30U);  // 21 of group main, 9 of group later
  for (const fs::path& model : models) ExpectOneReading(model);
}

}  // namespace
}  // namespace twin
