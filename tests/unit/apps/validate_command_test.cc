// twinserve validate as its users run it: a tiny model, no expectation on how fast it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr const char* kExperiment = R"(schema_version: 1
name: "tiny"
seed: 3
world { real { threads: 1 dummy_weights: true } }
workload {
  requests: 12
  arrivals { kind: poisson rate: 2000 }
  shape {
    prompt { kind: uniform min: 1 max: 30 }
    output { kind: uniform min: 2 max: 6 }
  }
}
policy { sarathi { chunk_size: 16 max_num_seqs: 4 max_model_len: 64 } }
system {
  model_shape {
    name: "tiny" layers: 2 hidden: 32 intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8
    vocab: 101 max_position: 64 weight_dtype: fp32 kv_dtype: fp32
  }
  hardware: "cpu-generic"
  memory { blocks_override: 40 }
}
cost { roofline {} }
)";

class ValidateCommandTest : public testing::ExperimentFolderTest {
 protected:
  ValidateCommandTest() { Write("tiny.textproto", kExperiment); }

  [[nodiscard]] CommandOutcome Validate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"validate", "tiny.textproto", "--out", "v"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
  [[nodiscard]] json Result(const std::string& folder = "v") const {
    return json::parse(ReadText(scratch_.File(folder + "/validation.json")), nullptr, false);
  }
  [[nodiscard]] std::string Record(const std::string& run) const {
    return ReadText(scratch_.File(run + "/record.pb"));
  }
  void Remove(const std::string& file) const { std::filesystem::remove_all(scratch_.File(file)); }
};

TEST_F(ValidateCommandTest, MeasuresTwiceReplaysPredictsAndAttributes) {
  const CommandOutcome outcome = Validate({});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("replay equal"));
  EXPECT_THAT(Files("v"), IsSupersetOf({"real_1", "real_2", "simulated", "validation.json",
                                        "report.txt", "report.html"}));
  const json result = Result();
  EXPECT_EQ(result["digest_equal"], true);
  EXPECT_EQ(result["real_runs"], 2);
  EXPECT_EQ(result["real_run_paths"], (json{"real_1", "real_2"}));
  for (const char* name : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    const json& metric = result["metrics"][name];
    double sum = 0;
    for (const auto& [cause, amount] : metric["attribution"].items()) sum += amount.get<double>();
    const double error = metric["predicted"].get<double>() - metric["measured"].get<double>();
    EXPECT_NEAR(sum, error, 1e-9 * std::abs(error) + 1e-9) << name;
    EXPECT_TRUE(metric["repeat_noise_percent"].is_number()) << name;
    // 12 requests take time.
    EXPECT_GT(metric["measured"].get<double>(), 0) << name;
    EXPECT_NE(metric["attribution"].contains("decisions"),
              metric["attribution"].contains("unexplained"))
        << name;
  }
  EXPECT_EQ(result["machines"].size(), 2U);
}

TEST_F(ValidateCommandTest, ComparesReplicasWithTheirPrediction) {
  const CommandOutcome outcome =
      Validate({"--set", "system.replicas=2", "--set", "system.router.kind=LEAST_REQUESTS"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = Result();
  EXPECT_EQ(result["digest_equal"], true);
  EXPECT_EQ(result["completed"], 12);
  const json& metric = result["metrics"]["mean_e2el_ms"];
  double sum = 0;
  for (const auto& [cause, amount] : metric["attribution"].items()) sum += amount.get<double>();
  const double error = metric["predicted"].get<double>() - metric["measured"].get<double>();
  EXPECT_NEAR(sum, error, 1e-9 * std::abs(error) + 1e-9);
}

// A dummy draft model of another shape; in the prediction a draft is accepted with probability 0.1.
TEST_F(ValidateCommandTest, ComparesADraftModelWithItsPrediction) {
  Write("config.json", R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 101,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
    "tie_word_embeddings": false, "eos_token_id": 3})");
  const std::vector<std::string> speculate = {
      "--set", "policy=vllm_v1 {max_model_len: 64}", "--set",
      "speculation={method: draft_model num_speculative_tokens: 2 acceptance_rates: 0.1 model: '" +
          scratch_.File("config.json") + "'}"};
  const CommandOutcome outcome = Validate(speculate);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Result()["digest_equal"], true);
  EXPECT_EQ(Result()["completed"], 12);
  // A cost model that knows no shapes needs the time of a proposal.
  std::vector<std::string> linear = speculate;
  linear.insert(linear.end(), {"--set", "cost=linear {base_s: 0.001}"});
  const CommandOutcome refused = Validate(linear);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("speculation.model: has no cost in this cost model"));
  linear.insert(linear.end(), {"--set", "speculation.propose_s=0.001"});
  EXPECT_EQ(Validate(linear).exit_code, 0);
}

