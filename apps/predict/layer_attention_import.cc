#include "apps/predict/layer_attention_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "core/input_error.h"
#include "core/statistics.h"
#include "run/run_control.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/fit_attention.h"

namespace twin::run {
namespace {

using Heads = std::pair<std::int32_t, std::int32_t>;

// Calls of one kind alone; for kernels that do not pack heads also prompts beside decodes.
std::vector<sim::AttentionMeasurement> SamplesOf(sim::AttentionKind kind,
                                                 const std::vector<LayerCall>& calls,
                                                 bool with_decodes = false) {
  const bool is_context = kind == sim::AttentionKind::kContext;
  std::map<std::array<std::int64_t, 7>, sim::AttentionMeasurement> samples;
  for (const LayerCall& call : calls) {
    if (is_context ? call.chunk == 0 || (call.decodes > 0 && !with_decodes)
                   : call.chunk > 0 || call.decodes == 0 || call.context == 0) {
      continue;
    }
    const sim::AttentionMeasurement sample{.query_heads = call.query_heads,
                                           .kv_heads = call.kv_heads,
                                           .batch = is_context ? 1 : call.decodes,
                                           .length = is_context ? call.chunk : call.context,
                                           .microseconds = call.microseconds,
                                           .past = is_context ? call.past : 0,
                                           .decodes = is_context ? call.decodes : 0,
                                           .decode_context = is_context ? call.context : 0};
    samples[{sample.query_heads, sample.kv_heads, sample.batch, sample.length, sample.past,
             sample.decodes, sample.decode_context}] = sample;
  }
  std::vector<sim::AttentionMeasurement> list;
  for (const auto& [key, sample] : samples) list.push_back(sample);
  return list;
}

void AddTable(const HardwareSpec& hardware, std::int32_t head_dim, sim::AttentionKind kind,
              const std::vector<sim::AttentionMeasurement>& samples,
              std::optional<bool> packs_heads, const RunControl& control,
              LayerAttentionImport& result) {
  sim::AttentionTable key;
  key.kind = kind;
  key.head_dim = head_dim;
  sim::AttentionFit fit = sim::FitAttention(
      hardware, key, samples,
      {.packs_heads = packs_heads, .poll = [&control] { EndIfStopped(control); }});
  fit.table.grid = static_cast<std::uint32_t>(result.profile.grids.size());
  result.report.push_back(
      fmt::format("{}: {} rows, {:.1f} / {:.1f} %, {:.1f} / {:.1f} %",
                  kind == sim::AttentionKind::kContext ? "context" : "generation", fit.samples,
                  100 * fit.formula_median, 100 * fit.formula_p90, 100 * fit.held_out_median,
                  100 * fit.held_out_p90));
  result.profile.grids.push_back(std::move(fit.grid));
  result.profile.tables.push_back(std::move(fit.table));
}

// A mixed call without its decodes, what they add at factor 1, and what was measured.
struct Mixed {
  double chunk = 0;
  double added = 0;
  double measured = 0;

  [[nodiscard]] double Error(double factor) const {
    return std::log((chunk + factor * added) / measured);
  }
};

std::vector<Mixed> MixedOf(const HardwareSpec& hardware, std::int32_t head_dim,
                           const std::vector<LayerCall>& calls, sim::AttentionProfile profile) {
  profile.mixed_factor = 1;
  std::map<Heads, sim::AttentionModel> models;
  std::vector<Mixed> mixed;
  for (const LayerCall& call : calls) {
    if (call.chunk == 0 || call.decodes == 0) continue;
    const sim::AttentionHeads heads{
        .query_heads = call.query_heads, .kv_heads = call.kv_heads, .head_dim = head_dim};
    const sim::AttentionModel& attention =
        models
            .try_emplace({call.query_heads, call.kv_heads}, hardware, heads,
                         sim::KernelLibrary::kVllm, profile)
            .first->second;
    const double tokens = call.chunk;
    const double past = call.past;
    const sim::ContextAttention chunk{.chunks = 1,
                                      .tokens = tokens,
                                      .context_tokens = past + tokens,
                                      .pairs = tokens * (past + (tokens + 1) / 2),
                                      .context_tokens_max = past + tokens};
    const sim::GenerationAttention decodes{
        .requests = static_cast<double>(call.decodes),
        .context_tokens = static_cast<double>(call.decodes) * call.context,
        .context_tokens_max = static_cast<double>(call.context),
        .cold = false};
    const double alone = attention(chunk).seconds;
    mixed.push_back({.chunk = alone,
                     .added = attention(chunk, decodes).seconds - alone,
                     .measured = 1e-6 * call.microseconds});
  }
  return mixed;
}

double MeanError(const std::vector<Mixed>& mixed, double factor) {
  double sum = 0;
  for (const Mixed& call : mixed) sum += std::abs(call.Error(factor));
  return sum / static_cast<double>(mixed.size());
}

// To 0.01.
double BestFactor(const std::vector<Mixed>& mixed) {
  double best = 1;
  for (int hundredths = 20; hundredths <= 300; ++hundredths) {
    const double factor = hundredths / 100.0;
    if (MeanError(mixed, factor) < MeanError(mixed, best)) best = factor;
  }
  return best;
}

std::string MixedReport(const std::vector<Mixed>& mixed, double factor) {
  std::vector<double> errors;
  errors.reserve(mixed.size());
  for (const Mixed& call : mixed) errors.push_back(std::abs(std::expm1(call.Error(factor))));
  return fmt::format("both: {} rows, {:.1f} / {:.1f} % with a factor of {:.2f} on decodes",
                     errors.size(), 100 * Median(errors), 100 * Quantile(errors, 0.9), factor);
}

}  // namespace

LayerAttentionImport ImportLayerAttention(const HardwareSpec& hardware, std::int32_t head_dim,
                                          const std::vector<LayerCall>& calls,
                                          const std::string& source, const RunControl& control) {
  for (const LayerCall& call : calls) {
    if (call.kv_heads > 0 && call.query_heads > 0 && call.query_heads % call.kv_heads == 0)
      continue;
    throw InputError(InputError::Kind::kData, source,
                     fmt::format("{} query heads and {} KV heads; allowed: a multiple of them",
                                 call.query_heads, call.kv_heads));
  }
  const auto context = SamplesOf(sim::AttentionKind::kContext, calls);
  const auto generation = SamplesOf(sim::AttentionKind::kGeneration, calls);
  if (context.empty() || generation.empty()) {
    throw InputError(InputError::Kind::kData, source,
                     "lacks calls of prompts alone or of decodes alone; allowed: one or more of "
                     "each");
  }
  LayerAttentionImport best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::optional<bool> packs_heads : {std::optional<bool>(), std::optional(false)}) {
    LayerAttentionImport made;
    const bool with_decodes = packs_heads == false;
    AddTable(hardware, head_dim, sim::AttentionKind::kContext,
             with_decodes ? SamplesOf(sim::AttentionKind::kContext, calls, true) : context,
             packs_heads, control, made);
    AddTable(hardware, head_dim, sim::AttentionKind::kGeneration, generation, {}, control, made);
    const std::vector<Mixed> mixed = MixedOf(hardware, head_dim, calls, made.profile);
    if (mixed.empty()) return made;
    made.profile.mixed_factor = BestFactor(mixed);
    made.report.push_back(MixedReport(mixed, made.profile.mixed_factor));
    const double error = MeanError(mixed, made.profile.mixed_factor);
    if (error >= least) continue;
    least = error;
    best = std::move(made);
  }
  return best;
}

}  // namespace twin::run
