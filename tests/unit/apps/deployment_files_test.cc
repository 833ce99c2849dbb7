// Files that start what was recommended, and requests from options.
#include "apps/recommend/deployment_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "apps/recommend/request_options.h"
#include "core/input_error.h"
#include "tests/unit/apps/small_requests.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::run {
namespace {

using testing::Answer;
using testing::FleetRequest;
using ::testing::HasSubstr;
using testing::kTiny;
using testing::Replaced;
using testing::Request;

std::string TextOfFile(const std::vector<DeploymentFile>& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &DeploymentFile::name);
  return found == files.end() ? "no such file" : found->text;
}

TEST(DeploymentFilesTest, AFleetStandsBehindTheRouterThatWasSimulated) {
  const RecommendConfig request = Request(FleetRequest(16));
  const std::vector<DeploymentFile> files = DeploymentFiles(Answer(request), request);
  EXPECT_THAT(TextOfFile(files, "server.sh"),
              HasSubstr("\nexec vllm serve llama-3-8b --tensor-parallel-size 1 "));
  EXPECT_THAT(TextOfFile(files, "nginx.conf"),
              HasSubstr("least_conn;\n    server 127.0.0.1:8000;\n    server 127.0.0.1:8001;\n"
                        "    server 127.0.0.1:8002;\n    server 127.0.0.1:8003;\n  }"));
  EXPECT_THAT(TextOfFile(files, "kubernetes.yaml"), HasSubstr("  replicas: 4\n"));
  EXPECT_THAT(TextOfFile(files, "kubernetes.yaml"), HasSubstr("server engine-3.engines:8000;"));
  // 60 seconds at 35 requests/s.
  EXPECT_THAT(TextOfFile(files, "bench.sh"),
              HasSubstr("--random-input-len 100 --random-output-len 20 --random-range-ratio 0 \\\n"
                        "  --num-prompts \"${REQUESTS:-2100}\" --request-rate 35 "));
  EXPECT_THAT(TextOfFile(files, "bench.sh"), HasSubstr("URL:-http://localhost:8080"));
  EXPECT_THAT(TextOfFile(files, "prediction.textproto"), HasSubstr("replicas: 4"));
}

// vLLM's benchmark draws each length evenly from (1 - R) to (1 + R) times the mean.
TEST(DeploymentFilesTest, TheServerTakesTheLongestRequestOfTheBenchmark) {
  for (const char* const prompt : {"kind: fixed value: 1000", "kind: uniform min: 900 max: 1100",
                                   "kind: uniform min: 100 max: 900"}) {
    std::string text = Replaced(kTiny, "kind: uniform min: 100 max: 900", prompt);
    text = Replaced(text, "[2, 8, 64]", "[64]");
    const RecommendConfig request = Request(Replaced(text, "[128, 256, 512]", "[512]"));
    const Recommendation answer = Answer(request);
    ASSERT_FALSE(answer.configurations.empty()) << prompt;
    const std::vector<DeploymentFile> files = DeploymentFiles(answer, request);
    const auto number = [&](const char* file, const char* option) {
      const std::string found = TextOfFile(files, file);
      return std::stod(found.substr(found.find(option) + std::string(option).size()));
    };
    const double most = 1 + number("bench.sh", "--random-range-ratio ");
    EXPECT_LE(std::floor(most * number("bench.sh", "--random-input-len ")) +
                  std::floor(most * number("bench.sh", "--random-output-len ")),
              number("server.sh", "--max-model-len "))
        << prompt;
  }
}

TEST(DeploymentFilesTest, TheNextTwoCommandsHaveFoldersOfTheirOwn) {
  const ScratchDirectory scratch("deployments");
  const RecommendConfig request = Request(kTiny);
  WriteDeployment(Answer(request), request, scratch.path() / "d");
  std::set<std::string> commands;
  for (const char* const folder : {"d", "d/2", "d/3"}) {
    commands.insert(ReadText(scratch.File(std::string(folder) + "/server.sh")));
    EXPECT_TRUE(std::filesystem::exists(scratch.path() / folder / "bench.sh"));
  }
  EXPECT_EQ(commands.size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "d/4"));
}

TEST(DeploymentFilesTest, PoolsStandBehindTheProxyOfTheirConnector) {
  std::string text = Replaced(kTiny, "{ name: \"h100-sxm\" }", "{ name: \"h100-sxm\" devices: 6 }");
  text = Replaced(text, "[2, 8, 64]", "[64]");
  text = Replaced(text, "[128, 256, 512]", "[512]");
  text = Replaced(text, "settings {",
                  "settings { tensor_parallel: 2 pipeline_parallel: 1 prefill_replicas: 1 ");
  const RecommendConfig request = Request(text);
  const std::vector<DeploymentFile> files = DeploymentFiles(Answer(request), request);
  EXPECT_EQ(TextOfFile(files, "nginx.conf"), "no such file");
  // Two ranks an engine, each of which may take a port.
  EXPECT_THAT(
      TextOfFile(files, "server.sh"),
      HasSubstr("export VLLM_NIXL_SIDE_CHANNEL_PORT=$((5600 + (${PORT:-8000} - 8000) * 2))\n"
                "exec vllm serve llama-3-8b --tensor-parallel-size 2 "));
  EXPECT_THAT(TextOfFile(files, "proxy.sh"),
              HasSubstr("/v0.33.0/tests/v1/kv_connector/nixl_integration/toy_proxy_server.py\n"
                        "exec python3 toy_proxy_server.py --host 0.0.0.0 --port 8080 \\\n"
                        "  --prefiller-hosts 127.0.0.1 \\\n  --prefiller-ports 8000 \\\n"
                        "  --decoder-hosts 127.0.0.1 127.0.0.1 \\\n"
                        "  --decoder-ports 8001 8002\n"));
  EXPECT_THAT(TextOfFile(files, "bench.sh"), HasSubstr("URL:-http://localhost:8080"));
  const std::string pods = TextOfFile(files, "kubernetes.yaml");
  for (const char* const part :
       {"\n  name: prefill\nspec:\n  serviceName: engines\n  podManagementPolicy: Parallel\n"
        "  replicas: 1\n",
        "\n  name: decode\nspec:\n  serviceName: engines\n  podManagementPolicy: Parallel\n"
        "  replicas: 2\n",
        "matchLabels: { app: engine, role: decode }",
        "name: VLLM_NIXL_SIDE_CHANNEL_HOST\n              valueFrom: { fieldRef: { fieldPath: "
        "status.podIP } }\n",
        "                --prefiller-hosts prefill-0.engines \\\n"
        "                --prefiller-ports 8000 \\\n"
        "                --decoder-hosts decode-0.engines decode-1.engines \\\n"
        "                --decoder-ports 8000 8000\n"})
    EXPECT_THAT(pods, HasSubstr(part));
}

