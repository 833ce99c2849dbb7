#include "traces/mooncake_format.h"

#include "traces/jsonl_trace_reader.h"

namespace twin {
namespace {

constexpr JsonlLayout kMooncakeLayout{
    .arrival_key = "timestamp",
    .arrival_unit_seconds = 1e-3,
    .prompt_key = "input_length",
    .output_key = "output_length",
    .chunks_key = "hash_ids",
    .prefix_chunk_tokens = 512,
};

}  // namespace

const TraceFormat& MooncakeFormat() {
  static const TraceFormat format = JsonlFormat(
      "mooncake", "Mooncake JSONL: timestamp (ms), input_length, output_length, hash_ids",
      kMooncakeLayout);
  return format;
}

}  // namespace twin
