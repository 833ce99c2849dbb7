#include "exec/cpu/cpu_executor.h"

#include <algorithm>

#include "core/check.h"
#include "core/random.h"
#include "exec/model/cache_shape.h"
#include "kernels/float_formats.h"

namespace twin::exec {

CpuExecutor::CpuExecutor(CpuModel& model, const ExecutorConfig& config)
    : model_(model),
      config_(config),
      device_(model.CacheShape(config.kv_dtype, config.blocks, config.block_size)),
      host_(model.CacheShape(config.kv_dtype, config.host_blocks, config.block_size)),
      states_(model.StateFloats()) {
  const ModelSpec& shape = model.config().shape;
  if (config.drafts_max > 0) RefuseWithStates(shape, "speculative decoding");
  if (config.host_blocks > 0) RefuseWithStates(shape, "swapping of blocks");
  if (config.draft_model == nullptr) return;
  auto* const draft = dynamic_cast<CpuModel*>(config.draft_model);
  CHECK(draft != nullptr && draft->config().shape.vocab == model.config().shape.vocab);
  draft_model_.emplace(*draft, config);
}

ComputedStep CpuExecutor::Collect() {
  const std::span<const SampledToken> sampled = Execute(*launched_.PopFront());
  const LapTimer& laps = model_.laps();
  return {sampled, laps.begin(), laps.end(), laps.parts(), logit_rows_, drafts_, logprobs_};
}

std::span<const SampledToken> CpuExecutor::Execute(const StepPlan& plan) {
  LapTimer& laps = model_.laps();
  laps.Start();
  for (const SwapBatch& batch : requests_.Follow(plan)) Swap(batch);
  for (const KvOperation& operation : plan.kv) {
    if (operation.kind == KvOperation::Kind::kRelease) states_.Release(operation.request);
  }
  sampled_.clear();
  logprobs_.clear();
  logit_rows_.clear();
  drafts_.clear();
  if (!plan.work.empty()) BuildBatch(plan);
  laps.Lap(StepPart::kBuild);
  if (plan.work.empty()) return sampled_;
  const kernels::MatrixView<const float> logits = model_.Forward(batch_, device_.view());
  laps.Lap(StepPart::kOther);
  Sample(plan, logits);
  if (config_.drafts_max > 0) Propose(plan);
  laps.Lap(StepPart::kSampling);
  return sampled_;
}

void CpuExecutor::Swap(const SwapBatch& batch) {
  const KvStorage& from = batch.out ? device_ : host_;
  const KvStorage& to = batch.out ? host_ : device_;
  kernels::CopyBlocks(model_.pool(), from.view(), to.view(), batch.copies);
  if (draft_model_) draft_model_->Swap(batch);
}

void CpuExecutor::StoreToken(const SampledToken& sampled) {
  CHECK(!model_.links().place.last_stage());
  requests_.StoreToken(sampled);
}

// Repeats one stretch of numbers: drawing gigabytes of random numbers would take longer than
// measuring.
void CpuExecutor::FillCache(std::uint64_t seed) {
  constexpr std::size_t kStretch = 4099;  // prime, so that rows do not repeat from block to block
  Random random(seed, "kv_cache");
  std::vector<float> numbers(kStretch);
  for (float& number : numbers) number = static_cast<float>(random.Normal());
  const kernels::KvCacheView& cache = device_.view();
  const auto elements = static_cast<std::size_t>(cache.shape.Bytes() / ByteSize(cache.shape.dtype));
  if (cache.shape.dtype == DType::kFp32) {
    auto* const out = reinterpret_cast<float*>(cache.data);
    for (std::size_t i = 0; i < elements; ++i) out[i] = numbers[i % kStretch];
  } else {
    auto* const out = reinterpret_cast<std::uint16_t*>(cache.data);
    for (std::size_t i = 0; i < elements; ++i) out[i] = kernels::FloatToBf16(numbers[i % kStretch]);
  }
}

void CpuExecutor::BuildBatch(const StepPlan& plan) {
  const bool reads_tokens = model_.links().place.first_stage();
  CHECK(!reads_tokens || HasTokensFor(plan));
  items_.clear();
  std::int32_t longest = 0;
  for (const WorkItem& item : plan.work) longest = std::max(longest, item.tokens);
  if (!reads_tokens) unread_tokens_.resize(static_cast<std::size_t>(longest));
  // The vector must not grow while items point into it.
  drafted_tokens_.clear();
  drafted_tokens_.reserve(
      static_cast<std::size_t>(plan.totals.draft_items + plan.totals.draft_tokens));
  for (const WorkItem& item : plan.work) {
    const OpenRequest& request = requests_[item.request];
    const auto start = static_cast<std::size_t>(item.start);
    const auto count = static_cast<std::size_t>(item.tokens);
    std::span<const std::int32_t> tokens;
    if (!reads_tokens) {
      tokens = std::span(unread_tokens_).first(count);
    } else if (item.drafts > 0) {
      tokens = TokensWithDrafts(item);
    } else {
      tokens = std::span(request.tokens).subspan(start, count);
    }
    items_.push_back({tokens, item.start, request.blocks});
  }
  batch_.Assign(items_, config_.block_size);
  if (model_.StateFloats() > 0) {
    for (const WorkItem& item : plan.work) {
      batch_.states.push_back(states_.Advance(item.request, item.start, item.tokens));
    }
  }
  for (std::size_t i = 0; i < plan.work.size(); ++i) {
    const std::int32_t end = batch_.first_row[i + 1];
    std::int32_t row =
        config_.logits_of_all_rows ? batch_.first_row[i] : end - 1 - plan.work[i].drafts;
    if (!config_.logits_of_all_rows && !plan.work[i].emits) continue;
    for (; row < end; ++row) batch_.logit_rows.push_back(row);
  }
  // Padding is computed, so that a padded batch takes the time that it would take on a device.
  batch_.AppendPadding(plan.totals.padding_tokens);
}

std::span<const std::int32_t> CpuExecutor::TokensWithDrafts(const WorkItem& item) {
  const OpenRequest& request = requests_[item.request];
  const std::size_t first = drafted_tokens_.size();
  const auto known = request.tokens.begin() + item.start;
  drafted_tokens_.insert(drafted_tokens_.end(), known, known + item.tokens - item.drafts);
  const bool pads = item.phase == Phase::kPrefill;
  CHECK(pads || item.drafts <= static_cast<std::int32_t>(request.drafts.size()));
  for (std::size_t i = 0; i < item.drafts; ++i) {
    drafted_tokens_.push_back(pads ? 0 : request.drafts[i]);
  }
  return std::span(drafted_tokens_).subspan(first);
}

// Takes the rows of an item with drafts as long as each draft is the token sampled before it: the
// tokens are then the ones that the model would have emitted one by one.
void CpuExecutor::Sample(const StepPlan& plan, kernels::MatrixView<const float> logits) {
  if (!model_.links().place.last_stage()) return;
  std::size_t item = 0;
  bool follows = false;  // the row computes a token of the request's output
  for (std::size_t i = 0; i < batch_.logit_rows.size(); ++i) {
    const std::int32_t row = batch_.logit_rows[i];
    while (row >= batch_.first_row[item + 1]) ++item;
    const WorkItem& work = plan.work[item];
    const std::span<const float> values(logits.Row(static_cast<std::int64_t>(i)),
                                        static_cast<std::size_t>(logits.columns));
    const std::int32_t position = batch_.positions[static_cast<std::size_t>(row)];
    const std::int32_t known_row = batch_.first_row[item + 1] - 1 - work.drafts;
    if (row <= known_row) follows = work.emits && row == known_row;
    if (config_.returns_logits && (follows || row <= known_row)) {
      logit_rows_.push_back({work.request, position, values});
    }
    if (!follows) continue;
    OpenRequest& request = requests_[work.request];
    kernels::SamplingParameters sampling = request.sampling;
    sampling.position = static_cast<std::uint64_t>(position) + 1;
    const bool fresh = request.tokens.size() == sampling.position;
    const std::int32_t token = kernels::SampleToken(values, sampling);
    if (fresh) request.tokens.push_back(token);
    const std::size_t told = logprobs_.size();
    if (sampling.logprobs >= 0) {
      kernels::AppendLogprobs(values, token, sampling.logprobs, logprobs_);
    }
    sampled_.push_back({work.request, position + 1, token, fresh,
                        static_cast<std::int32_t>(logprobs_.size() - told)});
    const std::int32_t draft = row - known_row;
    follows = draft < work.drafts && work.phase == Phase::kDecode &&
              request.drafts[static_cast<std::size_t>(draft)] == token;
  }
}

void CpuExecutor::Propose(const StepPlan& plan) {
  if (draft_model_) draft_model_->Propose(plan, config_.drafts_max, requests_);
  auto sampled = sampled_.begin();
  for (const WorkItem& item : plan.work) {
    if (!item.emits) continue;
    std::int32_t tokens = 0;
    for (; sampled != sampled_.end() && sampled->request == item.request; ++sampled) ++tokens;
    OpenRequest& request = requests_[item.request];
    if (!draft_model_) {
      const std::span<const std::int32_t> drafts =
          ProposeByNgram(request.tokens, config_.drafts_max, config_.ngram);
      request.drafts.assign(drafts.begin(), drafts.end());
    }
    drafts_.push_back({item.request, tokens - 1, static_cast<std::int32_t>(request.drafts.size())});
  }
}

}  // namespace twin::exec
