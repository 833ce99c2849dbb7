#include "config/experiment_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/experiment.pb.h"
#include "config/hardware_file.h"
#include "config/models/model_names.h"
#include "config/text_message.h"
#include "core/input_error.h"
#include "sched/policy/registry.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/roofline_config.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSmall = R"(
seed: 7
workload {
  requests: 100
  arrivals { kind: poisson rate: 4 }
  shape { prompt { kind: fixed value: 128 } output { kind: lognormal mean: 64 sigma: 0.5 } }
}
policy { vllm_v1 { max_num_seqs: 64 } }
system { model: "llama-3-8b" hardware: "h100-sxm" }
)";

class ExperimentConfigTest : public ::testing::Test {
 protected:
  ExperimentConfigTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("experiment_config_test_" + std::string(test->name()) + std::to_string(::getpid()));
    fs::create_directories(folder_ / "deeper");
    Write("small.textproto", kSmall);
  }
  ~ExperimentConfigTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }

  ExperimentConfig Read(const std::string& name, const std::vector<std::string>& overrides = {}) {
    return ReadExperiment(folder_ / name, overrides);
  }

  std::string ErrorOf(const std::string& name, const std::vector<std::string>& overrides = {}) {
    try {
      (void)Read(name, overrides);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      return error.what();
    }
    return "";
  }

  std::string ErrorOfText(const std::string& text) {
    Write("text.textproto", text);
    return ErrorOf("text.textproto");
  }

  fs::path folder_;
};

TEST_F(ExperimentConfigTest, ReadsEveryLayersConfig) {
  const ExperimentConfig config = Read("small.textproto");
  EXPECT_EQ(config.name, "small");
  EXPECT_EQ(config.seed, 7u);
  EXPECT_TRUE(IsSimulated(config.world));
  EXPECT_EQ(config.workload.requests, 100);
  EXPECT_EQ(config.workload.arrivals.kind, ArrivalConfig::Kind::kPoisson);
  EXPECT_EQ(config.workload.shape.output.sigma, 0.5);
  EXPECT_EQ(config.policy.Get<VllmV1Config>().max_num_seqs, 64);
  EXPECT_EQ(config.system.model_spec, ModelPreset("llama-3-8b"));
  EXPECT_EQ(config.system.hardware_spec, HardwarePreset("h100-sxm"));
  EXPECT_NE(config.cost.If<sim::RooflineCostConfig>(), nullptr);
}

TEST_F(ExperimentConfigTest, TakesMemoryLimitsFromThePolicyUnlessTheyAreGiven) {
  const sim::MemoryConfig memory = Read("small.textproto").system.memory;
  EXPECT_EQ(memory.rule, sim::MemoryRule::kVllmV1);
  EXPECT_EQ(memory.max_sequences, 64);
  EXPECT_EQ(memory.max_step_tokens, VllmV1Config{}.max_num_batched_tokens);
  EXPECT_EQ(memory.max_model_length, 8192);  // the positions of llama-3-8b
  const sim::MemoryConfig given = Read("small.textproto", {"policy=vllm_v0 {max_model_len: 2048}",
                                                           "system.memory.max_sequences=9"})
                                      .system.memory;
  EXPECT_EQ(given.rule, sim::MemoryRule::kVllmV0);
  EXPECT_EQ(given.max_sequences, 9);
  EXPECT_EQ(given.max_model_length, 2048);
}

TEST_F(ExperimentConfigTest, AppliesOverridesInOrder) {
  const ExperimentConfig config =
      Read("small.textproto", {"seed=9", "workload.requests=5", "workload.requests=6",
                               "policy=vllm_v0 {max_num_seqs: 8}", "name=quick look",
                               "world.real.device=CUDA", "cost=constant",
                               "workload.classes+=name: \"a\" shape { prompt { kind: fixed value: "
                               "1 } output { kind: fixed value: 2 } }",
                               "workload.classes[0].weight=2", "workload.shape={}"});
  EXPECT_EQ(config.seed, 9u);
  EXPECT_EQ(config.workload.requests, 6);
  EXPECT_EQ(config.policy.Get<VllmV0Config>().max_num_seqs, 8);
  EXPECT_EQ(config.name, "quick look");
  EXPECT_EQ(std::get<RealWorldConfig>(config.world).device, RealWorldConfig::Device::kCuda);
  EXPECT_NE(config.cost.If<sim::ConstantCostConfig>(), nullptr);
  ASSERT_EQ(config.workload.classes.size(), 1u);
  EXPECT_EQ(config.workload.classes[0].weight, 2);
}

