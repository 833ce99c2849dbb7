#include "traces/qwen_bailian_format.h"

#include "traces/jsonl_trace_reader.h"

namespace twin {
namespace {

constexpr JsonlLayout kQwenLayouts[] = {{
    .arrival_key = "timestamp",
    .arrival_unit_seconds = 1,
    .prompt_key = "input_length",
    .output_key = "output_length",
    .mark_key = "parent_chat_id",
    .prefix_chunk_tokens = 16,
    .chunks_key = "hash_ids",
}};

}  // namespace

const TraceFormat& QwenBailianFormat() {
  static const TraceFormat format = JsonlFormat(
      "qwen_bailian",
      "Qwen-Bailian JSONL: timestamp (s), input_length, output_length, parent_chat_id, hash_ids",
      kQwenLayouts);
  return format;
}

}  // namespace twin
