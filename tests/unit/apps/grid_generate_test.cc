// twinserve generate on grids of ranks: as threads, and as processes where MPI is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/exec/model_folder.h"
#ifdef TWIN_TEST_PROGRAM
#include "tests/support/mpi_job.h"
#endif

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

struct Family {
  const char* name;
  const char* prefix;
  const char* config;
};

constexpr Family kLlama = {"llama", "model.", R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 4096,
  "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": false})"};
constexpr Family kFamilies[] = {
    kLlama,
    {"gpt2", "transformer.", R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4,
      "n_positions": 128, "vocab_size": 29, "layer_norm_epsilon": 1e-5})"},
    {"qwen2", "model.", R"({"model_type": "qwen2", "hidden_size": 32,
      "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 4, "vocab_size": 29, "max_position_embeddings": 128,
      "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": true})"},
};

constexpr const char* kPrompts = R"({"prompt": 0, "token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9]}
{"prompt": 1, "token_ids": [18]}
{"prompt": 2, "token_ids": [28, 0, 28, 11, 3]}
)";

class GridGenerateTest : public testing::ExperimentFolderTest {
 protected:
  void Use(const Family& family) {
    const exec::ModelConfig config = exec::ParseModelConfig(family.config, "config.json");
    model_.WriteText("config.json", family.config);
    model_.WriteWeights(exec::testing::RandomTensors(config, family.prefix));
    Write("p.ndjson", kPrompts);
  }

  [[nodiscard]] std::vector<std::string> Words(const Parallelism& grid, const std::string& out,
                                               std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"generate",
                                      "--model",
                                      model_.path().string(),
                                      "--prompts",
                                      "p.ndjson",
                                      "--out",
                                      out,
                                      "--threads",
                                      "1",
                                      "--tensor-parallel",
                                      std::to_string(grid.tensor),
                                      "--pipeline-parallel",
                                      std::to_string(grid.pipeline)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  [[nodiscard]] std::vector<json> Lines(const std::string& file) const {
    std::vector<json> lines;
    std::ifstream in(scratch_.File(file));
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }

  // Tokens equal, logits within the 1e-4 that sums in another order may differ by at most.
  void ExpectAsOneRank(const std::string& file) const {
    const std::vector<json> one = Lines("one.ndjson");
    const std::vector<json> grid = Lines(file);
    ASSERT_EQ(grid.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(grid[i].at("greedy"), one[i].at("greedy"));
      const auto a = grid[i].at("last_logits").get<std::vector<double>>();
      const auto b = one[i].at("last_logits").get<std::vector<double>>();
      ASSERT_EQ(a.size(), b.size());
      double gap = 0;
      double norm = 0;
      for (std::size_t j = 0; j < a.size(); ++j) {
        gap += (a[j] - b[j]) * (a[j] - b[j]);
        norm += b[j] * b[j];
      }
      EXPECT_LT(std::sqrt(gap / norm), 1e-4);
    }
  }

  exec::testing::ModelFolder model_{"grid_generate"};
};

constexpr Parallelism kGrids[] = {{2, 1}, {1, 2}, {2, 2}};

TEST_F(GridGenerateTest, ThreadsGiveTheTokensAndLogitsOfOneRank) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    Use(family);
    ASSERT_EQ(Run(Words({}, "one.ndjson")).exit_code, 0);
    for (const Parallelism& grid : kGrids) {
      const CommandOutcome outcome =
          Run(Words(grid, "grid.ndjson", {"--policy-params", R"({"pipeline_parallel_size": 2})"}));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_EQ(outcome.err, "");
      ExpectAsOneRank("grid.ndjson");
    }
  }
}

