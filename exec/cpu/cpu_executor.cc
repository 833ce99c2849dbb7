#include "exec/cpu/cpu_executor.h"

#include <algorithm>

#include "core/check.h"

namespace twin::exec {

CpuExecutor::CpuExecutor(CpuModel& model, const CpuExecutorConfig& config)
    : model_(model),
      config_(config),
      device_(model.CacheShape(config.kv_dtype, config.blocks, config.block_size)),
      host_(model.CacheShape(config.kv_dtype, config.host_blocks, config.block_size)) {}

void CpuExecutor::Open(RequestId id, std::span<const std::int32_t> prompt,
                       const kernels::SamplingParameters& sampling) {
  OpenRequest& request = requests_.Open(id);
  request.tokens.assign(prompt.begin(), prompt.end());
  request.blocks.clear();
  request.host_blocks.clear();
  request.sampling = sampling;
}

void CpuExecutor::Close(RequestId id) { requests_.Close(id); }

std::span<const SampledToken> CpuExecutor::Execute(const StepPlan& plan) {
  LapTimer& laps = model_.laps();
  laps.Start();
  for (const KvOperation& operation : plan.kv) Apply(operation);
  FlushCopies();
  sampled_.clear();
  logit_rows_.clear();
  if (!plan.work.empty()) BuildBatch(plan);
  laps.Lap(StepPart::kBuild);
  if (plan.work.empty()) return sampled_;
  const kernels::MatrixView<const float> logits = model_.Forward(batch_, device_.view());
  laps.Lap(StepPart::kOther);
  Sample(plan, logits);
  laps.Lap(StepPart::kSampling);
  return sampled_;
}

void CpuExecutor::Apply(const KvOperation& operation) {
  OpenRequest* const request = requests_.Find(operation.request);
  if (request == nullptr) {
    // The blocks of a request that has been closed return with the next plan.
    CHECK(operation.kind == KvOperation::Kind::kRelease);
    return;
  }
  std::vector<BlockId>& device = request->blocks;
  std::vector<BlockId>& host = request->host_blocks;
  switch (operation.kind) {
    case KvOperation::Kind::kAllocate:
    case KvOperation::Kind::kAttach:
      device.push_back(operation.block);
      break;
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
    case KvOperation::Kind::kSwapIn:
      CHECK(device.size() < host.size() && host[device.size()] == operation.other);
      Copy(operation.kind, operation.other, operation.block);
      device.push_back(operation.block);
      if (device.size() == host.size()) host.clear();
      break;
  }
}

// A block may be swapped out and be the destination of a later swap in: directions do not mix.
void CpuExecutor::Copy(KvOperation::Kind kind, BlockId from, BlockId to) {
  if (kind != copy_kind_) FlushCopies();
  copy_kind_ = kind;
  copies_.push_back({static_cast<std::int32_t>(Index(from)), static_cast<std::int32_t>(Index(to))});
}

void CpuExecutor::FlushCopies() {
  if (copies_.empty()) return;
  const bool out = copy_kind_ == KvOperation::Kind::kSwapOut;
  kernels::CopyBlocks(model_.pool(), (out ? device_ : host_).view(), (out ? host_ : device_).view(),
                      copies_);
  copies_.clear();
}

bool CpuExecutor::Knows(const StepPlan& plan) const {
  return std::all_of(plan.work.begin(), plan.work.end(), [&](const WorkItem& item) {
    const auto end = static_cast<std::size_t>(item.start) + static_cast<std::size_t>(item.tokens);
    return end <= requests_[item.request].tokens.size();
  });
}

void CpuExecutor::Learn(const SampledToken& sampled) {
  CHECK(!model_.links().place.last_stage());
  OpenRequest* const request = requests_.Find(sampled.request);
  if (request == nullptr || !sampled.fresh) return;
  CHECK(request->tokens.size() == static_cast<std::size_t>(sampled.position));
  request->tokens.push_back(sampled.token);
}

void CpuExecutor::BuildBatch(const StepPlan& plan) {
  const bool reads_tokens = model_.links().place.first_stage();
  CHECK(!reads_tokens || Knows(plan));
  items_.clear();
  std::int32_t longest = 0;
  for (const WorkItem& item : plan.work) longest = std::max(longest, item.tokens);
  if (!reads_tokens) unread_tokens_.resize(static_cast<std::size_t>(longest));
  for (const WorkItem& item : plan.work) {
    const OpenRequest& request = requests_[item.request];
    const auto start = static_cast<std::size_t>(item.start);
    const auto count = static_cast<std::size_t>(item.tokens);
    const std::span<const std::int32_t> tokens =
        reads_tokens ? std::span(request.tokens).subspan(start, count)
                     : std::span(unread_tokens_).first(count);
    items_.push_back({tokens, item.start, request.blocks});
  }
  batch_.Assign(items_, config_.block_size);
  for (std::size_t i = 0; i < plan.work.size(); ++i) {
    const std::int32_t end = batch_.first_row[i + 1];
    std::int32_t row = config_.logits_of_all_rows ? batch_.first_row[i] : end - 1;
    if (!config_.logits_of_all_rows && !plan.work[i].emits) continue;
    for (; row < end; ++row) batch_.logit_rows.push_back(row);
  }
  // A padded batch pays for its padding.
  batch_.AppendPadding(plan.totals.padding_tokens);
}

void CpuExecutor::Sample(const StepPlan& plan, kernels::MatrixView<const float> logits) {
  if (!model_.links().place.last_stage()) return;
  std::size_t item = 0;
  for (std::size_t i = 0; i < batch_.logit_rows.size(); ++i) {
    const std::int32_t row = batch_.logit_rows[i];
    while (row >= batch_.first_row[item + 1]) ++item;
    const WorkItem& work = plan.work[item];
    const std::span<const float> values(logits.Row(static_cast<std::int64_t>(i)),
                                        static_cast<std::size_t>(logits.columns));
    const std::int32_t position = batch_.positions[static_cast<std::size_t>(row)];
    logit_rows_.push_back({work.request, position, values});
    if (!work.emits || row != batch_.first_row[item + 1] - 1) continue;
    OpenRequest& request = requests_[work.request];
    kernels::SamplingParameters sampling = request.sampling;
    sampling.position = static_cast<std::uint64_t>(position) + 1;
    const bool fresh = request.tokens.size() == sampling.position;
    const std::int32_t token = kernels::SampleToken(values, sampling);
    if (fresh) request.tokens.push_back(token);
    sampled_.push_back({work.request, position + 1, token, fresh});
  }
}

}  // namespace twin::exec
