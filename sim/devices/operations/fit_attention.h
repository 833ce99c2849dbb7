// Makes a table of an attention kernel from measurements of equal requests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_profile.h"

namespace twin::sim {

struct AttentionMeasurement {
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::uint32_t batch = 0;
  std::uint32_t length = 0;
  double microseconds = 0;
  // Keys before each prompt, and decodes of `decode_context` keys in the same call. Samples that
  // have them shape the closed form, but not the table.
  std::uint32_t past = 0;
  std::uint32_t decodes = 0;
  std::uint32_t decode_context = 0;
};

// Absolute relative errors: of all samples, and of heads that the table was made without.
struct AttentionFit {
  AttentionTable table;  // grid 0, base 0 or -1
  AttentionGrid grid;
  std::size_t samples = 0;
  double formula_median = 0;
  double formula_p90 = 0;
  double held_out_median = 0;
  double held_out_p90 = 0;
};

struct AttentionFitOptions {
  bool thins_lengths = false;  // keep powers of 2, of decodes every other one below 64
  // Whether a tile of a prompt kernel holds all query heads of a KV head; not set = whichever fits
  // better.
  std::optional<bool> packs_heads{};
  // A table that may serve as base, if that brings heads left out closer. Borrowed.
  const AttentionFit* base = nullptr;
  // Called often, if set; what it throws ends the fit.
  std::function<void()> poll = {};
};

// The kernel that `key` names (kind, library, formats, head_dim, window). Fits the closed form by
// least absolute logarithms (a pattern search from the data sheet's), and chooses the scales and
// the spread on pairs of heads left out one at a time. REQUIRES: samples; no two of the same call.
AttentionFit FitAttention(const HardwareSpec& hardware, const AttentionTable& key,
                          const std::vector<AttentionMeasurement>& samples,
                          const AttentionFitOptions& options);

}  // namespace twin::sim