// Chunks of the first prompt are in both stages at once.
TEST_F(GridGenerateTest, SlotsOfAPipelineGiveTheTokensAndLogitsOfOneRank) {
  Use(kLlama);
  ASSERT_EQ(Run(Words({}, "one.ndjson")).exit_code, 0);
  const std::string slots = R"({"pipeline_parallel_size": 2, "fill_tokens": 3})";
  const CommandOutcome outcome =
      Run(Words({1, 2}, "grid.ndjson", {"--policy", "ship", "--policy-params", slots}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  ExpectAsOneRank("grid.ndjson");
}

TEST_F(GridGenerateTest, RefusesBadGridsInOneLine) {
  Use(kLlama);
  const auto refusal = [&](const Parallelism& grid) {
    const CommandOutcome outcome = Run(Words(grid, "grid.ndjson"));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refusal({3, 1}), HasSubstr("query_heads 4 does not divide by tensor parallelism 3"));
  EXPECT_THAT(refusal({1, 4}), HasSubstr("pipeline parallelism 4 exceeds its 3 layers"));
  EXPECT_THAT(refusal({1, 0}), HasSubstr("--pipeline-parallel"));
}

TEST_F(GridGenerateTest, AWeightThatIsMissingForOneRankIsOneLineToo) {
  Use(kLlama);
  exec::testing::TensorSet tensors =
      exec::testing::RandomTensors(exec::ParseModelConfig(kLlama.config, "config.json"), "model.");
  tensors.Remove("model.layers.2.mlp.down_proj.weight");  // of the second stage
  model_.WriteWeights(tensors);
  const CommandOutcome outcome = Run(Words({1, 2}, "grid.ndjson"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("'model.layers.2.mlp.down_proj.weight' is missing"));
}

#ifdef TWIN_TEST_PROGRAM

testing::MpiJobOutcome RunRanks(const std::filesystem::path& folder, int ranks,
                                std::vector<std::string> words) {
  words.insert(words.begin(), TWIN_TEST_PROGRAM);
  return testing::RunMpiJob(folder, ranks, words);
}

TEST_F(GridGenerateTest, ProcessesGiveTheTokensAndLogitsOfOneRank) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    Use(family);
    ASSERT_EQ(Run(Words({}, "one.ndjson")).exit_code, 0);
    for (const Parallelism& grid : kGrids) {
      const testing::MpiJobOutcome outcome =
          RunRanks(scratch_.path(), grid.devices(), Words(grid, "grid.ndjson"));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      // One rank prints.
      EXPECT_EQ(outcome.out.find("prompts 3, new tokens 72"), 0U) << outcome.out;
      EXPECT_EQ(outcome.out.find('\n'), outcome.out.size() - 1);
      ExpectAsOneRank("grid.ndjson");
    }
  }
}

TEST_F(GridGenerateTest, RefusesAnotherNumberOfProcessesThanTheGridHas) {
  Use(kLlama);
  const testing::MpiJobOutcome outcome = RunRanks(scratch_.path(), 3, Words({2, 1}, "grid.ndjson"));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("twinserve: mpirun: started 3 ranks; --tensor-parallel 2 "
                                     "times --pipeline-parallel 1 is 2\n"));
  const std::size_t first = outcome.err.find("twinserve:");
  EXPECT_EQ(outcome.err.find("twinserve:", first + 1), std::string::npos) << outcome.err;
}

constexpr const char* kRealGrid = R"(schema_version: 1
name: "real"
world { real { threads: 1 dummy_weights: true } }
workload {
  requests: 10
  arrivals { kind: poisson rate: 2000 }
  shape { prompt { kind: uniform min: 1 max: 60 } output { kind: uniform min: 2 max: 12 } }
}
policy { vllm_v1 { max_num_batched_tokens: 64 max_num_seqs: 8 max_model_len: 128 } }
system {
  model_shape {
    name: "tiny" layers: 2 hidden: 32 intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8
    vocab: 101 max_position: 128 weight_dtype: fp32 kv_dtype: fp32
  }
  hardware: "cpu-generic"
  memory { blocks_override: 60 }
  tensor_parallel: 2
  pipeline_parallel: 2
}
cost { linear { base_s: 0.0001 } }
)";

