// A policy that the caller of the library brings along.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "run/files/record_file.h"
#include "run/replay.h"
#include "run/simulation.h"
#include "sched/policy/sarathi.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::StartsWith;

constexpr const char* kExperiment =
    "workload { requests: 200 arrivals { kind: poisson rate: 40 } shape { "
    "prompt { kind: uniform min: 4 max: 60 } output { kind: uniform min: 1 max: 30 } } } "
    "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
    "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
    "kv_dtype: bf16 } memory { blocks_override: 64 } } cost { constant { step_s: 0.01 } } "
    "policy { vllm_v1 { max_model_len: 128 } }";

// Sarathi under a name of the caller's.
std::shared_ptr<const OwnPolicy> Own() {
  auto own = std::make_shared<OwnPolicy>();
  own->name = "Mine";
  SarathiConfig config;
  config.chunk_size = 32;
  config.max_num_seqs = 4;
  config.max_model_len = 128;
  own->traits = config.Traits();
  own->traits.name = own->name;
  own->make = [config](const KvPoolConfig& kv) {
    return std::make_unique<SarathiPolicy>(config, kv.blocks);
  };
  return own;
}

ExperimentConfig Read(const std::vector<std::string>& changes,
                      std::shared_ptr<const OwnPolicy> own = nullptr) {
  ExperimentTemplate experiment = ExperimentTemplate::FromText(kExperiment, "test");
  experiment.ReplacePolicy(std::move(own));
  experiment.Change(changes, "/");
  return experiment.With({}, {});
}

std::string DigestOf(const ExperimentConfig& config) {
  RunControl control;
  return std::get<std::string>(*Simulate(Resolve(config), control).summary.Find("digest"));
}

TEST(OwnPolicyTest, DecidesInPlaceOfTheExperimentsPolicy) {
  const ExperimentConfig own = Read({}, Own());
  const std::vector<std::string> named = {
      "policy=sarathi { chunk_size: 32 max_num_seqs: 4 max_model_len: 128 }"};
  const ExperimentConfig registered = Read(named);
  EXPECT_EQ(DigestOf(own), DigestOf(registered));
  EXPECT_NE(DigestOf(own), DigestOf(Read({})));
  // Its limits size the KV cache, too.
  EXPECT_EQ(own.system.memory, registered.system.memory);
  EXPECT_THAT(WriteResolved(own), StartsWith("# `policy` did not decide: Mine did"));
  EXPECT_EQ(OwnPolicyOf(WriteResolved(own)), "Mine");
  EXPECT_EQ(OwnPolicyOf(WriteResolved(registered)), "");
}

TEST(OwnPolicyTest, ItsRecordReplaysWithIt) {
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("own_policy");
  RunControl control;
  const std::shared_ptr<const OwnPolicy> own = Own();
  RunSimulation(Read({}, own), out, {}, control);
  RecordReader reader(out / "record.pb");
  const EngineConfig engine = reader.header().engine;
  const ReplayResult replayed = ReplayDecisions(reader, own->make(engine.kv), engine);
  EXPECT_FALSE(replayed.difference.has_value());
  EXPECT_EQ(replayed.digest, reader.end().digest);
  std::filesystem::remove_all(out);
}

TEST(ExperimentTemplateTest, ReadsATextAndNamesItsSourceInErrors) {
  const std::vector<std::string> changes = {"workload.requests=7"};
  EXPECT_EQ(Read(changes).workload.requests, 7);
  try {
    ExperimentTemplate::FromText("workload { requets: 7 }", "test");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), StartsWith("test:1"));
  }
}

}  // namespace
}  // namespace twin::run
