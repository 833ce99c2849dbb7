// CudaExecutor: steps in advance of the first one. A kernel is loaded when it is launched for the
// first time, which would stall a run.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/cuda/cuda_executor.h"
#include "kernels/cuda/top_logits.h"

namespace twin::exec::cuda {
namespace {

// Our own kernels differ by the power of two of the number of tokens at most, and from here on no
// more. Products are loaded by CudaModel::LoadProducts().
constexpr std::int64_t kTokensOfAllKernels = 512;
// Rows of an expert from which on products of experts are computed alike.
constexpr std::int64_t kRowsOfExpert = 64;

// Tokens of the largest step that is run in advance.
std::int64_t TokensOf(const MoeSpec& moe) {
  if (moe.experts == 0) return kTokensOfAllKernels;
  return std::max(kTokensOfAllKernels, kRowsOfExpert * moe.experts / moe.experts_per_token);
}

}  // namespace

void CudaExecutor::WarmUp() {
  const ModelWork work = model_.WorkWith(config_.kv_dtype);
  const std::int64_t bytes = work.layer_bytes + work.head_bytes + work.experts * work.expert_bytes;
  if (bytes < model_.options().warmed_bytes_min) return;
  if (model_.works_with_others() && !model_.capturable()) return;
  const StepSizes& largest = model_.options().largest_step;
  const std::int64_t tokens = std::min(largest.tokens, TokensOf(model_.share().shape.moe));
  const std::int64_t sequences = std::min(largest.sequences, tokens);
  for (std::int64_t size = 1; size < tokens; size *= 2) WarmUp(0, size);
  WarmUp(0, tokens);
  for (std::int64_t size = 2 * tokens; size < largest.tokens; size *= 2) WarmUp(0, size);
  WarmUp(0, largest.tokens);
  model_.LoadProducts();
  // Beside decodes, prefills have attention of their own.
  WarmUp(std::min(tokens / 2, sequences - 1), tokens / 2);
  // Prefills that do not begin at position 0 read keys from the cache.
  WarmUp(0, tokens / 2, std::min<std::int64_t>(tokens, model_.positions()) / 2);
  if (buckets_.empty()) {
    for (std::int64_t size = 2; size <= sequences; size *= 2) WarmUp(size, 0);
  }
  AwaitStream(model_.device().compute(), "steps in advance");
}

void CudaExecutor::WarmUp(std::int64_t decodes, std::int64_t prefill, std::int64_t start) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(decodes), 1);
  const std::int64_t longest = model_.positions() - start;
  for (; prefill > 0; prefill -= lengths.back()) {
    lengths.push_back(std::min(prefill, longest));
  }
  OpenRequests requests;
  StepPlan plan;
  std::int64_t blocks = 0;
  for (const std::int64_t length : lengths) {
    const RequestId id{static_cast<std::uint32_t>(plan.work.size())};
    requests.Open(id, std::vector<std::int32_t>(static_cast<std::size_t>(start + length)), {});
    for (std::int64_t covered = 0; covered < start + length; covered += config_.block_size) {
      requests[id].blocks.push_back(BlockId{static_cast<std::int32_t>(blocks++)});
    }
    plan.work.push_back({.request = id,
                         .start = static_cast<std::int32_t>(start),
                         .tokens = static_cast<std::int32_t>(length),
                         .emits = true});
  }
  const StepSizes& largest = model_.options().largest_step;
  const auto count = static_cast<std::int64_t>(lengths.size());
  if (count == 0 || count > largest.sequences || blocks > config_.blocks) return;
  const DeviceBatch batch = Stage(plan, requests, 0);
  LapEvents none(LapEvents::Kind::kNone);
  Enqueue(batch, none);
  if (logits_.rows == 0) return;
  kernels::cuda::FindTopLogits(model_.device().compute(), logits_, batch.arrays.sampling,
                               batch.arrays.first_sampled, sampled_.As<std::int32_t>(),
                               top_logits_.As<kernels::TopLogits>());
}

}  // namespace twin::exec::cuda