TEST_F(GridGenerateTest, RealRunsTakeProcessesToo) {
  Write("real.textproto", kRealGrid);
  const testing::MpiJobOutcome outcome =
      RunRanks(scratch_.path(), 4, {"run", "real.textproto", "--out", "run", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["completed"], 10);  // one rank prints
  EXPECT_EQ(Run({"replay", "run"}).exit_code, 0);
  const testing::MpiJobOutcome refused =
      RunRanks(scratch_.path(), 2, {"run", "real.textproto", "--out", "two"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("mpirun: started 2 ranks; system.tensor_parallel times "
                                     "system.pipeline_parallel is 4\n"));
}

std::size_t LinesOfTwinserve(const std::string& text) {
  std::size_t lines = 0;
  for (std::size_t at = text.find("twinserve: "); at != std::string::npos;
       at = text.find("twinserve: ", at + 1)) {
    ++lines;
  }
  return lines;
}

TEST_F(GridGenerateTest, RanksRefuseAnExperimentInOneLine) {
  Write("real.textproto", kRealGrid);
  for (const char* const assignment :
       {"world.real.dummy_weights=false", "system.model_shape.weight_dtype=fp8",
        "system.memory.blocks_override=2000000000"}) {
    const testing::MpiJobOutcome outcome = RunRanks(
        scratch_.path(), 4, {"run", "real.textproto", "--out", "run", "--set", assignment});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(LinesOfTwinserve(outcome.err), 1U) << outcome.err;
  }
}

TEST_F(GridGenerateTest, CommandsOfOneProcessRefuseMpirunInOneLine) {
  Use(kLlama);
  const std::string model = model_.path().string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"bench", "--model", model},
        std::vector<std::string>{"profile", "--model", model, "--out", "profile.csv"}}) {
    const testing::MpiJobOutcome outcome = RunRanks(scratch_.path(), 3, words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(LinesOfTwinserve(outcome.err), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("mpirun: started 3 ranks; " + words.front()));
  }
}

// The processes of this program that have `word` among their arguments.
std::vector<pid_t> RanksOf(const std::string& word) {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline", std::ios::binary);
    const std::string words{std::istreambuf_iterator<char>(in), {}};
    const std::string program = TWIN_TEST_PROGRAM;
    if (words.starts_with(program + '\0') && words.find(word) != std::string::npos) {
      ranks.push_back(static_cast<pid_t>(std::stol(name)));
    }
  }
  return ranks;
}

// As launchers pass it on to all their processes.
TEST_F(GridGenerateTest, AnInterruptOfAllProcessesLeavesAUsableRun) {
  Write("real.textproto", kRealGrid);
  const std::string out = "interrupted_" + scratch_.path().filename().string();
  testing::MpiJobOutcome outcome;
  std::thread job([&] {
    outcome =
        RunRanks(scratch_.path(), 4,
                 {"run", "real.textproto", "--out", out, "--set", "workload.requests=1000000000"});
  });
  const auto served = [&] {
    for (const std::string& name : Files()) {
      std::error_code error;
      if (!name.starts_with(out + ".partial.")) continue;
      const auto size = std::filesystem::file_size(scratch_.path() / name / "steps.csv", error);
      if (!error && size > 1000) return true;
    }
    return false;
  };
  for (int i = 0; i < 600 && !served(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::vector<pid_t> ranks = RanksOf(out);
  for (const pid_t rank : ranks) kill(rank, SIGINT);
  job.join();
  ASSERT_EQ(ranks.size(), 4U);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_EQ(SummaryOf(out)["interrupted"], 1) << outcome.err;
  EXPECT_EQ(Run({"replay", out}).exit_code, 0);
}

TEST_F(GridGenerateTest, AKilledProcessEndsTheOthersWithinSeconds) {
  Use(kLlama);
  testing::MpiJobOutcome outcome;
  // More than the seconds until it is killed.
  std::thread job([&] {
    outcome = RunRanks(scratch_.path(), 2,
                       Words({2, 1}, "grid.ndjson",
                             {"--max-new-tokens", "4000", "--policy-params",
                              R"({"max_num_seqs": 1})", "--rank-timeout", "5"}));
  });
  std::vector<pid_t> ranks;
  for (int i = 0; i < 300 && ranks.size() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ranks = RanksOf(model_.path().string());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto killed = std::chrono::steady_clock::now();
  if (ranks.size() == 2) kill(ranks.back(), SIGKILL);
  job.join();
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(20));
  EXPECT_EQ(RanksOf(model_.path().string()).size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("grid.ndjson")));
}

#endif

}  // namespace
}  // namespace twin::apps
