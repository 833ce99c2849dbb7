// FlashInfer's tensor-core attention for any number of queries (FlashAttention-2).
#pragma once

#include "kernels/cuda/flashinfer/own_dispatch.cuh"
//
#include "kernels/cuda/flashinfer/planner.cuh"
//
#include <cuda_bf16.h>

#include <memory>
#include <type_traits>

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>

#include "kernels/cuda/flashinfer/paged_arguments.cuh"

namespace twin::kernels::cuda {

template <std::uint32_t kDim, bool kWindow>
class Fa2 final : public PlannedAttention {
 public:
  Fa2(const AttentionShape& shape, std::int64_t window)
      : shape_(shape), window_left_(WindowLeft(window)) {}

  void Plan(const AttentionPart& part, const PlanMemory& memory) override {
    part_ = part;
    memory_ = memory;
    // The planner counts rows from 0 by itself: only differences of first_query matter to it. A
    // graph's sequences have one query each, and its sizes must not depend on anything else.
    const int code = flashinfer::PrefillPlan<std::int32_t>(
        memory.floats, memory.float_bytes, memory.ints, memory.host, memory.int_bytes, plan_,
        Mutable(part.host.first_query), Mutable(part.host.page_begin), Unsigned(part.rows),
        Unsigned(part.sequences), Unsigned(shape_.heads), Unsigned(shape_.kv_heads), kDim, kDim,
        Unsigned(shape_.block_size), part.graph, sizeof(Element), window_left_,
        FixedPiece(part, shape_, Multiprocessors()), /*disable_split_kv=*/false,
        /*num_colocated_ctas=*/-FurtherBlocks(part),
        /*uniform_q_len=*/part.graph ? 1 : 0, kNoStream);
    CheckCuda(code, "planning attention");
  }

  void Run(StreamView stream, const AttentionCall& call) const override {
    CheckRowOffsets(call);
    Params params = MakeParams(call);
    Element* partial = nullptr;
    float* partial_sums = nullptr;
    if (plan_.split_kv) {
      params.merge_indptr = Ints(plan_.merge_indptr_offset);
      partial = flashinfer::GetPtrFromBaseOffset<Element>(memory_.floats, plan_.v_offset);
      partial_sums = flashinfer::GetPtrFromBaseOffset<float>(memory_.floats, plan_.s_offset);
    }
    if (part_.graph) {
      params.block_valid_mask =
          flashinfer::GetPtrFromBaseOffset<bool>(memory_.ints, plan_.block_valid_mask_offset);
      params.total_num_rows = flashinfer::GetPtrFromBaseOffset<std::uint32_t>(
          memory_.ints, plan_.total_num_rows_offset);
    }
    CheckCuda(Launch(params, partial, partial_sums, stream), "attention");
  }

 private:
  using Element = __nv_bfloat16;
  using Params = flashinfer::BatchPrefillPagedParams<Element, Element, Element, std::int32_t>;
  using Variant = flashinfer::DefaultAttention</*mask=*/false, kWindow, /*cap=*/false,
                                               /*alibi=*/false>;

  // Blocks that the planner may fill in addition to the blocks that the device runs at once.
  [[nodiscard]] std::int64_t FurtherBlocks(const AttentionPart& part) const {
    if (!part.graph) return 0;
    const std::int64_t pieces =
        PiecesMax(part.sequences, part.waves.value_or(1), shape_, Multiprocessors());
    return pieces * shape_.kv_heads - 2 * Multiprocessors();
  }

  static std::uint32_t Unsigned(std::int64_t value) { return static_cast<std::uint32_t>(value); }
  std::int32_t* Ints(std::int64_t offset) const {
    return flashinfer::GetPtrFromBaseOffset<std::int32_t>(memory_.ints, offset);
  }

  // Queries are found by first_query, from the step's first row; results by the plan, from the
  // part's first row.
  Params MakeParams(const AttentionCall& call) const {
    Params params(call.q.As<Element>(), PagedKv<Element>(part_, call), nullptr,
                  Mutable(part_.device.first_query), nullptr, nullptr,
                  call.out.As<Element>() + part_.first_row * call.out.stride, nullptr, nullptr,
                  Unsigned(shape_.heads), static_cast<std::int32_t>(call.q.stride),
                  static_cast<std::int32_t>(kDim), window_left_, 0.0F, shape_.scale, 1.0F, 1e4F);
    params.request_indices = Ints(plan_.request_indices_offset);
    params.qo_tile_indices = Ints(plan_.qo_tile_indices_offset);
    params.kv_tile_indices = Ints(plan_.kv_tile_indices_offset);
    params.o_indptr = Ints(plan_.o_indptr_offset);
    params.kv_chunk_size_ptr = Ints(plan_.kv_chunk_size_ptr_offset);
    params.padded_batch_size = Unsigned(plan_.padded_batch_size);
    params.max_total_num_rows = Unsigned(plan_.total_num_rows);
    return params;
  }

  cudaError_t Launch(const Params& params, Element* partial, float* partial_sums,
                     StreamView stream) const {
    const auto launch = [&](auto tile) {
      return flashinfer::BatchPrefillWithPagedKVCacheDispatched<
          /*SAME_KV_STRIDES=*/true, decltype(tile)::value, kDim, kDim,
          flashinfer::PosEncodingMode::kNone, /*USE_FP16_QK_REDUCTION=*/false,
          flashinfer::MaskMode::kCausal, Variant, Params>(
          params, partial, partial_sums, /*enable_pdl=*/LaunchesOverlap(), stream.get());
    };
    switch (plan_.cta_tile_q) {
      case 16:
        return launch(std::integral_constant<std::uint32_t, 16>{});
      case 64:
        return launch(std::integral_constant<std::uint32_t, 64>{});
      case 128:
        if constexpr (kDim < 256) return launch(std::integral_constant<std::uint32_t, 128>{});
        break;
      default:
        break;
    }
    return cudaErrorInvalidValue;
  }

  AttentionShape shape_;
  std::int32_t window_left_;
  AttentionPart part_;
  PlanMemory memory_;
  flashinfer::PrefillPlanInfo plan_;
};

template <std::uint32_t kDim>
std::unique_ptr<PlannedAttention> MakeFa2(const AttentionShape& shape, std::int64_t window) {
  CHECK(shape.dtype == DType::kBf16);
  if (window > 0) return std::make_unique<Fa2<kDim, true>>(shape, window);
  return std::make_unique<Fa2<kDim, false>>(shape, window);
}

}  // namespace twin::kernels::cuda
