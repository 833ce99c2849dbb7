#include "config/config_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::IsEmpty;

std::vector<std::string> Lines(std::vector<ConfigText> configs) {
  std::vector<std::string> lines;
  for (const FieldDifference& field : ConfigDifferences(configs)) {
    std::string line = field.path;
    for (const std::string& value : field.values) line += " | " + value;
    lines.push_back(line);
  }
  return lines;
}

TEST(ConfigDifferencesTest, NamesFieldsAndValuesAsSetTakesThem) {
  const ConfigText left{"a", R"(
      schema_version: 1 name: "a" seed: 3
      workload { requests: 10 classes { weight: 0.5 } classes { weight: 0.5 } }
      policy { vllm_v1 { max_num_seqs: 8 } } system { model: "llama-3-8b" })"};
  const ConfigText right{"b", R"(
      schema_version: 1 name: "b" seed: 3
      workload { requests: 10 classes { weight: 0.5 } classes { weight: 0.25 } }
      policy { orca {} } system { model: "llama-3-8b" } metrics { by_tenant: true })"};
  EXPECT_THAT(Lines({left, right}),
              ::testing::ElementsAre("name | a | b", "workload.classes[1].weight | 0.5 | 0.25",
                                     "policy.vllm_v1.max_num_seqs | 8 | -", "policy.orca | - | {}",
                                     "metrics.by_tenant | - | true"));
  EXPECT_THAT(Lines({left, left, left}), IsEmpty());
}

TEST(ConfigDifferencesTest, RefusesWhatIsNoExperiment) {
  const std::vector<ConfigText> configs = {{"run/config", "name: \"a\" polcy { }"}};
  try {
    (void)ConfigDifferences(configs);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("run/config:1"));
  }
}

}  // namespace
}  // namespace twin
