#include "exec/profile/synthetic_steps.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace twin::exec {
namespace {

std::int32_t BlocksFor(const SyntheticStepsConfig& config) {
  const std::int64_t blocks = CacheBlocks(config);
  CHECK(blocks <= (std::int64_t{1} << 30));
  return static_cast<std::int32_t>(blocks);
}

}  // namespace

std::int64_t CacheBlocks(const SyntheticStepsConfig& config) {
  return (config.tokens + config.block_size - 1) / config.block_size + config.items + 1;
}

StepTotals TotalsOf(std::span<const StepItem> items) {
  StepTotals totals;
  for (const StepItem& item : items) {
    const std::int64_t start = item.start;
    const std::int64_t tokens = item.tokens;
    totals.emitting_items += item.emits ? 1 : 0;
    if (item.phase == Phase::kDecode) {
      ++totals.decode_items;
      totals.decode_context_tokens += start + 1;
      totals.decode_context_max = std::max(totals.decode_context_max, start + 1);
      continue;
    }
    ++totals.prefill_items;
    totals.prefill_tokens += tokens;
    totals.prefill_context_tokens += start + tokens;
    totals.prefill_context_max = std::max(totals.prefill_context_max, start + tokens);
    totals.prefill_attention_pairs += tokens * start + tokens * (tokens + 1) / 2;
  }
  return totals;
}

SyntheticSteps::SyntheticSteps(DeviceModel& model, const SyntheticStepsConfig& config)
    : config_(config),
      executor_(model.MakeExecutor({.kv_dtype = config.kv_dtype,
                                    .block_size = config.block_size,
                                    .blocks = BlocksFor(config),
                                    .returns_logits = config.returns_logits})),
      random_(config.seed, "synthetic_steps") {
  executor_->FillCache(config.seed);
  prompt_.resize(static_cast<std::size_t>(model.positions()));
  for (std::int32_t& token : prompt_) {
    token = static_cast<std::int32_t>(random_.UniformInt(0, model.config().shape.vocab - 1));
  }
  for (std::int32_t i = 0; i < BlocksFor(config); ++i) free_.push_back(BlockId{i});
}

std::int64_t SyntheticSteps::BlocksOf(std::span<const StepItem> items) const {
  std::int64_t blocks = 0;
  for (const StepItem& item : items) {
    blocks += (item.start + item.tokens + config_.block_size - 1) / config_.block_size;
  }
  return blocks;
}

StepParts SyntheticSteps::Run(std::span<const StepItem> items) {
  Open(items);
  const StepParts parts = Execute(items);
  Close();
  return parts;
}

StepParts SyntheticSteps::RunDecodes(std::int32_t batch, std::int32_t context, std::int32_t steps) {
  std::vector<StepItem> items(static_cast<std::size_t>(batch), DecodeItem(context));
  Open(items);
  StepParts sum;
  for (std::int32_t step = 0; step < steps; ++step) {
    const StepParts parts = Execute(items);
    for (std::size_t part = 0; part < kStepPartCount; ++part) sum.times[part] += parts.times[part];
    for (StepItem& item : items) ++item.start;
  }
  Close();
  return sum;
}

void SyntheticSteps::Open(std::span<const StepItem> items) {
  StepPlan held;
  for (const StepItem& item : items) {
    const RequestId id{next_request_++};
    // The request knows the tokens that the item computes and all tokens before them.
    executor_->Open(
        id, std::span(prompt_).first(static_cast<std::size_t>(item.start + item.tokens)), {});
    Allocation& allocation = open_.emplace_back(Allocation{id, 0});
    Cover(allocation, item.start, held);
  }
  executor_->Launch(held);
  executor_->Collect();
}

void SyntheticSteps::Close() {
  for (const Allocation& allocation : open_) executor_->Close(allocation.request);
  open_.clear();
  taken_ = 0;
}

void SyntheticSteps::Cover(Allocation& allocation, std::int32_t tokens, StepPlan& plan) {
  while (allocation.blocks * config_.block_size < tokens) {
    CHECK(taken_ < free_.size());
    const auto drawn = static_cast<std::size_t>(random_.UniformInt(
        static_cast<std::int64_t>(taken_), static_cast<std::int64_t>(free_.size()) - 1));
    std::swap(free_[taken_], free_[drawn]);
    plan.kv.push_back({KvOperation::Kind::kAllocate, allocation.request, free_[taken_++]});
    ++allocation.blocks;
  }
}

StepParts SyntheticSteps::Execute(std::span<const StepItem> items) {
  plan_.Clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const StepItem& item = items[i];
    Cover(open_[i], item.start + item.tokens, plan_);
    plan_.work.push_back({.request = open_[i].request,
                          .start = item.start,
                          .tokens = item.tokens,
                          .phase = item.phase,
                          .emits = item.emits});
  }
  plan_.totals = TotalsOf(items);
  executor_->Launch(plan_);
  const ComputedStep step = executor_->Collect();
  logits_ = step.logits;
  return step.parts;
}

}  // namespace twin::exec
