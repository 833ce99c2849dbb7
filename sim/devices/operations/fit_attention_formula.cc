#include "sim/devices/operations/fit_attention_formula.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "sim/devices/operations/attention_kernel.h"
#include "sim/devices/operations/unmeasured_device.h"

namespace twin::sim {
namespace {

constexpr std::size_t kFitSamplesMax = 800;

AttentionWork WorkOf(const AttentionTable& key, const AttentionMeasurement& sample) {
  const double batch = sample.batch;
  const double length = sample.length;
  const double past = sample.past;
  AttentionWork work{.requests = batch,
                     .tokens = batch * length,
                     .context_tokens = batch * (past + length),
                     .pairs = batch * length * (past + (length + 1) / 2),
                     .context_max = past + length,
                     .query_heads = static_cast<double>(sample.query_heads),
                     .kv_heads = static_cast<double>(sample.kv_heads),
                     .head_dim = static_cast<double>(key.head_dim),
                     .window = static_cast<double>(key.window),
                     .kv_bytes = static_cast<double>(ByteSize(key.kv_dtype))};
  if (key.kind == AttentionKind::kGeneration) work.tokens = batch;
  return work;
}

// The decodes in a prompt call; no requests if there are none.
AttentionWork DecodesOf(const AttentionTable& key, const AttentionMeasurement& sample) {
  AttentionWork work = WorkOf(key, sample);
  const double context = sample.decode_context;
  work.requests = work.tokens = sample.decodes;
  work.context_tokens = work.pairs = work.requests * context;
  work.context_max = context;
  return work;
}

double Microseconds(const AttentionTable& table, const AttentionWork& work) {
  return table.kind == AttentionKind::kContext ? ContextMicroseconds(table.context, work)
                                               : GenerationMicroseconds(table.generation, work);
}

// Samples for the search, evenly taken from all.
struct FitSet {
  std::vector<AttentionWork> work;
  std::vector<AttentionWork> decodes;
  std::vector<double> log_us;
};

FitSet Thinned(const AttentionTable& key, const std::vector<AttentionMeasurement>& samples) {
  FitSet set;
  const std::size_t step = samples.size() / kFitSamplesMax + 1;
  for (std::size_t i = 0; i < samples.size(); i += step) {
    set.work.push_back(WorkOf(key, samples[i]));
    set.decodes.push_back(DecodesOf(key, samples[i]));
    set.log_us.push_back(std::log(samples[i].microseconds));
  }
  return set;
}

double Loss(const AttentionTable& table, const FitSet& set) {
  double loss = 0;
  for (std::size_t i = 0; i < set.work.size(); ++i) {
    const double us = set.decodes[i].requests > 0
                          ? MixedMicroseconds(table.context, set.work[i], set.decodes[i])
                          : Microseconds(table, set.work[i]);
    const double error = std::log(us) - set.log_us[i];
    // Absolute, rounded below 3 %.
    loss += std::sqrt(error * error + 0.0009);
  }
  return loss / static_cast<double>(set.work.size());
}

// Multiplies one number after the other by a step up or down while that helps, then halves the
// step.
template <class Fields>
double Search(AttentionTable& table, const Fields& fields, const FitSet& set) {
  double best = Loss(table, set);
  for (double step = 0.6; step > 0.01; step /= 2) {
    for (int round = 0; round < 4; ++round) {
      const double before = best;
      for (double* field : fields) {
        for (const double factor : {std::exp(step), std::exp(-step)}) {
          const double old = *field;
          *field = old * factor;
          const double loss = Loss(table, set);
          if (loss < best) {
            best = loss;
            break;
          }
          *field = old;
        }
      }
      if (best > 0.999 * before) break;
    }
  }
  return best;
}

// The start of the search: the data sheet's closed form, with other discrete choices.
ContextKernel ContextVariant(const HardwareSpec& hardware, const AttentionTable& key,
                             bool packs_heads, double tile_rows) {
  ContextKernel kernel = ContextKernelOf(hardware, key.compute_dtype, key.library);
  kernel.packs_heads = packs_heads;
  kernel.tile *= tile_rows / kernel.tile_rows;
  kernel.key *= tile_rows / kernel.tile_rows;
  kernel.tile_rows = tile_rows;
  return kernel;
}

// Every variant of the discrete choices. TensorRT-LLM packs up to 32 heads, FlashAttention 2 none
// of calls with a window.
std::vector<AttentionTable> Variants(const HardwareSpec& hardware, const AttentionTable& key,
                                     std::optional<bool> packs_heads) {
  std::vector<AttentionTable> variants;
  if (key.kind == AttentionKind::kContext) {
    for (const bool packs : {true, false}) {
      if (packs_heads && packs != *packs_heads) continue;
      for (const double tile_rows : {128, 64}) {
        variants.push_back(key);
        variants.back().context = ContextVariant(hardware, key, packs, tile_rows);
      }
    }
    return variants;
  }
  std::vector<double> maxima = {0};
  if (key.library == KernelLibrary::kTrtllm || key.window > 0) {
    maxima.push_back(key.library == KernelLibrary::kTrtllm ? 32 : 1);
  }
  for (const double packed_group_max : maxima) {
    for (const double slots : {1, 2}) {
      for (const bool splits_single_heads : {true, false}) {
        variants.push_back(key);
        GenerationKernel& kernel = variants.back().generation;
        kernel = GenerationKernelOf(hardware, key.library);
        kernel.splits_single_heads = splits_single_heads;
        kernel.slots_per_multiprocessor = slots;
        kernel.packed_group_max = packed_group_max;
      }
    }
  }
  return variants;
}

}  // namespace

double FormulaMicroseconds(const AttentionTable& table, const AttentionMeasurement& sample) {
  return Microseconds(table, WorkOf(table, sample));
}

AttentionTable FitAttentionFormula(const HardwareSpec& hardware, const AttentionTable& key,
                                   const std::vector<AttentionMeasurement>& samples,
                                   const AttentionFitOptions& options) {
  CHECK(!samples.empty());
  const FitSet set = Thinned(key, samples);
  AttentionTable best = key;
  double best_loss = std::numeric_limits<double>::infinity();
  for (AttentionTable& table : Variants(hardware, key, options.packs_heads)) {
    if (options.poll) options.poll();
    const double loss = key.kind == AttentionKind::kContext
                            ? Search(table, table.context.fields(), set)
                            : Search(table, table.generation.fields(), set);
    if (loss < best_loss) {
      best_loss = loss;
      best = table;
    }
  }
  return best;
}

}  // namespace twin::sim
