#include "record/csv_columns.h"

#include <array>

namespace twin {
namespace {

constexpr std::array kRequests = {
    CsvColumn{"request", "", "number of the request, from 0 in the order of arrival"},
    CsvColumn{"tenant", "", "tenant of the workload"},
    CsvColumn{"priority", "", "smaller is more important"},
    CsvColumn{"arrival_s", "s", "a: when the client sent it"},
    CsvColumn{"scheduled_s", "s", "s: when it was first part of a plan; empty if it never was"},
    CsvColumn{"first_token_s", "s", "f: when its first token was visible; empty without tokens"},
    CsvColumn{"finished_s", "s", "c: when its last token was visible; completed requests only"},
    CsvColumn{"prompt_tokens", "tokens", "length of the prompt"},
    CsvColumn{"output_tokens", "tokens", "n: tokens generated"},
    CsvColumn{"cached_tokens", "tokens",
              "prompt tokens taken from the prefix cache at the first admission"},
    CsvColumn{"preemptions", "preemptions", "how often it lost its memory while running"},
    CsvColumn{"queue_ms", "ms", "s - a"},
    CsvColumn{"ttft_ms", "ms", "f - a"},
    CsvColumn{"tpot_ms", "ms", "(c - f) / (n - 1), rounded to 1 ns; completed requests with n > 1"},
    CsvColumn{"e2el_ms", "ms", "c - a; completed requests only"},
    CsvColumn{"max_itl_ms", "ms", "longest gap between two of its tokens; n > 1"},
    CsvColumn{"status", "",
              "completed, rejected or cancelled; waiting, running or swapped where the run ended "
              "before the request did"},
    CsvColumn{"reject_reason", "",
              "too_long_for_model or too_large_for_cache; empty unless rejected"},
};

constexpr std::array kSteps = {
    CsvColumn{"step", "", "number of the step, from 1"},
    CsvColumn{"planned_at_s", "s", "when the engine planned it"},
    CsvColumn{"started_s", "s", "when the device began it"},
    CsvColumn{"finished_s", "s", "when the engine got its results"},
    CsvColumn{"duration_ms", "ms", "finished_s - started_s"},
    CsvColumn{"prefill_tokens", "tokens", "tokens of prefill items"},
    CsvColumn{"decode_tokens", "tokens", "tokens of decode items, one per item"},
    CsvColumn{"padding_tokens", "tokens", "tokens computed for nobody, in padded batches"},
    CsvColumn{"recomputed_tokens", "tokens",
              "prefill tokens that had been computed before a preemption"},
    CsvColumn{"sequences", "requests", "work items"},
    CsvColumn{"context_tokens", "tokens", "keys that attention reads, summed over the items"},
    CsvColumn{"preempted", "preemptions", "requests that lost their memory in this plan"},
    CsvColumn{"free_blocks", "blocks", "KV blocks neither held nor reserved when planning ended"},
    CsvColumn{"running", "requests", "running requests when planning ended"},
    CsvColumn{"waiting", "requests", "waiting requests when planning ended"},
    CsvColumn{"swapped", "requests", "requests swapped out when planning ended"},
};

constexpr std::array kSeries = {
    CsvColumn{"time_s", "s", "begin of the window"},
    CsvColumn{"waiting", "requests", "waiting requests, mean over the window"},
    CsvColumn{"running", "requests", "running requests, mean over the window"},
    CsvColumn{"swapped", "requests", "requests swapped out, mean over the window"},
    CsvColumn{"kv_used_share", "share", "KV blocks held or reserved, mean over the window"},
    CsvColumn{"prefill_tokens_per_s", "tokens/s",
              "prefill tokens of the steps that ended in the window"},
    CsvColumn{"decode_tokens_per_s", "tokens/s",
              "decode tokens of the steps that ended in the window"},
    CsvColumn{"mean_batch_tokens", "tokens",
              "charged tokens per step, padding included; empty without steps"},
    CsvColumn{"arrivals", "requests", "requests that the engine was told of"},
    CsvColumn{"completions", "requests", "requests that completed"},
};

constexpr std::array kParts = {
    CsvColumn{"step", "", "number of the step, from 1"},
    CsvColumn{"planned_s", "s", "the instant at which the engine planned it"},
    CsvColumn{"started_s", "s", "when the device began it"},
    CsvColumn{"finished_s", "s", "when the device ended it"},
    CsvColumn{"told_s", "s", "the instant at which the engine got its results"},
    CsvColumn{"schedule_ms", "ms",
              "started_s - the later of planned_s and finished_s of the step before"},
    CsvColumn{"build_ms", "ms", "block operations, and assembling the step's inputs"},
    CsvColumn{"gemm_ms", "ms", "matrix products, the LM head's too"},
    CsvColumn{"attention_ms", "ms", "attention over the KV cache"},
    CsvColumn{"communication_ms", "ms", "collectives and sends between ranks"},
    CsvColumn{"other_ms", "ms", "norms, rotary embedding, cache writes, activations, the rest"},
    CsvColumn{"sampling_ms", "ms", "drawing tokens from logits"},
    CsvColumn{"delivery_ms", "ms", "told_s - finished_s"},
};

}  // namespace

std::span<const CsvColumn> RequestColumns() { return kRequests; }
std::span<const CsvColumn> StepColumns() { return kSteps; }
std::span<const CsvColumn> SeriesColumns() { return kSeries; }
std::span<const CsvColumn> PartColumns() { return kParts; }

std::string HeaderLine(std::span<const CsvColumn> columns) {
  std::string line;
  for (const CsvColumn& column : columns) {
    if (!line.empty()) line += ',';
    line += column.name;
  }
  return line + '\n';
}

}  // namespace twin
