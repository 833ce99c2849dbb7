// A folder with a small experiment, in which tests call twinserve.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/command_line.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::testing {

inline constexpr const char* kSmallExperiment = R"(schema_version: 1
name: "small"
seed: 3
workload {
  requests: 200
  arrivals { kind: poisson rate: 20 }
  shape {
    prompt { kind: uniform min: 1 max: 200 }
    output { kind: uniform min: 1 max: 40 }
  }
}
policy { vllm_v1 { max_num_batched_tokens: 256 max_num_seqs: 16 max_model_len: 512 } }
system { model: "llama-3-8b" hardware: "h100-sxm" memory { blocks_override: 60 } }
cost { linear { base_s: 0.005 per_prefill_token_s: 1e-5 per_decode_item_s: 1e-5 } }
)";

class ExperimentFolderTest : public ::testing::Test {
 protected:
  ExperimentFolderTest() { Write("small.textproto", kSmallExperiment); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_.File(name), std::ios::binary) << text;
  }

  [[nodiscard]] CommandOutcome Run(const std::vector<std::string>& arguments) const {
    return RunCommand(scratch_.path(), arguments);
  }

  // Runs the small experiment, which must succeed, and returns its summary.json.
  [[nodiscard]] nlohmann::json RunSmall(const std::string& out,
                                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"run", "small.textproto", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return SummaryOf(out);
  }

  [[nodiscard]] nlohmann::json SummaryOf(const std::string& run) const {
    return nlohmann::json::parse(ReadText(scratch_.File(run + "/summary.json")), nullptr, false);
  }

  [[nodiscard]] std::set<std::string> Files(const std::string& folder = "") const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path() / folder)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  ScratchDirectory scratch_{
      std::string(::testing::UnitTest::GetInstance()->current_test_info()->name())};
};

}  // namespace twin::testing
