#include "traces/llmservingsim_format.h"

#include "traces/jsonl_trace_reader.h"

namespace twin {
namespace {

constexpr JsonlLayout kLlmServingSimLayout{
    .arrival_key = "arrival_s",
    .arrival_unit_seconds = 1,
    .prompt_key = "prompt_tokens",
    .output_key = "output_tokens",
    .chunks_key = "block_hash_ids_16tok",
    .prefix_chunk_tokens = 16,
};

}  // namespace

const TraceFormat& LlmServingSimFormat() {
  static const TraceFormat format = JsonlFormat(
      "llmservingsim",
      "LLMServingSim JSONL: arrival_s, prompt_tokens, output_tokens, block_hash_ids_16tok",
      kLlmServingSimLayout);
  return format;
}

}  // namespace twin
