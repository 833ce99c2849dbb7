#include "traces/llmservingsim_format.h"

#include <cstdint>

#include "traces/jsonl_trace_reader.h"

namespace twin {
namespace {

// A server's cache knows whole blocks; 16 tokens are the most common size.
constexpr std::int32_t kBlockTokens = 16;

constexpr JsonlLayout kLlmServingSimLayouts[] = {
    {
        .arrival_key = "arrival_time_ns",
        .arrival_unit_seconds = 1e-9,
        .prompt_key = "input_toks",
        .output_key = "output_toks",
        .prefix_chunk_tokens = kBlockTokens,
        .prompt_ids_key = "input_tok_ids",
        .output_ids_key = "output_tok_ids",
        .turns_key = "sub_requests",
        .pause_ns_key = "tool_duration_ns",
        .refused_key = "nodes",
        .sorts = true,
    },
    {
        .arrival_key = "arrival_s",
        .arrival_unit_seconds = 1,
        .prompt_key = "prompt_tokens",
        .output_key = "output_tokens",
        .prefix_chunk_tokens = kBlockTokens,
        .chunks_key = "block_hash_ids_16tok",
    },
};

}  // namespace

const TraceFormat& LlmServingSimFormat() {
  static const TraceFormat format = JsonlFormat(
      "llmservingsim",
      "LLMServingSim JSONL: arrival_time_ns, input_toks, output_toks, input_tok_ids, sub_requests; "
      "or arrival_s, prompt_tokens, output_tokens, block_hash_ids_16tok",
      kLlmServingSimLayouts);
  return format;
}

}  // namespace twin
