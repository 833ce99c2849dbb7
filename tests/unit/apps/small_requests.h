// Small requests for recommendations, and their answers.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "apps/recommend/recommendation.h"
#include "config/recommend_config.h"
#include "run/run_control.h"

namespace twin::run::testing {

// A step takes 5 ms, and 10 us more for every token: many sequences are better, and small budgets
// bound the time between tokens.
inline constexpr const char* kTiny = R"(
model { name: "llama-3-8b" }
hardware { name: "h100-sxm" }
workload {
  arrivals { kind: poisson rate: 20 }
  shape {
    prompt { kind: uniform min: 100 max: 900 }
    output { kind: uniform min: 2 max: 40 }
  }
}
until: "mean_ttft_ms<=200 && mean_tpot_ms<=15"
settings {
  server: "vllm-0.33.0"
  token_budget: [128, 256, 512]
  max_num_seqs: [2, 8, 64]
  gpu_memory_utilization: 0.9
  weight_dtype: "bf16"
}
requests: 160
replications: 3
set: ["system.memory.blocks_override=600", "cost.linear.base_s=0.005",
      "cost.linear.per_prefill_token_s=1e-5", "cost.linear.per_decode_item_s=1e-5"]
)";

inline RecommendConfig Request(const std::string& text) {
  return ParseRecommendation(text, "request", ".");
}

inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

inline Recommendation Answer(const RecommendConfig& request, bool exhaustive = false,
                             int jobs = 2) {
  RunControl control;
  return Recommend(request, {.jobs = jobs, .exhaustive = exhaustive}, control);
}

// 35 requests of 100 and 20 tokens a second, at equal distances.
inline std::string FleetRequest(int devices) {
  std::string text = Replaced(kTiny, "kind: poisson rate: 20", "kind: constant rate: 35");
  text = Replaced(text, "{ kind: uniform min: 100 max: 900 }", "{ kind: fixed value: 100 }");
  text = Replaced(text, "{ kind: uniform min: 2 max: 40 }", "{ kind: fixed value: 20 }");
  text = Replaced(text, "[2, 8, 64]", "1");
  text = Replaced(text, "[128, 256, 512]", "512");
  text = Replaced(text, "mean_ttft_ms<=200 && mean_tpot_ms<=15", "p99_ttft_ms<=20");
  text = Replaced(text, "per_prefill_token_s=1e-5", "per_prefill_token_s=0");
  text = Replaced(text, "per_decode_item_s=1e-5", "per_decode_item_s=0");
  text = Replaced(text, "settings {",
                  "settings { tensor_parallel: 1 pipeline_parallel: 1 prefill_replicas: 0 ");
  return Replaced(text, "{ name: \"h100-sxm\" }",
                  fmt::format("{{ name: \"h100-sxm\" devices: {} }}", devices)) +
         "objective: fleet";
}

}  // namespace twin::run::testing
