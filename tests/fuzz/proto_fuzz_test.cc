// Damaged configs and records: whatever is read, it is either accepted or refused by InputError.
// TWIN_FUZZ_RUNS sets the number of mutations of each kind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "core/random.h"
#include "proto/experiment_config.h"
#include "proto/record_file.h"
#include "tests/unit/proto/random_run.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

int Runs() {
  const char* runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs != nullptr ? std::atoi(runs) : 20'000;
}

constexpr const char* kConfig = R"(schema_version: 1 name: "fuzz" seed: 7
workload {
  requests: 100
  arrivals { kind: gamma rate: 4.5 cv: 2 }
  shape {
    prompt { kind: lognormal mean: 300 sigma: 1.1 max: 4000 }
    output { kind: empirical probabilities: [0, 0.5, 1] values: [1, 20, 300] }
    tenants { weight: 2 priority: -1 }
    tenants { weight: 1 prompt { kind: fixed value: 9 } }
    sessions { turns { kind: zipf exponent: 1.5 max: 8 } think { mean_s: 3 } }
  }
}
policy { vllm_v0 { max_num_seqs: 8 preemption_mode: swap watermark: 0.05 } }
system {
  model: "llama-3-8b" hardware: "h100-sxm" tensor_parallel: 2
  model_shape { layers: 4 kv_dtype: fp8 moe { experts: 0 } }
  memory { rule: vllm_v0 utilization: 0.8 block_size: 32 }
}
cost { linear { base_s: 0.01 per_decode_item_s: 1e-5 } }
slo { ttft_s: 0.5 } metrics { head_share: 0.1 } outputs { perfetto: false }
)";

// Pieces that make a mutation likely to be half right.
const std::vector<std::string> kPieces = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ":",
                                          "-",
                                          "1e999",
                                          "nan",
                                          "inf",
                                          "\"",
                                          "'",
                                          "#",
                                          "\n",
                                          "seed: 1",
                                          "policy",
                                          "workload {",
                                          "<",
                                          ">",
                                          ",",
                                          ";",
                                          "0x7fffffff",
                                          "99999999999999999999",
                                          "true",
                                          "\\377",
                                          "orca {}",
                                          "base: \"x\"",
                                          "kind: poisson",
                                          "vllm_v1 { release: v0_15_1 }",
                                          "-0",
                                          "1e-320"};

std::string Mutated(std::string text, Random& random, bool with_pieces) {
  const auto below = [&random](std::size_t n) {
    return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(n) - 1));
  };
  for (std::int64_t n = random.UniformInt(1, 4); n > 0 && !text.empty(); --n) {
    const std::size_t at = below(text.size());
    switch (random.UniformInt(0, with_pieces ? 5 : 4)) {
      case 0:
        text[at] = static_cast<char>(random.UniformInt(0, 255));
        break;
      case 1:
        text.erase(at, 1 + below(16));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), 1 + below(40)));
        break;
      case 3:
        text[at] = static_cast<char>(text[at] ^ (1 << random.UniformInt(0, 7)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text.insert(at, " " + kPieces[below(kPieces.size())] + " ");
    }
  }
  return text;
}

// The error must be one line that names the input.
void ExpectOneLine(const InputError& error, const std::string& name) {
  const std::string line = error.what();
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_NE(line.find(name), std::string::npos) << line;
}

TEST(ProtoFuzzTest, ConfigsAreReadOrRefused) {
  Random random(1, "configs");
  int refused = 0;
  for (int i = 0; i < Runs(); ++i) {
    const std::string text = Mutated(kConfig, random, true);
    try {
      const ExperimentConfig config = ParseExperiment(text, "fuzz.textproto", "/");
      if (i % 16 == 0) {
        const std::string resolved = WriteResolved(config);
        EXPECT_EQ(WriteResolved(ParseExperiment(resolved, "resolved", "/")), resolved);
      }
    } catch (const InputError& error) {
      ++refused;
      ExpectOneLine(error, "fuzz.textproto");
    }
  }
  EXPECT_GT(refused, Runs() / 2);
  EXPECT_LT(refused, Runs());
}

TEST(ProtoFuzzTest, OverridesAreTakenOrRefused) {
  const fs::path file =
      fs::temp_directory_path() / ("proto_fuzz_" + std::to_string(::getpid()) + ".textproto");
  std::ofstream(file) << kConfig;
  const std::vector<std::string> sane = {"policy.vllm_v1.max_num_seqs=64",
                                         "policy=orca {max_bs: 3}",
                                         "workload.shape.tenants[1].weight=3",
                                         "workload.shape.tenants+={weight: 4}",
                                         "workload.shape.output.values=[1, 2, 30]",
                                         "system.model=llama-3-8b",
                                         "seed=18446744073709551615"};
  Random random(2, "overrides");
  int refused = 0;
  for (int i = 0; i < Runs() / 4; ++i) {
    const auto pick = static_cast<std::size_t>(random.UniformInt(0, 6));
    const std::vector<std::string> overrides = {Mutated(sane[pick], random, true)};
    try {
      (void)ReadExperiment(file, overrides);
    } catch (const InputError& error) {
      ++refused;
      ExpectOneLine(error, "");
    }
  }
  fs::remove(file);
  EXPECT_GT(refused, 0);
}

TEST(ProtoFuzzTest, RecordsAreReadOrRefused) {
  const fs::path file =
      fs::temp_directory_path() / ("proto_fuzz_" + std::to_string(::getpid()) + ".pb");
  Random random(3, "records");
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    RecordWriter writer(file, {.config = "seed: 1", .version = "1", .policy = "x"}, compression);
    RandomRun(5).TellTo(writer, 12);
    writer.Finish();
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    for (int i = 0; i < Runs() / 2; ++i) {
      std::ofstream(file, std::ios::binary | std::ios::trunc) << Mutated(bytes, random, false);
      try {
        RecordReader reader(file);
        Instant instant;
        while (reader.NextInstant(instant)) {
          while (reader.NextPlan() != nullptr) {
          }
        }
      } catch (const InputError& error) {
        ExpectOneLine(error, file.filename());
      }
    }
  }
  fs::remove(file);
}

}  // namespace
}  // namespace twin