TEST_F(ExperimentConfigTest, ReadsARealWorld) {
  const ExperimentConfig config =
      Read("small.textproto", {"world.real={threads: 3 pin_output_lengths: false dummy_weights: "
                               "true client_timeout_s: 2 rank_timeout_s: 600 sampling { "
                               "temperature: 0.8 top_k: 40 top_p: 0.9 min_p: 0.01 }}"});
  EXPECT_EQ(std::get<RealWorldConfig>(config.world),
            (RealWorldConfig{.threads = 3,
                             .pin_output_lengths = false,
                             .dummy_weights = true,
                             .client_timeout = Duration{2'000'000'000},
                             .rank_timeout = Duration{600'000'000'000},
                             .sampling = {0.8, 40, 0.9, 0.01},
                             .model_options = {}}));
  // Outputs are pinned, weights real and clients patient unless it is said.
  EXPECT_EQ(std::get<RealWorldConfig>(Read("small.textproto", {"world.real={}"}).world),
            RealWorldConfig{});
  EXPECT_THAT(ErrorOf("small.textproto", {"world.real={client_timeout_s: 0}"}),
              HasSubstr("client_timeout_s"));
  EXPECT_THAT(ErrorOf("small.textproto", {"world.real={rank_timeout_s: 0}"}),
              HasSubstr("rank_timeout_s"));
  EXPECT_THAT(ErrorOf("small.textproto", {"world.real.sampling={top_p: 0}"}), HasSubstr("top_p"));
}

TEST_F(ExperimentConfigTest, ReplacesFieldsOfAPresetModelAndDevice) {
  const ExperimentConfig config =
      Read("small.textproto", {"system.model_shape.layers=2", "system.model_shape.kv_dtype=fp8",
                               "system.hardware_spec.sm_count=7"});
  ModelSpec expected = ModelPreset("llama-3-8b");
  expected.layers = 2;
  expected.kv_dtype = DType::kFp8;
  EXPECT_EQ(config.system.model_spec, expected);
  EXPECT_EQ(config.system.hardware_spec.sm_count, 7);
}

// 116.83e9 parameters of 2 bytes; the checkpoint stores the experts in 4.25 bits (MXFP4).
TEST_F(ExperimentConfigTest, AFormatThatIsNamedHoldsForPartsWithFormatsOfTheirOwn) {
  const std::string model = "system.model=gpt-oss-120b";
  const auto bytes = [](const ExperimentConfig& config) {
    return static_cast<double>(WeightBytesPerRank(config.system.model_spec, {}, 0));
  };
  EXPECT_LT(bytes(Read("small.textproto", {model})), 70e9);
  EXPECT_NEAR(bytes(Read("small.textproto", {model, "system.model_shape.weight_dtype=bf16"})),
              233.66e9, 0.1e9);
  // Formats that are named beside it hold.
  const ExperimentConfig mixed =
      Read("small.textproto", {model,
                               "system.model_shape={weight_dtype: bf16 formats "
                               "{experts: nvfp4}}"});
  EXPECT_EQ(mixed.system.model_spec.formats.experts, DType::kNvfp4);
}

TEST_F(ExperimentConfigTest, AFieldOfAnOptionalPartLeavesTheOthersAsTheyAre) {
  const ExperimentConfig plain = Read("small.textproto");
  const ExperimentConfig limited =
      Read("small.textproto", {"system.hardware_spec.energy.limit_watts=300"});
  ASSERT_TRUE(plain.system.hardware_spec.energy && limited.system.hardware_spec.energy);
  EnergySpec expected = *plain.system.hardware_spec.energy;
  expected.limit_watts = 300;
  EXPECT_EQ(*limited.system.hardware_spec.energy, expected);
  const ExperimentConfig latent = Read(
      "small.textproto", {"system.model=deepseek-v3", "system.model_shape.latent.kv_rank=256"});
  EXPECT_EQ(latent.system.model_spec.latent->kv_rank, 256);
  EXPECT_EQ(latent.system.model_spec.latent->query_rank, 1536);
}

TEST_F(ExperimentConfigTest, ResolvesPathsFromTheFolderOfTheFileThatHasThem) {
  Write("deeper/traced.textproto",
        "workload { trace { path: \"t.csv\" } } policy { orca {} }\n"
        "system { model: \"llama-3-8b\" hardware: \"l40s\" }");
  Write("upper.textproto", "base: \"deeper/traced.textproto\"");
  const fs::path expected = fs::absolute(folder_ / "deeper" / "t.csv").lexically_normal();
  EXPECT_EQ(Read("upper.textproto").workload.trace->path, expected.string());
  const ExperimentConfig config = Read("upper.textproto", {"workload.trace.path=t.csv"});
  EXPECT_EQ(config.workload.trace->path, (fs::current_path() / "t.csv").string());
}

TEST_F(ExperimentConfigTest, LaysAFileOverItsBase) {
  Write("deeper/upper.textproto",
        "base: \"../small.textproto\" unset: \"policy\" seed: 8 policy { orca { max_bs: 4 } }\n"
        "workload { arrivals { rate: 5 } }");
  const ExperimentConfig config = Read("deeper/upper.textproto");
  EXPECT_EQ(config.seed, 8u);
  EXPECT_EQ(config.policy.Get<OrcaConfig>().max_bs, 4);
  EXPECT_EQ(config.workload.requests, 100);
  EXPECT_EQ(config.workload.arrivals.rate, 5);
  EXPECT_EQ(config.workload.arrivals.kind, ArrivalConfig::Kind::kPoisson);
  EXPECT_EQ(config.name, "upper");
}

TEST_F(ExperimentConfigTest, RefusesAnotherPolicyThanThatOfTheBaseUnlessTheFileDropsIt) {
  Write("sarathi.textproto", "base: \"small.textproto\" policy { sarathi { chunk_size: 512 } }");
  EXPECT_THAT(ErrorOf("sarathi.textproto"),
              AllOf(HasSubstr("sarathi.textproto: policy: is laid over vllm_v1, not over sarathi"),
                    HasSubstr("unset")));
  Write("sarathi.textproto",
        "base: \"small.textproto\" unset: \"policy\" policy { sarathi { chunk_size: 512 } }");
  EXPECT_EQ(Read("sarathi.textproto").policy.Get<SarathiConfig>().chunk_size, 512);
}

TEST_F(ExperimentConfigTest, AnEmptyBaseIsRefused) {
  Write("upper.textproto", "base: \"\"");
  EXPECT_THAT(ErrorOf("upper.textproto"),
              HasSubstr("base: is empty; allowed: the path of an experiment file"));
}

TEST_F(ExperimentConfigTest, DropsFieldsOfItsBase) {
  Write("upper.textproto",
        "base: \"small.textproto\" unset: \"seed\" unset: \"workload.requests\"");
  EXPECT_THAT(ErrorOf("upper.textproto"), HasSubstr("workload.requests: found 0"));
  Write("upper.textproto", "base: \"small.textproto\" unset: \"sede\"");
  EXPECT_THAT(ErrorOf("upper.textproto"), HasSubstr("no field \"sede\""));
  EXPECT_THAT(ErrorOf("small.textproto", {"unset+=seed"}), HasSubstr("in a file with a base"));
}

TEST_F(ExperimentConfigTest, RefusesARateOfNothing) {
  EXPECT_THAT(ErrorOf("small.textproto", {"workload.arrivals={rate: 0}"}),
              HasSubstr("workload.arrivals.rate: is 0; allowed: above 0"));
}

TEST_F(ExperimentConfigTest, RefusesACircleOfBases) {
  Write("a.textproto", "base: \"b.textproto\"");
  Write("b.textproto", "base: \"a.textproto\"");
  EXPECT_THAT(ErrorOf("a.textproto"),
              HasSubstr("a circle: a.textproto -> b.textproto -> a.textproto"));
  Write("c.textproto", "base: \"c.textproto\"");
  EXPECT_THAT(ErrorOf("c.textproto"), HasSubstr("a circle"));
  EXPECT_THAT(ErrorOf("small.textproto", {"base=a.textproto"}), HasSubstr("only stand in a file"));
}

TEST_F(ExperimentConfigTest, NamesTheFileOfABaseThatIsWrong) {
  Write("wrong.textproto", "sede: 3");
  Write("upper.textproto", "base: \"wrong.textproto\"");
  EXPECT_THAT(ErrorOf("upper.textproto"),
              AllOf(HasSubstr("wrong.textproto:1:1: no field \"sede\" in Experiment"),
                    HasSubstr("nearest \"seed\"")));
}

TEST_F(ExperimentConfigTest, SaysWhatIsMissing) {
  EXPECT_THAT(ErrorOfText("seed: 3"), HasSubstr("policy: is missing"));
  EXPECT_THAT(ErrorOfText("policy { orca {} }"),
              AllOf(HasSubstr("system.model: is missing"), HasSubstr("llama-3-8b")));
  EXPECT_THAT(ErrorOfText("policy { orca {} } system { model: \"llama-3-8b\" }"),
              AllOf(HasSubstr("system.hardware: is missing"), HasSubstr("h100-sxm")));
}

TEST_F(ExperimentConfigTest, ChecksRangesNamingTheFieldsPath) {
  EXPECT_THAT(ErrorOf("small.textproto", {"workload.arrivals.rate=-1"}),
              HasSubstr("small.textproto: workload.arrivals.rate: must be at least 0, is -1"));
  EXPECT_THAT(ErrorOf("small.textproto", {"schema_version=2"}),
              HasSubstr("schema_version: must be at most 1, is 2"));
  EXPECT_THAT(ErrorOf("small.textproto", {"policy.vllm_v1.max_num_seqs=4096"}),
              HasSubstr("policy.vllm_v1.max_num_batched_tokens: is 2048, must be at least "
                        "max_num_seqs (4096)"));
  EXPECT_THAT(ErrorOf("small.textproto", {"system.model=llama-3-9b"}), HasSubstr("llama-3-8b"));
  EXPECT_THAT(ErrorOf("small.textproto", {"system.hardware=h100"}), HasSubstr("h100-sxm"));
  EXPECT_THAT(ErrorOf("small.textproto", {"system.tensor_parallel=3"}), HasSubstr("small"));
  EXPECT_THAT(ErrorOf("small.textproto", {"metrics={head_share: 0.6 tail_share: 0.4}"}),
              HasSubstr("metrics.tail_share"));
}

// Each of these once ended in a failed CHECK, in minutes of silence or without memory.
TEST_F(ExperimentConfigTest, BoundsWhatWouldOverwhelmARun) {
  EXPECT_THAT(ErrorOf("small.textproto", {"metrics.series_interval_s=1e-12"}),
              HasSubstr("metrics.series_interval_s: must be at least 1e-09"));
  EXPECT_EQ(Read("small.textproto", {"metrics.series_interval_s=1e-9"}).metrics.series_interval,
            Duration{1});
  EXPECT_THAT(ErrorOf("small.textproto", {"metrics.series_points_max=2147483646"}),
              HasSubstr("metrics.series_points_max: must be at most 1000000"));
  EXPECT_THAT(ErrorOf("small.textproto", {"policy.sarathi={chunk_schedule_stages: 2000000000}"}),
              HasSubstr("policy.sarathi.chunk_schedule_stages: must be at most 1024"));
  EXPECT_THAT(ErrorOf("small.textproto", {"system.memory.blocks_override=2147483647"}),
              HasSubstr("system.memory.blocks_override: must be at most 100000000"));
  EXPECT_THAT(ErrorOf("small.textproto", {"cost.constant.step_s=1e6"}),
              HasSubstr("cost.constant.step_s: must be at most 100000"));
}

TEST_F(ExperimentConfigTest, SharesOfTheRequestsNeedTheirNumber) {
  const std::vector<std::string> endless = {"workload.requests=0", "workload.duration_s=60"};
  for (const std::string field : {"metrics.head_share", "metrics.tail_share"}) {
    std::vector<std::string> overrides = endless;
    overrides.push_back(field + "=0.1");
    EXPECT_THAT(ErrorOf("small.textproto", overrides),
                AllOf(HasSubstr(field), HasSubstr("workload.requests")));
  }
  EXPECT_EQ(ErrorOf("small.textproto", endless), "");
  EXPECT_EQ(ErrorOf("small.textproto", {"metrics.head_share=0.1"}), "");
}

// The name becomes a folder below runs/.
TEST_F(ExperimentConfigTest, RefusesANameThatIsNoFolder) {
  for (const std::string name : {"a/b", "..", ".", "/", ""}) {
    EXPECT_THAT(ErrorOfText("name: \"" + name + "\" base: \"small.textproto\""),
                HasSubstr("name: is \"" + name + "\""));
  }
  EXPECT_EQ(ErrorOfText("name: \"a..b c\" base: \"small.textproto\""), "");
}

// Every leaf of the message is set, but for the members of lists and oneofs that are not chosen.
void ExpectComplete(const google::protobuf::Message& message, const std::string& path) {
  const auto& reflection = *message.GetReflection();
  const std::vector<std::string> optional = {"Memory.utilization",
                                             "Memory.activation_bytes",
                                             "Memory.max_cache_tokens",
                                             "Memory.blocks_override",
                                             "Memory.kv_bytes_override",
                                             "Slo.ttft_s",
                                             "Slo.tpot_s",
                                             "Slo.e2el_s",
                                             "Experiment.base",
                                             "Experiment.cost",  // of a real world
                                             "Workload.trace",
                                             "Workload.servegen",
                                             "Tenant.priority",
                                             "WorkloadClass.arrivals",
                                             "Memory.max_model_length",
                                             "ModelShape.latent",
                                             "ModelShape.recurrent",
                                             "ModelShape.block_index",
                                             "ModelShape.mtp_layer",
                                             "Hardware.energy",
                                             "Hardware.price",
                                             "Hardware.dataflow",
                                             "Formats.attention",
                                             "Formats.recurrent",
                                             "Formats.dense",
                                             "Formats.shared",
                                             "Formats.experts",
                                             "RealWorld.client_timeout_s",
                                             "SimulatedWorld.client_timeout_s",
                                             "System.boundary",
                                             "System.disaggregation",
                                             "System.server",
                                             "System.ffn",
                                             "System.server_asked",
                                             "Experiment.speculation",
                                             "SarathiPolicy.slack_chunking"};
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    const std::string name = message.GetDescriptor()->name() + "." + field->name();
    if (field->is_repeated() || field->real_containing_oneof() != nullptr) continue;
    if (field->options().deprecated()) continue;
    const bool is_order = field->name() == "order";  // unset: the policy's own
    const bool may_lack =
        is_order || std::find(optional.begin(), optional.end(), name) != optional.end();
    EXPECT_TRUE(may_lack || reflection.HasField(message, field)) << path << field->name();
  }
  std::vector<const google::protobuf::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const auto* field : set) {
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    ExpectComplete(reflection.GetMessage(message, field), path + field->name() + ".");
  }
}

