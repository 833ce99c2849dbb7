#include "exec/open_requests.h"

#include <algorithm>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::exec {

void OpenRequests::Open(RequestId id, std::span<const std::int32_t> prompt,
                        const kernels::SamplingParameters& sampling) {
  OpenRequest& request = requests_.OpenInAnyOrder(id);
  request.tokens.assign(prompt.begin(), prompt.end());
  request.drafts.clear();
  request.blocks.clear();
  request.host_blocks.clear();
  request.sampling = sampling;
}

std::span<const SwapBatch> OpenRequests::Follow(const StepPlan& plan) {
  batch_count_ = 0;
  for (const KvOperation& operation : plan.kv) Apply(operation);
  return std::span(batches_).first(batch_count_);
}

void OpenRequests::Apply(const KvOperation& operation) {
  OpenRequest* const request = requests_.Find(operation.request);
  if (request == nullptr) {
    // The blocks of a request that has been closed return with the next plan. That plan also lists
    // them as taken if they were to receive its keys and values and no plan came between.
    CHECK(operation.kind != KvOperation::Kind::kSwapOut &&
          operation.kind != KvOperation::Kind::kSwapIn);
    return;
  }
  std::vector<BlockId>& device = request->blocks;
  std::vector<BlockId>& host = request->host_blocks;
  switch (operation.kind) {
    case KvOperation::Kind::kAllocate:
    case KvOperation::Kind::kAttach:
      device.push_back(operation.block);
      break;
    case KvOperation::Kind::kReplace: {
      const auto place = std::find(device.begin(), device.end(), operation.other);
      CHECK(place != device.end());
      *place = operation.block;
      break;
    }
    case KvOperation::Kind::kRelease:
      device.clear();
      host.clear();
      break;
    case KvOperation::Kind::kSwapOut:
      CHECK(host.size() < device.size() && device[host.size()] == operation.block);
      Copy(operation.kind, operation.block, operation.other);
      host.push_back(operation.other);
      if (host.size() == device.size()) device.clear();
      break;
    case KvOperation::Kind::kAllocateIn:
    case KvOperation::Kind::kAttachIn:
    case KvOperation::Kind::kSkipIn:
    case KvOperation::Kind::kDropFrom:
      throw InputError(InputError::Kind::kData, "plan",
                       "gives a request several tables of KV blocks (layers that keep different "
                       "tokens); allowed when models run: one table");
    case KvOperation::Kind::kSwapIn:
      CHECK(device.size() < host.size() && host[device.size()] == operation.other);
      Copy(operation.kind, operation.other, operation.block);
      device.push_back(operation.block);
      if (device.size() == host.size()) host.clear();
      break;
  }
}

// A batch has one direction, because a block may be swapped out and be the destination of a later
// swap in.
void OpenRequests::Copy(KvOperation::Kind kind, BlockId from, BlockId to) {
  const bool out = kind == KvOperation::Kind::kSwapOut;
  if (batch_count_ == 0 || batches_[batch_count_ - 1].out != out) {
    if (batch_count_ == batches_.size()) batches_.emplace_back();
    batches_[batch_count_].out = out;
    batches_[batch_count_].copies.clear();
    ++batch_count_;
  }
  batches_[batch_count_ - 1].copies.push_back(
      {static_cast<std::int32_t>(Index(from)), static_cast<std::int32_t>(Index(to))});
}

bool OpenRequests::HasTokensFor(const StepPlan& plan) const {
  return std::all_of(plan.work.begin(), plan.work.end(), [&](const WorkItem& item) {
    const auto end = static_cast<std::size_t>(item.start + item.tokens - item.drafts);
    return end <= requests_[item.request].tokens.size();
  });
}

void OpenRequests::StoreToken(const SampledToken& sampled) {
  OpenRequest* const request = requests_.Find(sampled.request);
  if (request == nullptr || !sampled.fresh) return;
  CHECK(request->tokens.size() == static_cast<std::size_t>(sampled.position));
  request->tokens.push_back(sampled.token);
}

}  // namespace twin::exec
