// A folder with two small experiments, for tests of studies.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "apps/study/study.h"
#include "apps/study/study_runner.h"
#include "config/study_config.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::testing {

// 40 requests of a model that needs 5 ms a step.
inline constexpr const char* kStudiedExperiment = R"(
seed: 3
workload {
  requests: 40
  arrivals { kind: poisson rate: 20 }
  shape {
    prompt { kind: uniform min: 1 max: 200 }
    output { kind: uniform min: 1 max: 40 }
  }
}
system { model: "llama-3-8b" hardware: "h100-sxm" memory { blocks_override: 60 } }
cost { linear { base_s: 0.005 per_prefill_token_s: 1e-5 per_decode_item_s: 1e-5 } }
)";

class StudyFolderTest : public ::testing::Test {
 protected:
  StudyFolderTest() {
    const std::string policy =
        "policy { vllm_v1 { max_num_batched_tokens: 256 max_num_seqs: 16 max_model_len: 512 } }";
    Write("vllm.textproto", kStudiedExperiment + policy);
    Write("orca.textproto",
          kStudiedExperiment + std::string("policy { orca { max_bs: 4 max_model_len: 512 } }"));
  }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_.File(name), std::ios::binary) << text;
  }

  [[nodiscard]] run::Study Make(const std::string& text,
                                const std::vector<std::string>& overrides = {}) const {
    return run::Study(ParseStudy(text, "study.textproto", scratch_.path()), overrides);
  }

  // All rows, in order.
  static std::vector<run::StudyRow> RunAll(const run::Study& study, int jobs = 2) {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < study.rows(); ++row) rows.push_back(row);
    std::vector<run::StudyRow> made(study.rows());
    run::RunControl control;
    run::RunStudy(study, rows, {.jobs = jobs, .runs_folder = {}, .command_line = {}}, control,
                  [&](const run::StudyRow& row) { made[study.IndexOf(row.id)] = row; });
    return made;
  }

  ScratchDirectory scratch_{
      std::string(::testing::UnitTest::GetInstance()->current_test_info()->name())};
};

}  // namespace twin::testing