TEST_F(ExperimentConfigTest, WritesEveryDefaultAndReadsItBackTheSame) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"policy=static"},
      {"policy=orca {reservation: model}", "cost=linear {base_s: 0.01}"},
      {"policy=vllm_v0 {preemption_mode: swap}", "cost=constant {step_s: 0.25 host_s: 1e-6}"},
      {"policy=sarathi", "world.real.device=CUDA", "slo={ttft_s: 0.5 tpot_s: 0.03 e2el_s: 10}"},
      {"policy=splitfuse", "system.memory.blocks_override=77"},
      {"world.real={dummy_weights: true client_timeout_s: 2.5 rank_timeout_s: 0.5 threads: 3}"},
      {"workload.prediction={kind: lognormal sigma: 0.3}", "workload.duration_s=12.5",
       "workload.max_output={kind: scaled factor: 1.5}"}};
  for (const std::vector<std::string>& overrides : variants) {
    const std::string resolved = WriteResolved(Read("small.textproto", overrides));
    proto::Experiment message;
    ParseText(resolved, {"resolved"}, message);
    ExpectComplete(message, "");
    const ExperimentConfig again = ParseExperiment(resolved, "resolved", "/");
    EXPECT_EQ(WriteResolved(again), resolved);
    EXPECT_TRUE(again.input_files.empty());  // paths that nobody gave are written, but name no file
    // What was said is still there.
    EXPECT_THAT(resolved, HasSubstr("requests: 100"));
  }
}

