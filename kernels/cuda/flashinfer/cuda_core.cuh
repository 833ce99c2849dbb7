// FlashInfer's attention of single queries without tensor cores.
#pragma once

#include "kernels/cuda/flashinfer/own_dispatch.cuh"
//
#include "kernels/cuda/flashinfer/planner.cuh"
//
#include <cuda_bf16.h>

#include <memory>
#include <type_traits>

#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>

#include "kernels/cuda/flashinfer/paged_arguments.cuh"

namespace twin::kernels::cuda {

// Reads all keys and values, also the ones that a window hides.
template <std::uint32_t kDim, bool kWindow>
class CudaCore final : public PlannedAttention {
 public:
  CudaCore(const AttentionShape& shape, std::int64_t window)
      : shape_(shape), window_left_(WindowLeft(window)) {}

  void Plan(const AttentionPart& part, const PlanMemory& memory) override {
    CHECK(part.rows == part.sequences && part.first_row == 0);
    part_ = part;
    memory_ = memory;
    CheckCuda(PlanGroup(), "planning attention");
  }

  void Run(StreamView stream, const AttentionCall& call) const override {
    CheckRowOffsets(call);
    Params params(call.q.As<Element>(), nullptr, PagedKv<Element>(part_, call),
                  call.out.As<Element>(), nullptr, nullptr, Unsigned(shape_.heads),
                  static_cast<std::int32_t>(call.q.stride), static_cast<std::int32_t>(kDim),
                  window_left_, 0.0F, shape_.scale, 1.0F, 1e4F);
    params.request_indices = Ints(plan_.request_indices_offset);
    params.kv_tile_indices = Ints(plan_.kv_tile_indices_offset);
    params.o_indptr = Ints(plan_.o_indptr_offset);
    params.kv_chunk_size_ptr = Ints(plan_.kv_chunk_size_ptr_offset);
    params.padded_batch_size = Unsigned(plan_.padded_batch_size);
    Element* partial = nullptr;
    float* partial_sums = nullptr;
    if (plan_.split_kv) {
      partial = flashinfer::GetPtrFromBaseOffset<Element>(memory_.floats, plan_.v_offset);
      partial_sums = flashinfer::GetPtrFromBaseOffset<float>(memory_.floats, plan_.s_offset);
      if (part_.graph) {
        params.block_valid_mask =
            flashinfer::GetPtrFromBaseOffset<bool>(memory_.ints, plan_.block_valid_mask_offset);
      }
    }
    const int code =
        flashinfer::BatchDecodeWithPagedKVCacheDispatched<kDim, flashinfer::PosEncodingMode::kNone,
                                                          Variant, Params>(
            params, partial, partial_sums, /*enable_pdl=*/LaunchesOverlap(), stream.get());
    CheckCuda(code, "attention");
  }

 private:
  using Element = __nv_bfloat16;
  using Params = flashinfer::BatchDecodeParams<Element, Element, Element, std::int32_t>;
  using Variant = flashinfer::DefaultAttention</*mask=*/false, kWindow, /*cap=*/false,
                                               /*alibi=*/false>;

  static std::uint32_t Unsigned(std::int64_t value) { return static_cast<std::uint32_t>(value); }
  std::int32_t* Ints(std::int64_t offset) const {
    return flashinfer::GetPtrFromBaseOffset<std::int32_t>(memory_.ints, offset);
  }

  cudaError_t PlanGroup() {
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    DISPATCH_GQA_GROUP_SIZE(group, kGroup, { return PlanFor<kGroup>(); })
  }

  // The planner asks how many blocks of the kernel for this group run at once.
  template <std::size_t kGroup>
  cudaError_t PlanFor() {
    return flashinfer::DecodePlan<kDim, flashinfer::PosEncodingMode::kNone, Variant, Params>(
        memory_.floats, memory_.float_bytes, memory_.ints, memory_.host, memory_.int_bytes, plan_,
        Mutable(part_.host.page_begin), Unsigned(part_.sequences), Unsigned(shape_.heads),
        Unsigned(shape_.block_size), part_.graph, kNoStream,
        flashinfer::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<
            kGroup, kDim, flashinfer::PosEncodingMode::kNone, Variant, Params>);
  }

  AttentionShape shape_;
  std::int32_t window_left_;
  AttentionPart part_;
  PlanMemory memory_;
  flashinfer::DecodePlanInfo plan_;
};

template <std::uint32_t kDim>
std::unique_ptr<PlannedAttention> MakeCudaCore(const AttentionShape& shape, std::int64_t window) {
  CHECK(shape.dtype == DType::kBf16);
  if (window > 0) return std::make_unique<CudaCore<kDim, true>>(shape, window);
  return std::make_unique<CudaCore<kDim, false>>(shape, window);
}

}  // namespace twin::kernels::cuda
