#include <algorithm>
#include <string>

#include "core/check.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr int kHopper = 90;
constexpr int kAmpere = 80;
constexpr std::int64_t kGenericHeadDimMax = 512;
constexpr std::int64_t kTensorCoreGroupMin = 4;  // below, a tile of 16 rows is mostly empty
constexpr std::int64_t kHopperMultiprocessors = 132;

std::int64_t Group(const AttentionShape& shape) { return shape.heads / shape.kv_heads; }

// True for the group sizes that flashinfer/own_dispatch.cuh compiles.
bool GroupOfCudaCore(std::int64_t group) { return (group >= 1 && group <= 4) || group == 8; }

bool Windowed(const AttentionShape& shape) {
  return std::any_of(shape.windows.begin(), shape.windows.end(),
                     [](std::int64_t window) { return window > 0; });
}

std::string WhyNotGeneric(const AttentionShape& shape) {
  if (shape.head_dim > kGenericHeadDimMax || shape.head_dim % 2 != 0) {
    return "head size " + std::to_string(shape.head_dim) + " (even ones up to " +
           std::to_string(kGenericHeadDimMax) + " are served)";
  }
  return "";
}

// Requirements of all FlashInfer kernels.
std::string WhyNotFlashInfer(const AttentionShape& shape, int compute_capability) {
  if (!BuiltWithFlashInfer().fa2) return "this build has no FlashInfer";
  if (compute_capability < kAmpere) return "needs compute capability 8.0";
  if (shape.logit_cap > 0) return "scores are capped";
  return "";
}

// Queries of a tile of kFa3.
std::int64_t Fa3Tile(std::int64_t head_dim) { return head_dim == 64 ? 192 : 128; }

std::string HeadDimText(const AttentionShape& shape, const char* served) {
  return "head size " + std::to_string(shape.head_dim) + " (" + served + " are served)";
}

}  // namespace

std::string WhyNotAttention(AttentionKernel kernel, const AttentionShape& shape,
                            int compute_capability) {
  if (shape.dtype != DType::kBf16) {
    return "format " + std::string(twin::Name(shape.dtype)) + " (bf16 is served)";
  }
  if (shape.kv_heads <= 0 || shape.heads % shape.kv_heads != 0) {
    return std::to_string(shape.heads) + " heads are no multiple of " +
           std::to_string(shape.kv_heads) + " key heads";
  }
  if (kernel == AttentionKernel::kGeneric) return WhyNotGeneric(shape);
  std::string why = WhyNotFlashInfer(shape, compute_capability);
  if (!why.empty()) return why;
  const bool usual = shape.head_dim == 64 || shape.head_dim == 128;
  switch (kernel) {
    case AttentionKernel::kFa2:
      return usual || shape.head_dim == 256 ? "" : HeadDimText(shape, "64, 128 and 256");
    case AttentionKernel::kFa3:
      if (compute_capability != kHopper) return "needs compute capability 9.0";
      if (!BuiltWithFlashInfer().fa3) return "this build has no code for compute capability 9.0a";
      return usual ? "" : HeadDimText(shape, "64 and 128");
    case AttentionKernel::kCudaCore:
      if (!usual) return HeadDimText(shape, "64 and 128");
      return GroupOfCudaCore(Group(shape))
                 ? ""
                 : std::to_string(Group(shape)) + " heads to a key head (1 to 4 and 8 are served)";
    case AttentionKernel::kGeneric:
      break;
  }
  CHECK(false && "an unknown attention kernel");
  return "";
}

AttentionChoice BestAttention(const AttentionShape& shape, int compute_capability) {
  const auto serves = [&](AttentionKernel kernel) {
    return WhyNotAttention(kernel, shape, compute_capability).empty();
  };
  AttentionChoice choice;
  if (!serves(AttentionKernel::kFa2)) return choice;
  choice.decode = AttentionKernel::kFa2;
  choice.prefill = AttentionKernel::kFa2;
  // With a window, kFa2 skips the keys outside it, but kCudaCore reads them.
  if (Group(shape) < kTensorCoreGroupMin && !Windowed(shape) &&
      serves(AttentionKernel::kCudaCore)) {
    choice.decode = AttentionKernel::kCudaCore;
  }
  if (!serves(AttentionKernel::kFa3)) return choice;
  choice.prefill = AttentionKernel::kFa3;
  // A block of kFa3 takes one tile of queries of one head, with all of its keys. Fewer tiles than
  // multiprocessors leave some multiprocessors idle, whereas kFa2 cuts the keys; kFa3 is then worth
  // while only if its tiles are full.
  choice.fa3_queries_min_of_few = Fa3Tile(shape.head_dim);
  choice.few_prefills = (kHopperMultiprocessors + shape.heads - 1) / shape.heads;
  return choice;
}

AttentionChoice AttentionWith(AttentionKernel asked, const AttentionShape& shape,
                              int compute_capability) {
  AttentionChoice choice;
  if (asked == AttentionKernel::kGeneric) return choice;
  choice = BestAttention(shape, compute_capability);
  if (asked == AttentionKernel::kFa3) return choice;
  choice.prefill = AttentionKernel::kFa2;
  if (asked == AttentionKernel::kCudaCore) choice.decode = asked;
  return choice;
}

}  // namespace twin::kernels::cuda
