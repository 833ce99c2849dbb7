#include "traces/mooncake_format.h"

#include "traces/jsonl_trace_reader.h"

namespace twin {
namespace {

constexpr JsonlLayout kMooncakeLayouts[] = {{
    .arrival_key = "timestamp",
    .arrival_unit_seconds = 1e-3,
    .prompt_key = "input_length",
    .output_key = "output_length",
    .prefix_chunk_tokens = 512,
    .chunks_key = "hash_ids",
}};

}  // namespace

const TraceFormat& MooncakeFormat() {
  static const TraceFormat format = JsonlFormat(
      "mooncake", "Mooncake JSONL: timestamp (ms), input_length, output_length, hash_ids",
      kMooncakeLayouts);
  return format;
}

}  // namespace twin
