// A measured run in the formats of several tools, with values that are easy to compute by hand.
//
// Requests are sent at 0, 5, 200 and 300 ms; the last one fails. Each of the others has a prompt of
// 100 tokens and 5 output tokens, 10 ms apart. TTFT: 20, 30, 20 ms. Last tokens: at 60, 75, 260 ms.
#pragma once

#include <string>

namespace twin::testing {

inline constexpr const char* kMeasuredLists =
    R"("input_lens": [100, 100, 100, 50], "output_lens": [5, 5, 5, 0], )"
    R"("ttfts": [0.02, 0.03, 0.02, 0], )"
    R"("itls": [[0.01,0.01,0.01,0.01],[0.01,0.01,0.01,0.01],[0.01,0.01,0.01,0.01],[]], )"
    R"("errors": ["", "", "", "x"])";

inline std::string MeasuredVllm() {
  return std::string("{") + kMeasuredLists +
         R"(, "start_times": [1000, 1000.005, 1000.2, 1000.3]})";
}

inline std::string MeasuredSglang() {
  return std::string(R"({"server_info": {}, "request_rate": 10.0, )") + kMeasuredLists + "}\n";
}

inline std::string AiPerfRecord(const char* start_ns, const char* ttft_ms, const char* e2e_ms) {
  return std::string(R"({"metadata": {"request_start_ns": )") + start_ns +
         R"(}, "metrics": {"input_sequence_length": {"value": 100}, "output_sequence_length": )"
         R"({"value": 5}, "time_to_first_token": {"value": )" +
         ttft_ms + R"(}, "request_latency": {"value": )" + e2e_ms +
         R"(}, "inter_chunk_latency": {"value": [10, 10, 10, 10]}}, "error": null})" + "\n";
}

inline std::string MeasuredAiPerf() {
  return AiPerfRecord("1000000000000", "20", "60") + AiPerfRecord("1000005000000", "30", "70") +
         AiPerfRecord("1000200000000", "20", "60") +
         R"({"metadata": {"request_start_ns": 1000300000000}, "metrics": {}, )"
         R"("error": {"code": 500}})"
         "\n";
}

inline constexpr const char* kMeasuredLog =
    "arrival_s,prompt_tokens,output_tokens,ttft_ms,e2e_ms,status\n0,100,5,20,60,ok\n"
    "0.005,100,5,30,70,ok\n0.2,100,5,20,60,ok\n0.3,50,0,,,error\n";

// Totals of SGLang's benchmark, with further facts about its server.
inline std::string SglangTotals(const std::string& info) {
  return R"({"backend":"sglang","request_rate":2,"duration":20,"completed":40,
"total_input_tokens":40000,"total_output_tokens":4000,"mean_ttft_ms":40,"mean_tpot_ms":7.5,
"mean_e2e_latency_ms":782.5,"accept_length":2.85,"server_info":{"version":"0.5.23",
"model_path":"meta-llama/Llama-3.1-8B-Instruct","tp_size":1,)" +
         info + "}}";
}

}  // namespace twin::testing
