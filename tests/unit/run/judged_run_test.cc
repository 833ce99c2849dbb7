// Runs as the judge sees them: which request is which under another policy.
#include "run/judge/judged_run.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/deployment.h"
#include "run/judge/gates.h"
#include "run/run_control.h"

namespace twin::run {
namespace {

// Conversations whose next turns come when answers do, on a system that is too slow for them.
JudgedRun RunWith(const std::string& order) {
  const std::string text = R"(
    seed: 3
    workload {
      requests: 200
      arrivals { kind: poisson rate: 40 }
      shape {
        prompt { kind: uniform min: 10 max: 200 } output { kind: uniform min: 1 max: 60 }
        sessions { turns { kind: fixed value: 4 } think { kind: exponential mean_s: 1 } }
      }
    }
    policy { vllm_v1 { max_num_batched_tokens: 256 max_num_seqs: 8 )" +
                           order + R"( } }
    system { model: "llama-3-8b" hardware: "a100-80gb-sxm" }
    cost { constant { step_s: 0.02 } })";
  RunControl control;
  return RunJudged(Resolve(ParseExperiment(text, "test", "/")), control, nullptr, "");
}

TEST(JudgedRunTest, TurnsAreTheSameRequestsUnderEveryPolicyAndHaveOtherIds) {
  const JudgedRun fcfs = RunWith("");
  const JudgedRun sjf = RunWith("order { kind: sjf size: prompt }");
  int common = 0;
  int moved = 0;
  for (const auto& [one, other] : PairRequests(sjf, fcfs)) {
    if (one == nullptr || other == nullptr) continue;
    ++common;
    EXPECT_EQ(one->prompt_tokens, other->prompt_tokens);
    EXPECT_EQ(one->output_tokens, other->output_tokens);
    if (one - sjf.requests.data() != other - fcfs.requests.data()) ++moved;
  }
  EXPECT_GT(common, 150);
  EXPECT_GT(moved, 50);
  EXPECT_FALSE(CheckLengths(sjf, fcfs));
  EXPECT_FALSE(CheckServed(sjf, fcfs));
}

}  // namespace
}  // namespace twin::run
