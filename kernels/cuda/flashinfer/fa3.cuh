// FlashInfer's attention of long queries on Hopper's tensor cores (FlashAttention-3). Not in one
// source with the other kernels: their headers give equal names to different things.
#pragma once

// Its GEMM and test headers are not needed here, and take a quarter of the time.
#define FLASHINFER_CUTLASS_UTILS_CUH_
#include <cutlass/numeric_types.h>

#include "kernels/cuda/flashinfer/planner.cuh"
//
#include <memory>

#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/variants.cuh>
#include <flashinfer/attention/mask.cuh>

#include "kernels/cuda/flashinfer/paged_arguments.cuh"

namespace twin::kernels::cuda {

// Does not pack the query heads of a group into one tile, nor cut a long context into pieces: meant
// for many queries per sequence.
template <std::uint32_t kDim, bool kWindow>
class Fa3 final : public PlannedAttention {
 public:
  Fa3(const AttentionShape& shape, std::int64_t window)
      : shape_(shape), window_left_(WindowLeft(window)) {}

  void Plan(const AttentionPart& part, const PlanMemory& memory) override {
    CHECK(!part.graph);
    part_ = part;
    memory_ = memory;
    // In rows, keys begin where the queries do; in pages, at a place in page_indices.
    const std::int32_t* const first_key = part.fresh ? part.host.first_query : part.host.page_begin;
    const int code = flashinfer::PrefillSM90Plan<std::int32_t>(
        nullptr, 0, memory.ints, memory.host, memory.int_bytes, plan_,
        Mutable(part.host.first_query), Mutable(first_key), Mutable(part.host.kv_lengths),
        Unsigned(part.rows), Unsigned(part.sequences), Unsigned(shape_.heads),
        Unsigned(shape_.kv_heads), kDim, kDim, Unsigned(shape_.block_size),
        /*causal=*/true, /*enable_cuda_graph=*/false, sizeof(Element), kNoStream);
    CheckCuda(code, "planning attention");
    // More than 4096 tiles a head would need another kernel.
    CHECK(!plan_.same_schedule_for_all_heads);
  }

  void Run(StreamView stream, const AttentionCall& call) const override {
    // The launchers return the last error of any earlier call.
    CheckCuda(cudaGetLastError(), "before attention");
    CheckCuda(part_.fresh ? RunOnRows(stream, call) : RunOnPages(stream, call), "attention");
  }

 private:
  using Element = cutlass::bfloat16_t;
  using PagedParams = flashinfer::BatchPrefillPagedParams<Element, Element, Element, std::int32_t>;
  using RowParams = flashinfer::BatchPrefillRaggedParams<Element, Element, Element, std::int32_t>;
  using Variant = flashinfer::DefaultAttention</*cap=*/false>;
  static constexpr auto kMask = flashinfer::MaskMode::kCausal;

  static std::uint32_t Unsigned(std::int64_t value) { return static_cast<std::uint32_t>(value); }
  std::int32_t* Ints(std::int64_t offset) const {
    return flashinfer::GetPtrFromBaseOffset<std::int32_t>(memory_.ints, offset);
  }

  // Gathers keys and values from the pages.
  cudaError_t RunOnPages(StreamView stream, const AttentionCall& call) const {
    const KvCacheShape& cache = call.cache.shape;
    auto params = MakeParams<PagedParams>(call);
    params.k_ptr = reinterpret_cast<Element*>(call.cache.Tile(0, call.layer, 0, 0));
    params.v_ptr = reinterpret_cast<Element*>(call.cache.Tile(0, call.layer, 1, 0));
    params.k_stride_n = params.v_stride_n = cache.head_dim;
    params.k_stride_h = params.v_stride_h = cache.block_size * cache.head_dim;
    params.k_page_stride = params.v_page_stride = PageStride(cache);
    params.page_size = static_cast<int>(shape_.block_size);
    params.kv_indices = Mutable(part_.device.page_indices);
    return flashinfer::BatchPrefillWithPagedKVCacheDispatched<
        kDim, kDim, kMask, kWindow, /*SAME_SCHEDULE_FOR_ALL_HEADS=*/false, Variant>(
        params, /*enable_pdl=*/false, stream.get());
  }

  // Copies whole tiles of keys and values from the step's rows (TMA). A sequence's last tile may
  // reach into rows of the next sequence, which must be finite: their weights are zero. After
  // nnz_kv, the end of the step, tiles are filled with zeros.
  cudaError_t RunOnRows(StreamView stream, const AttentionCall& call) const {
    CheckForTma(call.k);
    CheckForTma(call.v);
    auto params = MakeParams<RowParams>(call);
    params.k_ptr = call.k.As<Element>();
    params.v_ptr = call.v.As<Element>();
    params.k_stride_n = call.k.stride;
    params.v_stride_n = call.v.stride;
    params.k_stride_h = params.v_stride_h = kDim;
    params.nnz_kv = params.nnz_qo;
    return flashinfer::BatchPrefillWithRaggedKVCacheDispatched<
        kDim, kDim, kMask, kWindow, /*SAME_SCHEDULE_FOR_ALL_HEADS=*/false, Variant>(
        params, /*enable_pdl=*/false, stream.get());
  }

  static void CheckForTma(const DeviceMatrix& matrix) {
    constexpr std::size_t kTmaAlignment = 16;
    CHECK(reinterpret_cast<std::uintptr_t>(matrix.data) % kTmaAlignment == 0);
    CHECK(static_cast<std::size_t>(matrix.stride) * sizeof(Element) % kTmaAlignment == 0);
  }

  // Sets all parameters but keys and values. Rows are the step's own; queries and results are found
  // by row.
  template <class Params>
  Params MakeParams(const AttentionCall& call) const {
    Params params{};
    params.q_ptr = call.q.As<Element>();
    params.o_ptr = call.out.As<Element>();
    params.q_stride_n = call.q.stride;
    params.o_stride_n = call.out.stride;
    params.q_stride_h = params.o_stride_h = kDim;
    params.nnz_qo = part_.first_row + part_.rows;
    params.num_qo_heads = static_cast<int>(shape_.heads);
    params.num_kv_heads = static_cast<int>(shape_.kv_heads);
    params.group_size = static_cast<int>(shape_.heads / shape_.kv_heads);
    params.window_left = window_left_;
    params.causal = true;
    params.additional_params.sm_scale = shape_.scale;
    params.qo_tile_indices = Ints(plan_.qo_tile_indices_offset);
    params.qo_indptr = Ints(plan_.qo_indptr_offset);
    params.kv_indptr = Ints(plan_.kv_indptr_offset);
    params.qo_lens = Ints(plan_.qo_len_offset);
    params.kv_lens = Ints(plan_.kv_len_offset);
    params.head_indices = Ints(plan_.head_indices_offset);
    params.work_indptr = Ints(plan_.work_indptr_offset);
    params.batch_indices = Ints(plan_.batch_indices_offset);
    return params;
  }

  AttentionShape shape_;
  std::int32_t window_left_;
  AttentionPart part_;
  PlanMemory memory_;
  flashinfer::PrefillPlanSM90Info plan_;
};

template <std::uint32_t kDim>
std::unique_ptr<PlannedAttention> MakeFa3(const AttentionShape& shape, std::int64_t window) {
  CHECK(shape.dtype == DType::kBf16);
  if (window > 0) return std::make_unique<Fa3<kDim, true>>(shape, window);
  return std::make_unique<Fa3<kDim, false>>(shape, window);
}

}  // namespace twin::kernels::cuda
