// Model directories with one thing wrong each, and what a loader has to say about them
// (bad/expected.json): reject in one line, warn, or flag.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "tests/golden/models/reference_model.h"

namespace twin {
namespace {

using nlohmann::json;

struct LoadOutcome {
  bool loaded = false;
  int exit_code = 0;
  std::vector<std::string> lines;  // warnings, or the one refusal
  std::vector<std::vector<float>> last_logits;
};

std::vector<std::vector<float>> LastLogits(exec::CpuModel& model,
                                           const testing::ReferenceModel& control) {
  std::vector<exec::Generation> generations;
  for (const testing::ReferencePrompt& prompt : control.prompts) {
    generations.push_back({.prompt = prompt.tokens, .tokens_max = 1});
  }
  exec::Generate(model, generations, {.keep = exec::KeptLogits::kLast});
  std::vector<std::vector<float>> logits;
  for (exec::Generation& generation : generations) {
    logits.push_back(std::move(generation.last_logits));
  }
  return logits;
}

LoadOutcome Load(const std::filesystem::path& directory, const testing::ReferenceModel& control) {
  kernels::ThreadPool pool(1);
  LoadOutcome outcome;
  try {
    exec::ModelConfig config = exec::ReadModelConfig(directory);
    exec::LoadedWeights loaded = exec::LoadWeights(directory, config, DType::kFp32, pool);
    outcome.lines = loaded.warnings;
    const std::int32_t positions = config.shape.max_position;
    exec::CpuModel model(std::move(config), std::move(loaded.weights), positions, pool);
    outcome.last_logits = LastLogits(model, control);
    outcome.loaded = true;
  } catch (const InputError& error) {
    outcome.exit_code = error.exit_code();
    outcome.lines = {error.what()};
  }
  return outcome;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool HasOneOf(const std::string& text, const json& words) {
  return std::any_of(words.begin(), words.end(), [&](const json& word) {
    return Lower(text).find(Lower(word.get<std::string>())) != std::string::npos;
  });
}

void ExpectOutcome(const json& expected, const LoadOutcome& outcome,
                   const testing::ReferenceModel& control) {
  const std::string wanted = expected.at("outcome");
  std::string text;
  for (const std::string& line : outcome.lines) text += line + "\n";
  EXPECT_EQ(outcome.loaded, wanted != "reject") << text;
  EXPECT_EQ(outcome.exit_code, wanted == "reject" ? 1 : 0);
  EXPECT_EQ(outcome.lines.size(), wanted == "load" ? 0U : 1U) << text;
  for (const std::string& line : outcome.lines) {
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  for (const json& words : expected.at("must")) EXPECT_TRUE(HasOneOf(text, words)) << text << words;
  if (!expected.contains("logits_of")) return;
  for (std::size_t i = 0; i < control.prompts.size(); ++i) {
    EXPECT_LE(testing::RelativeDistance(outcome.last_logits[i], control.prompts[i].last_logits),
              control.Tolerance(DType::kFp32).logits);
  }
}

TEST(BrokenModelsTest, AreAnsweredAsExpected) {
  if (testing::ReferenceModels().empty()) {
    GTEST_SKIP() << "golden data set not found; set TWIN_SHARED to the folder that holds golden/";
  }
  const std::filesystem::path folder = testing::ReferenceModels() / "bad";
  const testing::ReferenceModel control = testing::ReadReference(folder / "good-control");
  json cases;
  std::ifstream(folder / "expected.json") >> cases;
  EXPECT_EQ(cases.size(), 31U);
  for (const auto& [name, expected] : cases.items()) {
    SCOPED_TRACE(name);
    ExpectOutcome(expected, Load(folder / name, control), control);
  }
}

}  // namespace
}  // namespace twin
