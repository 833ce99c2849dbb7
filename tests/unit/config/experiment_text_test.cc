#include "config/experiment_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace twin {
namespace {

constexpr const char* kText =
    "seed: 1\n"
    "world {\n"
    "  simulated {\n"
    "  }\n"
    "}\n"
    "workload {\n"
    "  requests: 3\n"
    "  arrivals {\n"
    "    rate: 2\n"
    "  }\n"
    "}\n";

TEST(ExperimentTextTest, EachLineHasThePathOfItsField) {
  const std::vector<FieldLine> lines = LinesOf(kText);
  std::string paths;
  for (const FieldLine& line : lines) paths += line.path + " ";
  EXPECT_EQ(paths,
            "seed world world.simulated world.simulated world workload workload.requests "
            "workload.arrivals workload.arrivals.rate workload.arrivals workload ");
  EXPECT_EQ(TextOf(lines), kText);
}

TEST(ExperimentTextTest, CommentsStandBehindValues) {
  std::vector<FieldLine> lines = LinesOf("seed: 1\nworld {\n}\n");
  AddComments([](std::string_view path) { return path == "name" ? "" : "why"; }, lines);
  EXPECT_EQ(TextOf(lines), "seed: 1  # why\nworld {\n}\n");
}

TEST(ExperimentTextTest, MessagesWithoutAKeptValueGoToo) {
  std::vector<FieldLine> lines = LinesOf(kText);
  KeepFields([](std::string_view path) { return path == "workload.arrivals.rate"; }, lines);
  EXPECT_EQ(TextOf(lines), "workload {\n  arrivals {\n    rate: 2\n  }\n}\n");
}

TEST(ExperimentTextTest, AnEmptyMessageThatIsKeptStays) {
  std::vector<FieldLine> lines = LinesOf(kText);
  KeepFields([](std::string_view path) { return path == "world.simulated"; }, lines);
  EXPECT_EQ(TextOf(lines), "world {\n  simulated {\n  }\n}\n");
}

ExperimentConfig ServedConfig() {
  const ExperimentTemplate experiment = ExperimentTemplate::FromText(
      "workload { requests: 3 arrivals { kind: all_at_once } shape { prompt { kind: fixed value: 8 "
      "} output { kind: fixed value: 2 } } } system { model: 'llama-3.1-8b' hardware: 'h100-sxm' "
      "server: 'vllm-0.33.0' } policy { vllm_v1 { max_num_seqs: 64 } }",
      "test");
  return experiment.With({}, std::filesystem::current_path());
}

TEST(FieldOriginsTest, TellWhoSetAField) {
  const FieldOrigins origins(ServedConfig());
  EXPECT_EQ(origins.Find("policy.vllm_v1.max_num_seqs"), FieldOrigin::kAsked);
  EXPECT_EQ(origins.Find("policy.vllm_v1.max_num_batched_tokens"), FieldOrigin::kServer);
  EXPECT_EQ(origins.Find("system.model_shape.layers"), FieldOrigin::kModel);
  EXPECT_EQ(origins.Find("system.hardware_spec.sm_count"), FieldOrigin::kHardware);
  EXPECT_EQ(origins.Find("workload.max_in_flight"), FieldOrigin::kDefault);
}

TEST(FieldOriginsTest, WhatWasAskedReadsAsAnEqualExperiment) {
  const ExperimentConfig config = ServedConfig();
  const ExperimentTemplate again = ExperimentTemplate::FromText(WriteAsked(config), "test");
  EXPECT_EQ(WriteResolved(again.With({}, std::filesystem::current_path())), WriteResolved(config));
}

}  // namespace
}  // namespace twin
