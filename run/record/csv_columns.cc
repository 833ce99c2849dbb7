#include "run/record/csv_columns.h"

#include <array>

#include "core/csv.h"

namespace twin {
namespace {

constexpr std::array kRequests = {
    TableColumn{"request", "", "number of the request, from 0 in the order of arrival"},
    TableColumn{"tenant", "", "tenant of the workload"},
    TableColumn{"priority", "", "smaller is more important"},
    TableColumn{"arrival_s", "s", "a: when the client sent it"},
    TableColumn{"scheduled_s", "s", "s: when it was first part of a plan; empty if it never was"},
    TableColumn{"first_token_s", "s", "f: when its first token was visible; empty without tokens"},
    TableColumn{"finished_s", "s", "c: when its last token was visible; completed requests only"},
    TableColumn{"prompt_tokens", "tokens", "length of the prompt"},
    TableColumn{"output_tokens", "tokens", "n: tokens generated"},
    TableColumn{"cached_tokens", "tokens",
                "prompt tokens taken from the prefix cache at the first admission"},
    TableColumn{"preemptions", "preemptions", "how often it lost its memory while running"},
    TableColumn{"queue_ms", "ms", "s - a"},
    TableColumn{"ttft_ms", "ms", "f - a"},
    TableColumn{
        "tpot_ms", "ms",
        "(c - f) / (n - 1), rounded to 1 ns; completed requests with n > 1 whose tokens are "
        "streamed"},
    TableColumn{"e2el_ms", "ms", "c - a; completed requests only"},
    TableColumn{"max_itl_ms", "ms", "longest ITL of the request; n > 1, streamed"},
    TableColumn{"status", "",
                "completed, rejected or cancelled; waiting, running or swapped where the run ended "
                "before the request did"},
    TableColumn{"reject_reason", "",
                "too_long_for_model, too_large_for_cache or overloaded; empty unless rejected"},
};

constexpr std::array kBoundary = {
    TableColumn{"reached_s", "s", "r: when the engine was told of it"},
    TableColumn{"engine_first_token_s", "s", "f': when the engine had its first token"},
    TableColumn{"engine_finished_s", "s",
                "c': when the engine had its last token; completed requests only"},
    TableColumn{"engine_ttft_ms", "ms", "f' - r"},
    TableColumn{"engine_e2el_ms", "ms", "c' - r; completed requests only"},
};

constexpr std::array kReplica = {
    TableColumn{"replica", "",
                "index of the replica, from 0; -1 for a request that was never admitted"},
};

constexpr std::array kSteps = {
    TableColumn{"step", "", "number of the step in its replica, from 1"},
    TableColumn{"planned_at_s", "s", "when the engine planned it"},
    TableColumn{"started_s", "s", "when the device began it"},
    TableColumn{"finished_s", "s", "when the engine got its results"},
    TableColumn{"duration_ms", "ms", "finished_s - started_s"},
    TableColumn{"prefill_tokens", "tokens", "tokens of prefill items"},
    TableColumn{"decode_tokens", "tokens", "tokens of decode items, one per item"},
    TableColumn{"padding_tokens", "tokens", "tokens computed for nobody, in padded batches"},
    TableColumn{"recomputed_tokens", "tokens",
                "prefill tokens that had been computed before a preemption"},
    TableColumn{"sequences", "requests", "work items"},
    TableColumn{"context_tokens", "tokens", "keys that attention reads, summed over the items"},
    TableColumn{"preempted", "preemptions", "requests that lost their memory in this plan"},
    TableColumn{"free_blocks", "blocks", "KV blocks neither held nor reserved when planning ended"},
    TableColumn{"running", "requests", "running requests when planning ended"},
    TableColumn{"waiting", "requests", "waiting requests when planning ended"},
    TableColumn{"swapped", "requests", "requests swapped out when planning ended"},
};

constexpr std::array kSeries = {
    TableColumn{"time_s", "s", "begin of the window"},
    TableColumn{"waiting", "requests", "waiting requests, mean over the window"},
    TableColumn{"running", "requests", "running requests, mean over the window"},
    TableColumn{"swapped", "requests", "requests swapped out, mean over the window"},
    TableColumn{"kv_used_share", "share", "KV blocks held or reserved, mean over the window"},
    TableColumn{"prefill_tokens_per_s", "tokens/s",
                "prefill tokens of the steps that ended in the window"},
    TableColumn{"decode_tokens_per_s", "tokens/s",
                "decode tokens of the steps that ended in the window"},
    TableColumn{"mean_batch_tokens", "tokens",
                "charged tokens per step, padding included; empty without steps"},
    TableColumn{"arrivals", "requests", "requests that the engine was told of"},
    TableColumn{"completions", "requests", "requests that completed"},
    TableColumn{"power_w", "W",
                "power of all devices, mean over the window; only if the data sheets know it"},
};

constexpr std::array kParts = {
    TableColumn{"step", "", "number of the step, from 1"},
    TableColumn{"planned_s", "s", "the instant at which the engine planned it"},
    TableColumn{"started_s", "s", "when the device began it"},
    TableColumn{"finished_s", "s", "when the device ended it"},
    TableColumn{"told_s", "s", "the instant at which the engine got its results"},
    TableColumn{"schedule_ms", "ms",
                "started_s - the later of planned_s and finished_s of the step before"},
    TableColumn{"build_ms", "ms", "block operations, and assembling the step's inputs"},
    TableColumn{"gemm_ms", "ms", "matrix products, the LM head's too"},
    TableColumn{"attention_ms", "ms", "attention over the KV cache"},
    TableColumn{"communication_ms", "ms", "collectives and sends between ranks"},
    TableColumn{"other_ms", "ms", "norms, rotary embedding, cache writes, activations, the rest"},
    TableColumn{"sampling_ms", "ms", "drawing tokens from logits"},
    TableColumn{"delivery_ms", "ms", "told_s - finished_s"},
    TableColumn{"clocks_ms", "ms", "added by the lower clocks of a warm device; simulated only"},
};

}  // namespace

std::span<const TableColumn> RequestColumns() { return kRequests; }

std::span<const TableColumn> BoundaryColumns() { return kBoundary; }
std::span<const TableColumn> ReplicaColumns() { return kReplica; }
std::span<const TableColumn> StepColumns() { return kSteps; }
std::span<const TableColumn> SeriesColumns(bool power) {
  return std::span(kSeries).first(kSeries.size() - (power ? 0 : 1));
}
std::span<const TableColumn> PartColumns() { return kParts; }

std::vector<TableColumn> RequestColumns(const FurtherColumns& further) {
  std::vector<TableColumn> columns(kRequests.begin(), kRequests.end());
  if (further.boundary) columns.insert(columns.end(), kBoundary.begin(), kBoundary.end());
  if (further.replica) columns.insert(columns.end(), kReplica.begin(), kReplica.end());
  return columns;
}

std::vector<TableColumn> StepColumns(const FurtherColumns& further) {
  std::vector<TableColumn> columns(kSteps.begin(), kSteps.end());
  if (further.replica) columns.insert(columns.end(), kReplica.begin(), kReplica.end());
  return columns;
}

std::vector<TableColumn> PartColumns(const FurtherColumns& further) {
  std::vector<TableColumn> columns(kParts.begin(), kParts.end());
  if (further.replica) columns.insert(columns.end(), kReplica.begin(), kReplica.end());
  return columns;
}

std::string HeaderLine(std::span<const TableColumn> columns) {
  std::string header;
  CsvLine line;
  for (const TableColumn& column : columns) line.Word(column.name);
  line.AppendTo(header);
  return header;
}

}  // namespace twin
