#include "sim/cost/operations/attention_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sim/cost/operations/unmeasured_device.h"

namespace twin::sim {
namespace {

constexpr double kSecondsPerMicrosecond = 1e-6;
// Added for each property in which the nearest table differs, up to about the error of decodes on
// devices that nobody measured. With heads of 64 or of 128, or an fp8 cache, left out of the H100's
// tables, 97 to 100 % of the rows are inside the 90 % intervals.
constexpr double kMismatch = 0.1;
constexpr double kMismatchMax = 0.3;
// The mean error of heads over batches and lengths, in units of the spread: 0.5 to 0.8 for decodes
// and 0.5 to 1 for prompts, heads left out or not (H100, H200, L40S).
constexpr double kLastingAttentionShare = 0.7;
constexpr double kMixed = 0.08;  // spread of a chunk and decodes in one call
// Caches of this many L2 sizes are measured as a step finds them.
constexpr double kBeyondL2 = 1.5;

// Calls that see all of their keys take as long with a window as without, and longer ones as those
// that just fill it. So a table stands in for smaller windows than its own. FlashAttention 2 has
// another kernel for decodes with a window, without splits.
int WindowMismatch(std::int32_t measured, std::int32_t window, bool own_kernel) {
  if (measured == window) return 0;
  if (window == 0) return 8;
  if (measured == 0) return own_kernel ? 6 : 2;
  return measured > window || own_kernel ? 1 : 8;
}

// How much the table's kernel differs from the one that runs; 0 = it is the same.
int Mismatch(const AttentionTable& table, const AttentionHeads& heads, KernelLibrary library,
             bool own_window_kernel) {
  const DType kv_dtype = heads.kv_dtype == DType::kFp16 ? DType::kBf16 : heads.kv_dtype;
  int score = WindowMismatch(table.window, heads.window, own_window_kernel);
  if (table.library != library) score += 2;
  if (table.kv_dtype != kv_dtype) score += 3;
  if (table.compute_dtype != heads.compute_dtype) score += 3;
  if (table.head_dim != heads.head_dim) score += table.head_dim > heads.head_dim ? 4 : 5;
  return score;
}

struct Choice {
  const AttentionTable* table = nullptr;
  int mismatch = 0;
};

Choice Nearest(const AttentionProfile& profile, AttentionKind kind, const AttentionHeads& heads,
               KernelLibrary library, bool own_window_kernel) {
  Choice best;
  for (const AttentionTable& table : profile.tables) {
    if (table.kind != kind) continue;
    const int mismatch = Mismatch(table, heads, library, own_window_kernel);
    const bool nearer =
        best.table == nullptr || mismatch < best.mismatch ||
        (mismatch == best.mismatch && std::abs(table.head_dim - heads.head_dim) <
                                          std::abs(best.table->head_dim - heads.head_dim));
    if (nearer) best = {&table, mismatch};
  }
  return best;
}

std::vector<AttentionRow> RowsOf(const AttentionProfile& profile, const AttentionTable& table) {
  std::vector<AttentionRow> rows;
  rows.reserve(table.rows.size());
  for (const std::string& text : table.rows) {
    rows.push_back(ParseAttentionRow(profile.grids.at(table.grid), text, "profile"));
  }
  return rows;
}

TableCorrection CorrectionOf(const AttentionProfile& profile, const Choice& choice,
                             const AttentionHeads& heads, double unfitted) {
  if (choice.table == nullptr) return {.rows = AttentionCorrection(unfitted)};
  const auto correction = [&](const AttentionTable& table) {
    if (table.rows.empty()) return AttentionCorrection(table.spread);
    return AttentionCorrection(table, profile.grids.at(table.grid), RowsOf(profile, table),
                               heads.query_heads, heads.kv_heads);
  };
  const AttentionTable& table = *choice.table;
  TableCorrection result{.rows = correction(table),
                         .mismatch_sd = std::min(kMismatch * choice.mismatch, kMismatchMax)};
  if (table.window != heads.window) result.window = heads.window;
  if (table.base >= 0) {
    result.rows.AddBase(correction(profile.tables.at(static_cast<std::size_t>(table.base))));
  }
  return result;
}

Estimate Corrected(double microseconds, const LogRatio& ratio) {
  return {kSecondsPerMicrosecond * microseconds * std::exp(ratio.mean), ratio.sd,
          kLastingAttentionShare * ratio.sd};
}

}  // namespace

LogRatio TableCorrection::operator()(double requests, double length) const {
  LogRatio ratio = rows(requests, length);
  ratio.sd = std::hypot(ratio.sd, mismatch_sd);
  return ratio;
}

AttentionModel::AttentionModel(const HardwareSpec& hardware, const AttentionHeads& heads,
                               KernelLibrary library, const AttentionProfile& profile)
    : heads_(heads),
      context_(ContextKernelOf(hardware, heads.compute_dtype, library)),
      generation_(GenerationKernelOf(hardware, library)),
      mixed_factor_(profile.mixed_factor) {
  const Choice context = Nearest(profile, AttentionKind::kContext, heads, library, false);
  const bool own_window_kernel = library == KernelLibrary::kVllm && !context_.packs_heads;
  const Choice generation =
      Nearest(profile, AttentionKind::kGeneration, heads, library, own_window_kernel);
  const double multiprocessors = context_.multiprocessors;
  const double straggler = generation_.straggler;
  if (context.table != nullptr) context_ = context.table->context;
  if (generation.table != nullptr) generation_ = generation.table->generation;
  context_.multiprocessors = generation_.multiprocessors = multiprocessors;
  generation_.straggler = profile.straggler_us_per_key.value_or(straggler);
  context_correction_ = CorrectionOf(profile, context, heads, UnmeasuredContextSd(library));
  generation_correction_ =
      CorrectionOf(profile, generation, heads, UnmeasuredGenerationSd(library));
}

AttentionWork AttentionModel::WorkOf(const ContextAttention& work) const {
  return {.requests = work.chunks,
          .tokens = work.tokens,
          .context_tokens = work.context_tokens,
          .pairs = work.pairs,
          .context_max = std::max(work.context_tokens_max, work.context_tokens / work.chunks),
          .query_heads = static_cast<double>(heads_.query_heads),
          .kv_heads = static_cast<double>(heads_.kv_heads),
          .head_dim = static_cast<double>(heads_.head_dim),
          .window = static_cast<double>(heads_.window),
          .kv_bytes = static_cast<double>(ByteSize(heads_.kv_dtype))};
}

AttentionWork AttentionModel::WorkOf(const GenerationAttention& work) const {
  return {.requests = work.requests,
          .tokens = work.requests,
          .context_tokens = work.context_tokens,
          .pairs = work.context_tokens,
          .context_max = std::max(work.context_tokens_max, work.context_tokens / work.requests),
          .query_heads = static_cast<double>(heads_.query_heads),
          .kv_heads = static_cast<double>(heads_.kv_heads),
          .head_dim = static_cast<double>(heads_.head_dim),
          .window = static_cast<double>(heads_.window),
          .kv_bytes = static_cast<double>(ByteSize(heads_.kv_dtype)),
          .cold = work.cold};
}

// Chunks behind a context, chunks of unequal length, and chunks beyond a window that the table does
// not have, are corrected as prompts with as many tokens and as many keys per query.
Estimate AttentionModel::operator()(const ContextAttention& chunks) const {
  if (chunks.chunks == 0) return {};
  const AttentionWork work = WorkOf(chunks);
  double length = std::max(1.0, 2 * work.pairs / work.tokens - 1);
  const double window = context_correction_.window;
  if (window > 0 && length > window) length = window * (2 - window / length);
  return Corrected(ContextMicroseconds(context_, work),
                   context_correction_(work.tokens / length, length));
}

Estimate AttentionModel::operator()(const GenerationAttention& decodes) const {
  if (decodes.requests == 0) return {};
  const AttentionWork work = WorkOf(decodes);
  const double microseconds = GenerationMicroseconds(generation_, work);
  return Corrected(microseconds, GenerationCorrection(work, microseconds));
}

// Measurements of small caches were made in L2. What they say about the launch is true of a cold
// cache too; what they say about reading it is taken from caches that exceed L2.
LogRatio AttentionModel::GenerationCorrection(const AttentionWork& work,
                                              double microseconds) const {
  double length = work.context_tokens / work.requests;
  if (generation_correction_.window > 0) {
    length = std::min(length, static_cast<double>(generation_correction_.window));
  }
  const LogRatio measured = generation_correction_(work.requests, length);
  if (!work.cold) return measured;
  const double bytes = GenerationBytes(work);
  const double beyond = kBeyondL2 * generation_.l2_bytes / bytes;
  if (beyond <= 1) return measured;
  const LogRatio streamed = generation_correction_(work.requests, length * beyond);
  const double share = std::min(1.0, bytes / generation_.rate / microseconds);
  return {measured.mean + share * (streamed.mean - measured.mean),
          std::max(measured.sd, streamed.sd)};
}

// One call computes both. Kernels that pack heads split decodes in a mixed call, too; in others
// each query head of a decode takes a tile.
Estimate AttentionModel::operator()(const ContextAttention& chunks,
                                    const GenerationAttention& decodes) const {
  if (chunks.chunks == 0) return (*this)(decodes);
  if (decodes.requests == 0) return (*this)(chunks);
  const Estimate first = (*this)(chunks);
  Estimate added = first;
  if (context_.packs_heads) {
    const double launch = kSecondsPerMicrosecond * generation_.launch;
    added = (*this)(decodes);
    added.seconds = std::max(0.0, added.seconds - launch);
  } else {
    AttentionWork work = WorkOf(decodes);
    const AttentionWork of_chunks = WorkOf(chunks);
    work.cold = of_chunks.cold;
    added.seconds = kSecondsPerMicrosecond * (MixedMicroseconds(context_, of_chunks, work) -
                                              ContextMicroseconds(context_, of_chunks));
  }
  added.seconds *= mixed_factor_;
  const double seconds = first.seconds + added.seconds;
  const double sd =
      std::hypot(first.seconds * first.log_sd, added.seconds * added.log_sd) / seconds;
  return {seconds, std::hypot(sd, kMixed), std::hypot(kLastingAttentionShare * sd, kMixed)};
}

}  // namespace twin::sim
