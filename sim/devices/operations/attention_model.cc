#include "sim/devices/operations/attention_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "sim/devices/operations/unmeasured_device.h"

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

// Calls that see all of their keys take as long with a window as without, and longer calls take as
// long as a call that just fills the window. So a table stands in for smaller windows than its own.
// FlashAttention 2 has another kernel for decodes with a window, without splits.
int WindowMismatch(std::int32_t measured, std::int32_t window, bool own_kernel) {
  if (measured == window) return 0;
  if (window == 0) return 8;
  if (measured == 0) return own_kernel ? 6 : 2;
  return measured > window || own_kernel ? 1 : 8;
}

// Head sizes that one kernel is built for. FlashAttention ends at 256, and libraries have slower
// ones for heads of up to 512; a latent that all query heads share (multi-head latent attention:
// 576 numbers) is read once, for keys and values.
enum class HeadFamily : std::uint8_t { kPlain, kLarge, kLatent };
HeadFamily FamilyOf(std::int32_t head_dim) {
  if (head_dim <= 256) return HeadFamily::kPlain;
  return head_dim <= 512 ? HeadFamily::kLarge : HeadFamily::kLatent;
}
// Added where no table of the family is known, and the closed form is that of plain heads.
constexpr double kOtherFamilySd = 1;

