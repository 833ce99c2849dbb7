#include "run/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/unit/traces/trace_samples.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;

class ProvenanceTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const fs::path file = scratch_.File(name);
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

  ScratchDirectory scratch_{"provenance"};
};

TEST_F(ProvenanceTest, ListsEveryInputFile) {
  Write("lengths.csv", "probability,tokens\n0,1\n1,9\n");
  Write("_base.textproto", R"(workload {
    requests: 3 arrivals { kind: poisson rate: 1 }
    shape {
      prompt { kind: empirical path: "lengths.csv" }
      output { kind: uniform min: 2 max: 3 }
    } })");
  const std::string file = Write("run.textproto", R"(base: "_base.textproto"
    policy { orca {} } system { model: "gpt2" hardware: "cpu-generic" })");
  const ExperimentConfig config = ReadExperiment(file, {});
  const json provenance = json::parse(ProvenanceJson(config, "", {}, std::nullopt));
  std::vector<std::string> fields;
  for (const json& input : provenance["inputs"]) {
    fields.push_back(input["field"]);
    EXPECT_EQ(input["hash"].get<std::string>().size(), 16U);
  }
  EXPECT_THAT(fields, ElementsAre("experiment", "base", "workload.shape.prompt.path"));
  EXPECT_FALSE(provenance.contains("weights"));
}

TEST_F(ProvenanceTest, SaysWhereAServersDefaultsComeFromAndWhatIsEstimated) {
  ExperimentConfig config;
  EXPECT_FALSE(json::parse(ProvenanceJson(config, "", {}, std::nullopt)).contains("server"));
  config.system.server = "tgi-3.3.7";
  const json provenance = json::parse(ProvenanceJson(config, "", {}, std::nullopt));
  EXPECT_EQ(provenance["server"]["name"], "tgi-3.3.7");
  EXPECT_EQ(provenance["server"]["filled_in_from"],
            "defaults of TGI 3.3.7; estimates: host of vLLM V0, boundary of vLLM 0.23.0");
  EXPECT_FALSE(provenance["server"].contains("stands_in_for"));
  config.system.server_asked = "tgi-3.1.0";
  EXPECT_EQ(json::parse(ProvenanceJson(config, "", {}, std::nullopt))["server"]["stands_in_for"],
            "tgi-3.1.0");
}

TEST_F(ProvenanceTest, AModelFolderStandsForItsConfig) {
  Write("model/config.json", "{}");
  ExperimentConfig config;
  config.input_files = {{"system.model", scratch_.File("model/")}};
  const json provenance = json::parse(ProvenanceJson(config, "", {}, std::nullopt));
  EXPECT_EQ(provenance["inputs"][0]["file"], "config.json");
  EXPECT_EQ(provenance["inputs"][0]["hash"], HashOfFile(scratch_.File("model/config.json")).hex);
}

TEST_F(ProvenanceTest, RealRunsNameTheirWeights) {
  const ExperimentConfig config;
  EXPECT_EQ(json::parse(ProvenanceJson(config, "", {}, RealProvenance{}))["weights"], "dummy");
  Write("model/model.safetensors", "tensors");
  Write("model/config.json", "{}");
  Write("model/README.md", "no input");
  RealProvenance real;
  real.weights = scratch_.File("model");
  real.draft_weights = "";
  real.load = MachineLoad{.steal_share = 0.5, .cpus = 2};
  real.gpus = MachineGpus{.devices = {{"GPU 1", "9.0", 80}, {"GPU 2", "9.0", 80}},
                          .driver_cuda = "13.0",
                          .runtime_cuda = "12.9"};
  const json provenance = json::parse(ProvenanceJson(config, "", {}, real));
  ASSERT_EQ(provenance["weights"].size(), 2U);
  EXPECT_EQ(provenance["weights"][1]["file"], "model.safetensors");
  EXPECT_EQ(provenance["weights"][1]["bytes"], 7);
  EXPECT_EQ(provenance["draft_weights"], "dummy");
  EXPECT_EQ(provenance["machine_load"]["disturbed"], true);
  EXPECT_EQ(provenance["gpu"]["devices"].size(), 2U);
  EXPECT_EQ(provenance["gpu"]["devices"][1]["name"], "GPU 2");
  EXPECT_EQ(provenance["gpu"]["runtime_cuda"], "12.9");
}

// A sparse file of 64 MiB and one byte: only its size and its ends are read.
TEST_F(ProvenanceTest, LargeFilesAreHashedBySizeAndEnds) {
  const std::string file = Write("large", "begin");
  fs::resize_file(file, (std::uintmax_t{64} << 20) + 1);
  const FileHash before = HashOfFile(file);
  EXPECT_FALSE(before.whole);
  std::fstream(file).seekp(32 << 20) << 'x';
  EXPECT_EQ(HashOfFile(file).hex, before.hex);
  std::fstream(file).seekp(64 << 20) << 'x';
  EXPECT_NE(HashOfFile(file).hex, before.hex);
  EXPECT_TRUE(HashOfFile(Write("small", "x")).whole);
  EXPECT_EQ(HashOfFile("missing").hex, "");
}

}  // namespace
}  // namespace twin::run
