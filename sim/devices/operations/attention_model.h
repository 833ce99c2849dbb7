// How long attention takes on a device: one layer, one rank.
//
// The closed form of the library's kernel (attention_kernel.h), times the correction of its table
// (attention_table.h). A device without a table uses the closed form from its data sheet
// (unmeasured_device.h), with wide intervals.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_profile.h"
#include "sim/devices/operations/attention_table.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/physical_limits.h"

namespace twin::sim {

// Heads of one rank.
struct AttentionHeads {
  std::int32_t query_heads = 0;  // a multiple of kv_heads
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  DType kv_dtype = DType::kBf16;
  DType compute_dtype = DType::kBf16;  // of the products
  std::int32_t window = 0;             // keys that a query sees; 0 = all
};

// Prompt chunks of a step, all together.
struct ContextAttention {
  double chunks = 0;
  double tokens = 0;              // queries of all chunks
  double context_tokens = 0;      // keys read: sum of each chunk's end position
  double pairs = 0;               // (query, key) combinations, causal, without regard to a window
  double context_tokens_max = 0;  // the largest end position; the mean if unknown
};

// Decodes of a step: one query each.
struct GenerationAttention {
  double requests = 0;
  double context_tokens = 0;      // sum of the lengths, the new tokens included
  double context_tokens_max = 0;  // of the longest request; the mean if unknown
  // True: no part of the cache is in L2, as in a step, where other layers ran in between. False: as
  // in a benchmark that calls one layer again and again.
  bool cold = true;
};

// The correction of the table that fits a call best.
struct TableCorrection {
  AttentionCorrection rows = AttentionCorrection(0);
  double mismatch_sd = 0;   // of a table that was measured with another kernel, or other heads
  std::int32_t window = 0;  // of the call, if the table has another one; 0 = it has the same

  // The correction of a call of requests in this position with `length` keys each. kSpread false:
  // without the deviation, from the segment as in AttentionCorrection.
  template <bool kSpread>
  LogRatio At(const GridPosition& requests, double length,
              AttentionCorrection::Segment& segment) const;
};

// The measured decodes of a table of which no other one is larger in every respect.
struct MeasuredDecodes {
  struct Call {
    double requests = 0;
    double length = 0;
    double keys = 0;  // of all requests and KV heads
  };
  std::vector<Call> largest;

  void Add(const Call& call);
  // One of them is at least as large in every respect.
  [[nodiscard]] bool Hold(const AttentionWork& work) const;
};

class AttentionModel {
 public:
  // Reads the tables of `profile` that fit the heads and the library best; takes up to some ms. An
  // empty profile leaves the closed form with the data sheet of `hardware`.
  AttentionModel(const HardwareSpec& hardware, const AttentionHeads& heads,
                 KernelLibrary library = KernelLibrary::kVllm,
                 const AttentionProfile& profile = {});

  // Decodes of one number of requests: all that does not depend on their lengths, and the last
  // places in the table. A new one stands for no decodes yet. Not thread-safe.
  struct Batch {
    double requests = -1;
    GenerationCall call;
    GridPosition position;  // in the table
    AttentionCorrection::Segment measured;
    AttentionCorrection::Segment streamed;
  };

  // Each kind alone, in constant time; 0 seconds without work.
  [[nodiscard]] TimeEstimate operator()(const ContextAttention& chunks) const {
    return Predict<true>(chunks);
  }
  [[nodiscard]] TimeEstimate operator()(const GenerationAttention& decodes) const {
    Batch batch;
    return Predict<true>(decodes, batch);
  }
  // Both kinds in one step.
  [[nodiscard]] TimeEstimate operator()(const ContextAttention& chunks,
                                        const GenerationAttention& decodes) const {
    Batch batch;
    return Predict<true>(chunks, decodes, (*this)(chunks), batch);
  }

  // Predictions as above; kSpread false: seconds alone. `alone`: the chunks without the decodes.
  // `batch` is renewed. REQUIRES: it is new, or was used with this model alone.
  template <bool kSpread>
  [[nodiscard]] TimeEstimate Predict(const ContextAttention& chunks) const;
  template <bool kSpread>
  [[nodiscard]] TimeEstimate Predict(const GenerationAttention& decodes, Batch& batch) const;
  template <bool kSpread>
  [[nodiscard]] TimeEstimate Predict(const ContextAttention& chunks,
                                     const GenerationAttention& decodes, const TimeEstimate& alone,
                                     Batch& batch) const;

 private:
  [[nodiscard]] AttentionWork WorkOf(const ContextAttention& work) const;
  [[nodiscard]] AttentionWork WorkOf(const GenerationAttention& work) const;
  template <bool kSpread>
  [[nodiscard]] LogRatio GenerationCorrection(const AttentionWork& work, Batch& batch,
                                              double microseconds) const;

  AttentionHeads heads_;
  PhysicalLimits limits_;
  MeasuredDecodes measured_;
  ContextKernel context_;
  GenerationKernel generation_;
  double mixed_factor_ = 1;
  TableCorrection context_correction_;
  TableCorrection generation_correction_;
};

}  // namespace twin::sim
