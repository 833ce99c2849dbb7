#include "kernels/cuda/attention_split.h"

#include "core/check.h"

namespace twin::kernels::cuda {
namespace {

AttentionArrays From(const AttentionArrays& arrays, std::int64_t sequence) {
  AttentionArrays later = arrays;
  later.first_query += sequence;
  later.kv_lengths += sequence;
  later.page_begin += sequence;
  later.last_page_tokens += sequence;
  return later;
}

// True if every sequence begins at position 0, so that its own rows have all of its keys.
bool BeginAtZero(const AttentionPart& part) {
  for (std::int64_t i = 0; i < part.sequences; ++i) {
    const std::int32_t queries = part.host.first_query[i + 1] - part.host.first_query[i];
    if (part.host.kv_lengths[i] != queries) return false;
  }
  return part.sequences > 0;
}

}  // namespace

AttentionKernels KernelsFor(const AttentionWork& work, const AttentionChoice& choice) {
  const std::int64_t prefills = work.sequences - work.decodes;
  const std::int64_t queries = work.rows - work.decodes;
  AttentionKernels kernels{choice.decode, choice.prefill};
  for (const MeasuredDecodes& each : choice.measured) {
    if (each.decodes_min > work.decodes) break;
    kernels.decode = each.way.kernel;
    kernels.waves = each.way.waves;
  }
  if (prefills == 0) return kernels;
  if (choice.prefill == AttentionKernel::kGeneric) return {};
  const std::int64_t queries_min =
      prefills < choice.few_prefills ? choice.fa3_queries_min_of_few : choice.fa3_queries_min;
  const bool shorter = choice.prefill == AttentionKernel::kFa3 && queries < queries_min * prefills;
  if (shorter) kernels.prefill = AttentionKernel::kFa2;
  return kernels;
}

AttentionSplit SplitAttention(const AttentionWork& work, const AttentionChoice& choice) {
  CHECK(work.decodes >= 0 && work.decodes <= work.sequences);
  CHECK(work.host.first_query[work.decodes] == work.decodes);
  CHECK(work.host.first_query[work.sequences] == work.rows);
  CHECK(!work.graph || work.decodes == work.sequences);
  const AttentionKernels kernels = KernelsFor(work, choice);
  AttentionSplit split;
  split.decode_kernel = kernels.decode;
  split.prefill_kernel = kernels.prefill;
  const std::int64_t prefills = work.sequences - work.decodes;
  if (prefills > 0 && kernels.prefill == AttentionKernel::kGeneric) {
    split.prefills = {
        .sequences = work.sequences, .rows = work.rows, .host = work.host, .device = work.device};
    return split;
  }
  split.decodes = {.sequences = work.decodes,
                   .rows = work.decodes,
                   .host = work.host,
                   .device = work.device,
                   .graph = work.graph,
                   .waves = kernels.waves};
  split.prefills = {.sequences = prefills,
                    .first_row = work.decodes,
                    .rows = work.rows - work.decodes,
                    .host = From(work.host, work.decodes),
                    .device = From(work.device, work.decodes)};
  split.prefills.fresh = kernels.prefill == AttentionKernel::kFa3 && choice.fa3_reads_rows &&
                         BeginAtZero(split.prefills);
  return split;
}

}  // namespace twin::kernels::cuda