// A validation must know whether anybody chose the cost model.
TEST_F(ExperimentConfigTest, KnowsWhetherACostModelWasGiven) {
  EXPECT_TRUE(Read("small.textproto", {"cost=roofline {}"}).cost_given);
  const ExperimentConfig simulated = Read("small.textproto");
  EXPECT_FALSE(simulated.cost_given);
  EXPECT_THAT(WriteResolved(simulated), HasSubstr("cost {"));
  // A real run must not leave a choice behind that nobody made.
  const ExperimentConfig real = Read("small.textproto", {"world=real {}"});
  EXPECT_FALSE(real.cost_given);
  EXPECT_THAT(WriteResolved(real), Not(HasSubstr("cost {")));
  EXPECT_FALSE(ParseExperiment(WriteResolved(real), "resolved", "/").cost_given);
}

// Records and resolved configs of earlier versions have them.
TEST_F(ExperimentConfigTest, ReadsFormerNamesAndWritesTheCurrentOnes) {
  const ExperimentConfig config = Read(
      "small.textproto", {"workload.max_output={kind: fixed tokens: 9}", "world.real.device=CUDA"});
  EXPECT_EQ(config.workload.max_output.tokens, 9);
  const std::string resolved = WriteResolved(config);
  EXPECT_THAT(resolved, AllOf(HasSubstr("value: 9"), Not(HasSubstr("tokens: 9"))));
  EXPECT_THAT(resolved, AllOf(HasSubstr("device: cuda"), Not(HasSubstr("CUDA"))));
  EXPECT_EQ(Read("small.textproto",
                 {"workload.max_output={kind: fixed tokens: 9}", "workload.max_output.value=7"})
                .workload.max_output.tokens,
            7);
  EXPECT_THAT(ErrorOf("small.textproto", {"world.real.device=tpu"}),
              AllOf(HasSubstr("allowed: cpu, cuda"), Not(HasSubstr("CUDA"))));
}