TEST(DeploymentFilesTest, TheFolderItselfHasTheWeightsOfTheCheckpoint) {
  const ScratchDirectory scratch("own_weights");
  std::string text = Replaced(kTiny, "weight_dtype: \"bf16\"", "weight_dtype: [\"bf16\", \"fp8\"]");
  text = Replaced(text, "\"cost.linear.base_s=0.005\"", "\"cost.roofline.host_s=0\"");
  text = Replaced(text, "\"cost.linear.per_prefill_token_s=1e-5\", ", "");
  text = Replaced(text, "\"cost.linear.per_decode_item_s=1e-5\"", "\"system.boundary={}\"");
  const RecommendConfig request = Request(Replaced(text, "[2, 8, 64]", "[64]"));
  const Recommendation answer = Answer(request);
  ASSERT_TRUE(answer.configurations.at(0).candidate.quantised);
  WriteDeployment(answer, request, scratch.path() / "d");
  EXPECT_THAT(ReadText(scratch.File("d/server.sh")), ::testing::Not(HasSubstr("--quantization")));
  EXPECT_THAT(ReadText(scratch.File("d/2/server.sh")), HasSubstr("--quantization fp8"));
  EXPECT_THAT(ReadText(scratch.File("d/2/server.sh")), HasSubstr(answer.configurations[0].command));
}

TEST(DeploymentFilesTest, OneEngineNeedsNoRouter) {
  std::string text = Replaced(kTiny, "vllm-0.33.0", "trtllm-1.0.0");
  text = Replaced(text, "[2, 8, 64]", "[64]");
  text = Replaced(text, "[128, 256, 512]",
                  "[512] context_chunking_policy: \"FIRST_COME_FIRST_SERVED\"");
  const RecommendConfig request = Request(text);
  const std::vector<DeploymentFile> files = DeploymentFiles(Answer(request), request);
  EXPECT_EQ(TextOfFile(files, "nginx.conf"), "no such file");
  EXPECT_THAT(TextOfFile(files, "kubernetes.yaml"),
              HasSubstr("trtllm.yaml && exec trtllm-serve llama-3-8b "));
  EXPECT_THAT(TextOfFile(files, "bench.sh"), HasSubstr("URL:-http://localhost:8000"));
}

TEST(RequestTextTest, OptionsAreTheRequestOfAFile) {
  using apps::ExperimentOption;
  apps::RequestOptions options;
  options.given.given = {{ExperimentOption::kModel, {"--model", "meta-llama/Llama-3.1-8B"}},
                         {ExperimentOption::kHardware, {"--system", "h100"}},
                         {ExperimentOption::kRate, {"--rate", "20"}},
                         {ExperimentOption::kInputLen, {"--isl", "1024"}},
                         {ExperimentOption::kOutputLen, {"--osl", "256"}},
                         {ExperimentOption::kTtft, {"--ttft", "500"}}};
  options.devices = 8;
  options.until = "p99_ttft_ms<=500";
  options.objective = "fleet";
  EXPECT_EQ(
      apps::RequestText(options),
      R"(schema_version: 1
model { name: "llama-3.1-8b" checkpoint: "meta-llama/Llama-3.1-8B" }
hardware { name: "h100-sxm" devices: 8 }
workload {}
slo { ttft_s: 0.5 }
until: "p99_ttft_ms<=500"
objective: fleet
)"
      "settings { server: \"vllm-0.33.0\" token_budget: [2048, 8192] max_num_seqs: [256, 1024] "
      "gpu_memory_utilization: 0.9 pipeline_parallel: 1 }"
      R"(
requests: 1000
replications: 3
seed: 1
set: "workload.arrivals.kind=poisson"
set: "workload.arrivals.rate=20"
set: "workload.shape.prompt.kind=fixed"
set: "workload.shape.prompt.value=1024"
set: "workload.shape.output.kind=fixed"
set: "workload.shape.output.value=256"
set: "workload.max_output.kind=fixed"
set: "workload.max_output.value=256"
)");
  (void)Request(apps::RequestText(options));
  options.given.server_flags = {{"--max-num-seqs", "8"}};
  EXPECT_THROW((void)apps::RequestText(options), InputError);
}

}  // namespace
}  // namespace twin::run
