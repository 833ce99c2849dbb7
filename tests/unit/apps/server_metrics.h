// Text of /metrics of vLLM and SGLang before and after three requests, with values that are easy to
// compute by hand.
#pragma once

#include <string>

namespace twin::testing {

// The totals of a server since its start, as histograms of /metrics hold them.
struct ServerTotals {
  int requests;
  int prompt;  // tokens
  int output;
  double ttft;  // seconds
  double e2e;
  int gaps;  // of 10 ms each
};

// Cumulated buckets: all samples are up to `le`, and `below` of them up to `before`.
inline std::string HistogramText(const std::string& name, double before, double le, int below,
                                 int count, double sum) {
  const std::string labels = R"(engine="0",model_name="llama-3-8b")";
  const auto bucket = [&](const std::string& end, int samples) {
    return name + "_bucket{" + labels + ",le=\"" + end + "\"} " + std::to_string(samples) + "\n";
  };
  return "# TYPE " + name + " histogram\n" + bucket(std::to_string(before), below) +
         bucket(std::to_string(le), count) + bucket("+Inf", count) + name + "_count{" + labels +
         "} " + std::to_string(count) + "\n" + name + "_sum{" + labels + "} " +
         std::to_string(sum) + "\n";
}

// The requests so far had first tokens within 20 to 50 ms and ends within 50 to 100 ms.
inline std::string VllmMetrics(const ServerTotals& totals) {
  const auto histogram = [&](const std::string& name, double before, double le, double sum) {
    return HistogramText("vllm:" + name, before, le, 0, totals.requests, sum);
  };
  return "# HELP python_info x\npython_info{version=\"3, \\\"12\"} 1.0\n" +
         histogram("request_prompt_tokens", 50, 100, totals.prompt) +
         histogram("request_generation_tokens", 2, 5, totals.output) +
         histogram("time_to_first_token_seconds", 0.02, 0.05, totals.ttft) +
         histogram("e2e_request_latency_seconds", 0.05, 0.1, totals.e2e) +
         HistogramText("vllm:inter_token_latency_seconds", 0.005, 0.01, 0, totals.gaps,
                       0.01 * totals.gaps) +
         "vllm:prefix_cache_queries_total{engine=\"0\"} " + std::to_string(totals.prompt) +
         "\nvllm:prefix_cache_hits_total{engine=\"0\"} " + std::to_string(totals.prompt / 4) +
         "\nvllm:num_requests_running{engine=\"0\"} 1.0" +
         "\nvllm:num_preemptions_total{engine=\"0\"} " + std::to_string(totals.requests - 8) +
         "\nvllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"20000\"} 1.0\n";
}

inline std::string SglangMetrics(const ServerTotals& totals) {
  const auto histogram = [&](const std::string& name, double before, double le, double sum) {
    return HistogramText("sglang:" + name, before, le, 0, totals.requests, sum);
  };
  return histogram("time_to_first_token_seconds", 0.02, 0.04, totals.ttft) +
         histogram("e2e_request_latency_seconds", 0.05, 0.1, totals.e2e) +
         "sglang:prompt_tokens_total{model_name=\"llama-3-8b\"} " + std::to_string(totals.prompt) +
         "\nsglang:generation_tokens_total{model_name=\"llama-3-8b\"} " +
         std::to_string(totals.output) +
         "\nsglang:cached_tokens_total{model_name=\"llama-3-8b\"} " +
         std::to_string(totals.prompt / 2) +
         "\nsglang:max_total_num_tokens{model_name=\"llama-3-8b\",tp_rank=\"0\"} 320000\n";
}

// Three requests in between: 300 and 15 tokens, TTFT 70 ms in all, ends 190 ms, 12 gaps of 10 ms.
inline constexpr ServerTotals kBefore = {10, 400, 100, 1, 5, 90};
inline constexpr ServerTotals kAfter = {13, 700, 115, 1.07, 5.19, 102};

}  // namespace twin::testing