// A base with drawn requests can be pointed at a trace.
TEST_F(ExperimentConfigTest, UnsetTakesBackWhatAnExperimentSays) {
  const std::vector<std::string> to_trace = {"workload.trace.path=t.csv"};
  EXPECT_THAT(ErrorOf("small.textproto", to_trace), HasSubstr("excludes workload.shape"));
  const ExperimentConfig config = Read(
      "small.textproto", {"workload.trace.path=t.csv", "!workload.shape", "!workload.arrivals"});
  EXPECT_EQ(config.workload.shape, RequestShape{});
  EXPECT_TRUE(config.workload.trace.has_value());
}

TEST_F(ExperimentConfigTest, KeepsListsAndOptionalsThroughARoundTrip) {
  const ExperimentConfig config =
      Read("small.textproto",
           {"workload.shape.tenants=[{weight: 2 priority: 1 prompt { kind: uniform min: 3 max: 9 "
            "}}, {}]",
            "workload.shape.sessions={turns { kind: fixed value: 3 } think { mean_s: 1.5 }}"});
  const ExperimentConfig again = ParseExperiment(WriteResolved(config), "resolved", "/");
  EXPECT_EQ(again.workload, config.workload);
  ASSERT_EQ(again.workload.shape.tenants.size(), 2u);
  EXPECT_EQ(again.workload.shape.tenants[0].prompt->max, 9);
  EXPECT_FALSE(again.workload.shape.tenants[1].priority.has_value());
  EXPECT_EQ(again.workload.shape.sessions.think.mean, DurationFromSeconds(1.5));
  EXPECT_EQ(again.policy, config.policy);
  EXPECT_EQ(again.system.model_spec, config.system.model_spec);
  EXPECT_EQ(again.system.hardware_spec, config.system.hardware_spec);
}

TEST_F(ExperimentConfigTest, ReadsAHardwareFileByPath) {
  Write("box.textproto", "name: \"box\" memory_bytes: 1");
  EXPECT_THAT(
      ErrorOf("small.textproto", {"system.hardware=" + (folder_ / "box.textproto").string()}),
      HasSubstr("box.textproto"));
  const std::string text =
      ReadTextFile(fs::path(TWIN_SOURCE_DIR) / "sim" / "devices" / "hardware" / "l40s.textproto");
  Write("box.textproto", text);
  EXPECT_EQ(ReadHardwareFile(folder_ / "box.textproto"), HardwarePreset("l40s"));
}

TEST(HardwarePresetTest, EveryNameIsAValidSpecOfThatName) {
  EXPECT_GE(HardwarePresetNames().size(), 9u);
  for (const std::string_view name : HardwarePresetNames()) {
    EXPECT_EQ(HardwarePreset(name).name, name);
  }
}

}  // namespace
}  // namespace twin