double UnmeasuredSd(double plain, const AttentionHeads& heads) {
  return FamilyOf(heads.head_dim) == HeadFamily::kPlain ? plain : std::hypot(plain, kOtherFamilySd);
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

// Deviation that another window adds, as left-out windows show: for decodes with a window from a
// table without one, and for each octave between two windows.
double WindowSd(const AttentionTable& table, std::int32_t window) {
  constexpr double kWithout = 0.06;
  constexpr double kPerOctave = 0.025;
  if (window == 0 || table.window == window) return 0;
  if (table.window == 0) return table.kind == AttentionKind::kGeneration ? kWithout : 0;
  return kPerOctave * std::abs(std::log2(static_cast<double>(table.window) / window));
}

struct Choice {
  const AttentionTable* table = nullptr;
  int mismatch = 0;
};

Choice Nearest(const AttentionProfile& profile, AttentionKind kind, const AttentionHeads& heads,
               KernelLibrary library, bool own_window_kernel) {
  Choice best;
  for (const AttentionTable& table : profile.tables) {
    if (table.kind != kind || FamilyOf(table.head_dim) != FamilyOf(heads.head_dim)) continue;
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
                             const AttentionHeads& heads, double multiprocessors, double unfitted) {
  if (choice.table == nullptr) return {.rows = AttentionCorrection(unfitted)};
  const auto correction = [&](const AttentionTable& table, bool kriges) {
    if (table.rows.empty()) return AttentionCorrection(table.spread);
    AttentionCorrection result(table, profile.grids.at(table.grid), RowsOf(profile, table),
                               heads.query_heads, heads.kv_heads);
    if (kriges) result.KrigePrompts();
    return result;
  };
  AttentionTable table = *choice.table;
  table.context.multiprocessors = multiprocessors;
  TableCorrection result{
      .rows = correction(table, Kriges(table)),
      .mismatch_sd =
          std::min(kMismatch * choice.mismatch + WindowSd(table, heads.window), kMismatchMax)};
  if (table.window != heads.window) result.window = heads.window;
  if (table.base >= 0) {
    const AttentionTable& base = profile.tables.at(static_cast<std::size_t>(table.base));
    result.rows.AddBase(correction(base, false));
  }
  return result;
}

// The largest decodes that the very kernel was measured with; nothing if another one was.
MeasuredDecodes LargestDecodes(const AttentionProfile& profile, const Choice& choice) {
  MeasuredDecodes largest;
  if (choice.table == nullptr || choice.mismatch > 0 || choice.table->rows.empty()) return largest;
  const AttentionGrid& grid = profile.grids.at(choice.table->grid);
  for (const AttentionRow& row : RowsOf(profile, *choice.table)) {
    for (std::size_t i = 0; i < row.log_ratios.size(); ++i) {
      if (std::isnan(row.log_ratios[i])) continue;
      const double requests = grid.batches[i / grid.lengths.size()];
      const double length = grid.lengths[i % grid.lengths.size()];
      largest.Add({requests, length, requests * length * row.kv_heads});
    }
  }
  return largest;
}

// AtLeast(), or its seconds alone.
template <bool kSpread>
TimeEstimate Bounded(const TimeEstimate& estimate, double seconds) {
  if constexpr (kSpread) return AtLeast(estimate, seconds);
  return {.seconds = std::max(estimate.seconds, seconds)};
}

TimeEstimate Corrected(double microseconds, const LogRatio& ratio) {
  return {kSecondsPerMicrosecond * microseconds * std::exp(ratio.mean), ratio.sd,
          kLastingAttentionShare * ratio.sd};
}

}  // namespace

void MeasuredDecodes::Add(const Call& call) {
  const auto within = [](const Call& a, const Call& b) {
    return a.requests <= b.requests && a.length <= b.length && a.keys <= b.keys;
  };
  if (std::ranges::any_of(largest, [&](const Call& other) { return within(call, other); })) return;
  std::erase_if(largest, [&](const Call& other) { return within(other, call); });
  largest.push_back(call);
}

bool MeasuredDecodes::Hold(const AttentionWork& work) const {
  return std::ranges::any_of(largest, [&](const Call& call) {
    return work.requests <= call.requests && work.context_tokens <= work.requests * call.length &&
           work.context_tokens * work.kv_heads <= call.keys;
  });
}

template <bool kSpread>
LogRatio TableCorrection::At(const GridPosition& requests, double length,
                             AttentionCorrection::Segment& segment) const {
  if constexpr (!kSpread) return {rows.MeanAt(requests, length, segment), 0};
  LogRatio ratio = rows.At(requests, length);
  ratio.sd = std::hypot(ratio.sd, mismatch_sd);
  return ratio;
}

AttentionModel::AttentionModel(const HardwareSpec& hardware, const AttentionHeads& heads,
                               KernelLibrary library, const AttentionProfile& profile)
    : heads_(heads),
      limits_(hardware),
      context_(ContextKernelOf(hardware, heads.compute_dtype, library)),
      generation_(GenerationKernelOf(hardware, library)),
      mixed_factor_(profile.mixed_factor) {
  const Choice context = Nearest(profile, AttentionKind::kContext, heads, library, false);
  const bool own_window_kernel = library == KernelLibrary::kVllm && !context_.packs_heads;
  const Choice generation =
      Nearest(profile, AttentionKind::kGeneration, heads, library, own_window_kernel);
  measured_ = LargestDecodes(profile, generation);
  const double multiprocessors = context_.multiprocessors;
  const double straggler = generation_.straggler;
  if (context.table != nullptr) context_ = context.table->context;
  if (generation.table != nullptr) generation_ = generation.table->generation;
  context_.multiprocessors = generation_.multiprocessors = multiprocessors;
  generation_.straggler = profile.straggler_us_per_key.value_or(straggler);
  context_correction_ = CorrectionOf(profile, context, heads, multiprocessors,
                                     UnmeasuredSd(UnmeasuredContextSd(library), heads));
  generation_correction_ = CorrectionOf(profile, generation, heads, multiprocessors,
                                        UnmeasuredSd(UnmeasuredGenerationSd(library), heads));
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

// Chunks after a context, chunks of unequal length, and chunks beyond a window that the table does
// not have, are corrected as prompts with as many tokens and as many keys per query.
template <bool kSpread>
TimeEstimate AttentionModel::Predict(const ContextAttention& chunks) const {
  if (chunks.chunks == 0) return {};
  const AttentionWork work = WorkOf(chunks);
  double length = std::max(1.0, 2 * work.pairs / work.tokens - 1);
  const double window = context_correction_.window;
  if (window > 0 && length > window) length = window * (2 - window / length);
  const GridPosition position = context_correction_.rows.PositionOf(work.tokens / length);
  AttentionCorrection::Segment segment;
  return Bounded<kSpread>(Corrected(ContextMicroseconds(context_, work),
                                    context_correction_.At<kSpread>(position, length, segment)),
                          limits_.Attention(work, heads_.compute_dtype));
}

template <bool kSpread>
TimeEstimate AttentionModel::Predict(const GenerationAttention& decodes, Batch& batch) const {
  if (decodes.requests == 0) return {};
  AttentionWork work = WorkOf(decodes);
  if (decodes.requests != batch.requests) {
    batch = Batch{};
    batch.requests = decodes.requests;
    batch.call = GenerationCallOf(generation_, work);
    batch.position = generation_correction_.rows.PositionOf(decodes.requests);
  }
  const double microseconds = GenerationMicroseconds(generation_, batch.call, work);
  const TimeEstimate estimate =
      Corrected(microseconds, GenerationCorrection<kSpread>(work, batch, microseconds));
  // Some benchmarks let requests share keys, and report less than the memory takes for all of them
  // (TensorRT-LLM on the A100). What was measured is predicted as it was, but never a step.
  if (!work.cold && measured_.Hold(work)) work.kv_bytes = 0;
  return Bounded<kSpread>(estimate, limits_.Attention(work, heads_.compute_dtype));
}

// Measurements of small caches were made in L2. What they say about the launch is true of a cold
// cache too; what they say about reading it is taken from caches that exceed L2.
template <bool kSpread>
LogRatio AttentionModel::GenerationCorrection(const AttentionWork& work, Batch& batch,
                                              double microseconds) const {
  double length = work.context_tokens / work.requests;
  if (generation_correction_.window > 0) {
    length = std::min(length, static_cast<double>(generation_correction_.window));
  }
  const LogRatio measured =
      generation_correction_.At<kSpread>(batch.position, length, batch.measured);
  if (!work.cold) return measured;
  const double bytes = GenerationBytes(work);
  const double beyond = kBeyondL2 * generation_.l2_bytes / bytes;
  if (beyond <= 1) return measured;
  const LogRatio streamed =
      generation_correction_.At<kSpread>(batch.position, length * beyond, batch.streamed);
  const double share = std::min(1.0, bytes / generation_.rate / microseconds);
  return {measured.mean + share * (streamed.mean - measured.mean),
          std::max(measured.sd, streamed.sd)};
}

// One call computes both. Kernels that pack heads split decodes in a mixed call, too; in other
// kernels each query head of a decode takes a tile.
template <bool kSpread>
TimeEstimate AttentionModel::Predict(const ContextAttention& chunks,
                                     const GenerationAttention& decodes, const TimeEstimate& alone,
                                     Batch& batch) const {
  if (chunks.chunks == 0) return Predict<kSpread>(decodes, batch);
  if (decodes.requests == 0) return alone;
  const AttentionWork of_chunks = WorkOf(chunks);
  AttentionWork of_decodes = WorkOf(decodes);
  const DType compute = heads_.compute_dtype;
  const double least =
      std::max(limits_.Attention(of_chunks, compute), limits_.Attention(of_decodes, compute));
  TimeEstimate added = alone;
  if (context_.packs_heads) {
    const double launch = kSecondsPerMicrosecond * generation_.launch;
    added = Predict<kSpread>(decodes, batch);
    added.seconds = std::max(0.0, added.seconds - launch);
  } else {
    of_decodes.cold = of_chunks.cold;
    added.seconds = kSecondsPerMicrosecond * (MixedMicroseconds(context_, of_chunks, of_decodes) -
                                              ContextMicroseconds(context_, of_chunks));
  }
  added.seconds *= mixed_factor_;
  const double seconds = alone.seconds + added.seconds;
  if constexpr (!kSpread) return Bounded<kSpread>({.seconds = seconds}, least);
  const double sd =
      std::hypot(alone.seconds * alone.log_sd, added.seconds * added.log_sd) / seconds;
  const TimeEstimate both{seconds, std::hypot(sd, kMixed),
                          std::hypot(kLastingAttentionShare * sd, kMixed)};
  return Bounded<kSpread>(both, least);
}

template TimeEstimate AttentionModel::Predict<true>(const ContextAttention&) const;
template TimeEstimate AttentionModel::Predict<false>(const ContextAttention&) const;
template TimeEstimate AttentionModel::Predict<true>(const GenerationAttention&, Batch&) const;
template TimeEstimate AttentionModel::Predict<false>(const GenerationAttention&, Batch&) const;
template TimeEstimate AttentionModel::Predict<true>(const ContextAttention&,
                                                    const GenerationAttention&, const TimeEstimate&,
                                                    Batch&) const;
template TimeEstimate AttentionModel::Predict<false>(const ContextAttention&,
                                                     const GenerationAttention&,
                                                     const TimeEstimate&, Batch&) const;

}  // namespace twin::sim