TEST_F(ValidateCommandTest, ComparesClientsThatGiveUp) {
  const CommandOutcome outcome = Validate({"--set", "world.real.client_timeout_s=1000"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Result()["digest_equal"], true);
  const json patient = {{"completed", 12}, {"cancelled", 0}};
  EXPECT_EQ(Result()["endings"]["predicted"], patient);
  EXPECT_EQ(Result()["endings"]["measured"], (json{patient, patient}));
  // Its runs are of another experiment if clients have more time or wait forever.
  for (const char* assignment :
       {"world.real.client_timeout_s=2000", "world.real={threads: 1 dummy_weights: true}"}) {
    const CommandOutcome other = Run(
        {"validate", "tiny.textproto", "--out", "w", "--runs", "v/real_1", "--set", assignment});
    EXPECT_EQ(other.exit_code, 2) << assignment;
    EXPECT_THAT(other.err, HasSubstr("is a run of another experiment"));
  }
  // Nobody gets an answer within a nanosecond.
  const CommandOutcome hasty = Validate({"--set", "world.real.client_timeout_s=1e-9"});
  EXPECT_EQ(hasty.exit_code, 1);
  EXPECT_THAT(hasty.err, HasSubstr("every client gave up"));
}

TEST_F(ValidateCommandTest, RefusesSeparatePrefillAndDecode) {
  const CommandOutcome outcome = Validate({"--set", "system.disaggregation={prefill_replicas: 1}"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("system.disaggregation: must be absent"));
}

TEST_F(ValidateCommandTest, GoesOnWithWhatAnInterruptedOneHasMeasured) {
  ASSERT_EQ(Validate({}).exit_code, 0);
  const std::string first = Record("v/real_1");
  const std::string second = Record("v/real_2");
  // As if it had been interrupted during the second run. Another cost model measures nothing anew.
  Remove("v/validation.json");
  Remove("v/real_2");
  ASSERT_EQ(Validate({"--set", "cost=linear {base_s: 0.001}"}).exit_code, 0);
  EXPECT_EQ(Record("v/real_1"), first);
  EXPECT_NE(Record("v/real_2"), second);
}

TEST_F(ValidateCommandTest, BeginsAnewWhereItWasDoneOrTheExperimentIsAnother) {
  ASSERT_EQ(Validate({"--repeats", "2"}).exit_code, 0);
  const std::string first = Record("v/real_1");
  ASSERT_EQ(Validate({"--repeats", "1"}).exit_code, 0);
  EXPECT_NE(Record("v/real_1"), first);
  EXPECT_EQ(Files("v").count("real_2"), 0U);
  const std::string again = Record("v/real_1");
  Remove("v/validation.json");
  ASSERT_EQ(Validate({"--repeats", "1", "--set", "seed=4"}).exit_code, 0);
  EXPECT_NE(Record("v/real_1"), again);
}

TEST_F(ValidateCommandTest, ComparesRunsThatAreThere) {
  ASSERT_EQ(Validate({}).exit_code, 0);
  const std::string first = Record("v/real_1");
  const CommandOutcome elsewhere = Run({"validate", "tiny.textproto", "--out", "w", "--runs",
                                        "v/real_1", "v/real_2", "--format", "json"});
  ASSERT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_EQ(json::parse(elsewhere.out), Result("w"));
  EXPECT_EQ(Result("w")["real_run_paths"], (json{"../v/real_1", "../v/real_2"}));
  EXPECT_EQ(Result("w")["metrics"]["mean_ttft_ms"]["measured"],
            Result("v")["metrics"]["mean_ttft_ms"]["measured"]);
  // Also into the folder that they lie in.
  ASSERT_EQ(Validate({"--runs", "v/real_1"}).exit_code, 0);
  EXPECT_EQ(Record("v/real_1"), first);
  EXPECT_EQ(Result()["real_runs"], 1);
}

TEST_F(ValidateCommandTest, RefusesRunsOfAnotherExperiment) {
  ASSERT_EQ(Validate({"--repeats", "1"}).exit_code, 0);
  const CommandOutcome outcome = Run({"validate", "tiny.textproto", "--out", "w", "--runs",
                                      "v/real_1", "--set", "workload.requests=11"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("is a run of another experiment"));
  EXPECT_EQ(Files().count("w"), 0U);
}

TEST_F(ValidateCommandTest, RefusesFoldersThatAreNotItsOwnAndLeavesThemAlone) {
  std::filesystem::create_directories(scratch_.File("v"));
  Write("v/experiment.textproto", "mine");
  const CommandOutcome outcome = Validate({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_EQ(ReadText(scratch_.File("v/experiment.textproto")), "mine");
}

TEST_F(ValidateCommandTest, RefusesWhatCannotBeComparedBeforeItMeasures) {
  for (const char* assignment : {"world=simulated {}", "world.real.pin_output_lengths=false",
                                 "system.pipeline_parallel=2", "cost.fitted.path=none"}) {
    SCOPED_TRACE(assignment);
    const CommandOutcome outcome = Validate({"--set", assignment});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_EQ(Files().count("v"), 0U);
  }
}

// It was predicted with a roofline of the hardware file's defaults, which nobody had asked for.
TEST_F(ValidateCommandTest, RefusesAnExperimentWithoutACostModel) {
  std::string text = kExperiment;
  const std::string cost = "cost { roofline {} }";
  text.erase(text.find(cost), cost.size());
  Write("tiny.textproto", text);
  const CommandOutcome outcome = Validate({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cost: is missing"));
  EXPECT_EQ(Files().count("v"), 0U);
}

TEST_F(ValidateCommandTest, RefusesTimesOfAnotherRun) {
  ASSERT_EQ(Validate({"--repeats", "1"}).exit_code, 0);
  ASSERT_EQ(Run({"run", "tiny.textproto", "--out", "other", "--set", "policy.sarathi.chunk_size=8"})
                .exit_code,
            0);
  std::filesystem::copy_file(scratch_.File("other/parts.csv"), scratch_.File("v/real_1/parts.csv"),
                             std::filesystem::copy_options::overwrite_existing);
  const CommandOutcome outcome = Validate({"--runs", "v/real_1"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("step "));
}

}  // namespace
}  // namespace twin::apps
