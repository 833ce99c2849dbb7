#include "exec/cuda/cuda_executor.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kernel_overlap.h"
#include "kernels/cuda/random_fill.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/top_logits.h"
#include "sched/computed_rows.h"

namespace twin::exec::cuda {
namespace {

namespace on = kernels::cuda;

constexpr std::int64_t kArenaBytes = std::int64_t{1} << 20;
constexpr auto kTokenBytes = static_cast<std::int64_t>(sizeof(std::int32_t));
constexpr auto kTopBytes = static_cast<std::int64_t>(sizeof(kernels::TopLogits));

std::size_t Size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

// Sufficient for any step of the largest size: to grow later would stall a run. Requests that share
// blocks list each of them several times.
std::int64_t RoomForSteps(const StepSizes& largest, std::int64_t plan_bytes,
                          std::int64_t blocks_of_request, std::int64_t blocks) {
  // A step with this many pages would attend to 16 million tokens in blocks of 16.
  constexpr std::int64_t kSharedPagesMax = std::int64_t{1} << 20;
  const std::int64_t shared = std::min(largest.sequences * blocks_of_request, kSharedPagesMax);
  const StepShape shape{.rows = largest.tokens,
                        .sequences = largest.sequences,
                        .logit_rows = largest.sequences,
                        .plan_bytes = plan_bytes};
  return std::max(kArenaBytes, ArenaBytes(shape, std::max(shared, blocks)));
}

// The code of a token that is still only on the device: entry `index` of the ring.
constexpr std::int32_t CarriedToken(std::int64_t index) {
  return -1 - static_cast<std::int32_t>(index);
}

// Our own kernels differ at most by the power of two of the number of tokens, and not at all above
// this number. Products are loaded by CudaModel::LoadProducts().
constexpr std::int64_t kTokensOfAllKernels = 512;
// Products with at least this many rows of an expert use the same kernel.
constexpr std::int64_t kRowsOfExpert = 64;

// Tokens of the largest step that is run in advance.
std::int64_t TokensOf(const MoeSpec& moe) {
  if (moe.experts == 0) return kTokensOfAllKernels;
  return std::max(kTokensOfAllKernels, kRowsOfExpert * moe.experts / moe.experts_per_token);
}

}  // namespace

bool DecodeGraph::NextIsDetailed() {
  if (!turns.Next(!laps_in_use)) return false;
  laps_in_use = true;
  return true;
}

void DecodeGraph::ReadLaps() {
  shares = laps.Parts();
  laps_in_use = false;
}

CudaExecutor::CudaExecutor(CudaModel& model, const ExecutorConfig& config)
    : model_(model),
      config_(config),
      device_storage_(model.CacheShape(config.kv_dtype, config.blocks, config.block_size).Bytes(),
                      "device memory for the KV cache"),
      host_storage_(
          model.CacheShape(config.kv_dtype, config.host_blocks, config.block_size).Bytes(),
          "pinned memory for the swap space"),
      cache_{device_storage_.data(),
             model.CacheShape(config.kv_dtype, config.blocks, config.block_size)},
      host_cache_{host_storage_.data(),
                  model.CacheShape(config.kv_dtype, config.host_blocks, config.block_size)},
      not_finite_(sizeof(std::int32_t), "device memory for a count") {
  CHECK(config.kv_dtype == kActivationFormat);
  const StepSizes& largest = model.options().largest_step;
  // Kernels may read blocks that were never written, as padding; they must be finite.
  CheckCuda(cudaMemsetAsync(device_storage_.data(), 0, Size(device_storage_.bytes()),
                            model.device().compute().get()),
            "cudaMemsetAsync");
  if (model.options().tunes) model.TuneDecodes(cache_);
  Reserve({.rows = largest.tokens,
           .sequences = largest.sequences,
           .logit_rows = std::min(largest.tokens, largest.sequences)});
  const std::int64_t block_size = config.block_size;
  const std::int64_t blocks_of_request = (model.positions() + block_size - 1) / block_size;
  arena_.Reserve(model.device().compute(), RoomForSteps(largest, attention_->PlanBytesMax(),
                                                        blocks_of_request, config.blocks));
  CaptureAll();
  WarmUp();
}

CudaExecutor::~CudaExecutor() {
  AwaitStreamQuietly(model_.device().swap());
  AwaitStreamQuietly(model_.device().compute());
}

void CudaExecutor::StoreToken(const SampledToken& sampled) {
  CHECK(!model_.links().place.last_stage());
  requests_.StoreToken(sampled);
}

void CudaExecutor::FillCache(std::uint64_t seed) {
  CHECK(launched_ == collected_);
  const std::int64_t row = cache_.shape.BlockBytes() / ByteSize(cache_.shape.dtype);
  on::FillWithNormals(
      model_.device().compute(), {.key = seed, .row_step = static_cast<std::uint64_t>(row)},
      on::DenseDeviceMatrix(cache_.data, cache_.shape.dtype, cache_.shape.blocks, row));
}

void CudaExecutor::Reserve(const StepShape& shape) {
  const bool more_rows = shape.rows > attention_room_.rows;
  const bool more_sequences = shape.sequences > attention_room_.sequences;
  const bool more_tokens = shape.logit_rows > sampled_rows_;
  if (!more_rows && !more_sequences && !more_tokens) return;
  // Memory that steps in flight still read must not move.
  DropGraphs();
  model_.Reserve(std::max(shape.rows, attention_room_.rows),
                 std::max(shape.logit_rows, sampled_rows_));
  if (more_rows || more_sequences) {
    attention_room_.rows = std::max(shape.rows, attention_room_.rows);
    attention_room_.sequences = std::max(shape.sequences, attention_room_.sequences);
    attention_.reset();
    attention_ = model_.MakeAttention(config_.block_size, attention_room_);
  }
  if (more_tokens) {
    sampled_rows_ = shape.logit_rows;
    // One more section, for the tokens that captures sample.
    sampled_ = DeviceBuffer(static_cast<std::int64_t>(kStepsMax + 1) * sampled_rows_ * kTokenBytes,
                            "device memory for sampled tokens");
    top_logits_ = DeviceBuffer(sampled_rows_ * kTopBytes, "device memory for log-probabilities");
    // Allocated now, because page-locking memory later would stall the steps in flight.
    for (Step& step : steps_) {
      step.tokens = PinnedBuffer((1 + sampled_rows_) * kTokenBytes, "pinned memory for tokens");
      step.top_logits =
          PinnedBuffer(sampled_rows_ * kTopBytes, "pinned memory for log-probabilities");
    }
  }
}

void CudaExecutor::Swap(std::span<const SwapBatch> batches) {
  if (batches.empty()) return;
  const Device& device = model_.device();
  idle_.Record(device.compute());
  idle_.MakeWait(device.swap());
  for (const SwapBatch& batch : batches) SwapRuns(batch);
  swapped_.Record(device.swap());
  swapped_.MakeWait(device.compute());
}

void CudaExecutor::SwapRuns(const SwapBatch& batch) {
  const kernels::KvCacheView& from = batch.out ? cache_ : host_cache_;
  const kernels::KvCacheView& to = batch.out ? host_cache_ : cache_;
  for (std::size_t i = 0; i < batch.copies.size();) {
    const kernels::BlockCopy& first = batch.copies[i];
    std::int32_t run = 1;
    while (i + static_cast<std::size_t>(run) < batch.copies.size()) {
      const kernels::BlockCopy& next = batch.copies[i + static_cast<std::size_t>(run)];
      if (next.source != first.source + run || next.destination != first.destination + run) break;
      ++run;
    }
    CheckCuda(cudaMemcpyAsync(to.Block(first.destination), from.Block(first.source),
                              Size(run * from.shape.BlockBytes()),
                              batch.out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                              model_.device().swap().get()),
              "a swap of KV blocks");
    i += static_cast<std::size_t>(run);
  }
}

void CudaExecutor::Launch(const StepPlan& plan) {
  CHECK(launched_ - collected_ < kStepsMax);
  model_.device().Use();
  if (graphs_stale_) CaptureAll();
  Step& step = StepAt(launched_);
  step.number = launched_;
  step.shape = {};
  step.launched = Clock::now();
  step.sampled.clear();
  step.sampled_rows.clear();
  step.asked_logprobs.clear();
  step.asks_logprobs = false;
  step.kept.clear();
  step.kept_rows.clear();
  step.laps.Clear();
  step.logit_count = 0;
  step.resolved = false;
  step.graph = nullptr;
  step.kind = nullptr;
  step.detailed = false;
  const std::span<const SwapBatch> swaps = requests_.Follow(plan);
  step.computes = !plan.work.empty() || !swaps.empty();
  if (step.computes) {
    Swap(swaps);
    if (!plan.work.empty()) {
      Compute(plan, step);
    } else {
      step.built.Record(model_.device().compute());
    }
    step.done.Record(model_.device().compute());
  }
  ++launched_;
}

void CudaExecutor::Compute(const StepPlan& plan, Step& step) {
  const StreamView stream = model_.device().compute();
  // There is no bucket if the logits of all rows are returned: they must not contain rows of
  // padding.
  const std::int64_t bucket =
      config_.logits_of_all_rows ? 0 : ComputedRowsOf(plan, buckets_).bucket;
  builder_.Arrange(plan, requests_,
                   {.block_size = config_.block_size,
                    .logits_of_all_rows = config_.logits_of_all_rows,
                    .bucket = bucket,
                    .reads_tokens = model_.links().place.first_stage()});
  Reserve(builder_.shape());
  step.shape = PlannedShape();
  bool moved = false;
  const StepMemory memory = arena_.Next(stream, step.shape, builder_.pages(), moved);
  if (moved) DropGraphs();
  // The batch stays padded to its bucket even if the graphs were dropped.
  builder_.Write(plan, requests_, memory.host);
  *memory.host.first_sampled =
      static_cast<std::int32_t>(SampledAt(launched_) - sampled_.As<std::int32_t>());
  attention_->Plan(builder_.attention(memory, bucket > 0));
  arena_.Send(stream);
  const DeviceBatch batch{.shape = step.shape,
                          .arrays = memory.device,
                          .sampled = sampled_.As<std::int32_t>(),
                          .every_row_has_logits = bucket > 0};
  step.built.Record(stream);
  ComputeBatch(batch, bucket, step);
  TakeEmissions(plan, step);
  FetchResults(batch, step);
}

StepShape CudaExecutor::PlannedShape() const {
  StepShape shape = builder_.shape();
  shape.plan_bytes = attention_->PlanBytes(builder_.attention());
  return shape;
}

void CudaExecutor::ComputeBatch(const DeviceBatch& batch, std::int64_t bucket, Step& step) {
  if (!graphs_.contains(bucket)) {
    LaunchKernels(batch, step);
    return;
  }
  DecodeGraph& graph = graphs_.at(bucket);
  step.graph = &graph;
  step.detailed = graph.NextIsDetailed();
  (step.detailed ? graph.detailed : graph.plain).Launch(model_.device().compute());
  logits_ = model_.activations().logits(batch.shape.logit_rows);
}

void CudaExecutor::LaunchKernels(const DeviceBatch& batch, Step& step) {
  const auto size = [](std::int64_t count) {
    return std::bit_floor(static_cast<std::uint64_t>(count));
  };
  step.kind = &kinds_[{size(batch.shape.rows), size(builder_.pages())}];
  step.detailed = step.kind->turns.Next(/*possible=*/true);
  if (step.detailed) {
    const on::KernelsApart apart;
    Enqueue(batch, step.laps);
  } else {
    LapEvents none(LapEvents::Kind::kNone);
    Enqueue(batch, none);
  }
}

void CudaExecutor::Enqueue(const DeviceBatch& batch, LapEvents& laps) {
  const StreamView stream = model_.device().compute();
  laps.Start(stream);
  logits_ = model_.Forward(batch, cache_, *attention_, laps);
  if (logits_.rows > 0) {
    if (model_.options().checks_finite) {
      CheckCuda(cudaMemsetAsync(not_finite_.data(), 0, sizeof(std::int32_t), stream.get()),
                "cudaMemsetAsync");
      on::CountNotFinite(stream, logits_, not_finite_.As<std::int32_t>());
    }
    on::SampleTokens(stream, logits_, batch.arrays.sampling, batch.arrays.first_sampled,
                     sampled_.As<std::int32_t>());
  }
  laps.Lap(stream, StepPart::kSampling);
}

void CudaExecutor::TakeEmissions(const StepPlan& plan, Step& step) {
  if (!model_.links().place.last_stage()) return;
  const std::span<const LogitSource> sources = builder_.logits();
  // Rows are in the order of the device's batch; results are reported in plan order.
  plan_order_.resize(sources.size());
  std::iota(plan_order_.begin(), plan_order_.end(), 0);
  std::stable_sort(plan_order_.begin(), plan_order_.end(), [&](std::int32_t a, std::int32_t b) {
    return sources[static_cast<std::size_t>(a)].item < sources[static_cast<std::size_t>(b)].item;
  });
  const std::int64_t ring = SampledAt(launched_) - sampled_.As<std::int32_t>();
  for (const std::int32_t row : plan_order_) {
    const LogitSource& source = sources[static_cast<std::size_t>(row)];
    const WorkItem& item = plan.work[static_cast<std::size_t>(source.item)];
    if (config_.returns_logits && (item.emits || config_.logits_of_all_rows)) {
      step.kept.push_back({item.request, source.position, {}});
      step.kept_rows.push_back(row);
    }
    if (!source.emits) continue;
    OpenRequest& request = requests_[item.request];
    const bool fresh = request.tokens.size() == static_cast<std::size_t>(source.position) + 1;
    const std::int32_t code = CarriedToken(ring + row);
    if (fresh) request.tokens.push_back(code);
    step.sampled.push_back({item.request, source.position + 1, code, fresh});
    step.sampled_rows.push_back(row);
    step.asked_logprobs.push_back(request.sampling.logprobs);
    if (request.sampling.logprobs >= 0) step.asks_logprobs = true;
  }
}

void CudaExecutor::FetchResults(const DeviceBatch& batch, Step& step) {
  step.logit_count = logits_.rows == 0 ? 0 : batch.shape.logit_rows;
  if (step.logit_count == 0) return;
  const StreamView stream = model_.device().compute();
  CHECK(step.logit_count <= sampled_rows_);
  CheckCuda(
      cudaMemcpyAsync(step.tokens.data() + kTokenBytes, SampledAt(launched_),
                      Size(step.logit_count * kTokenBytes), cudaMemcpyDeviceToHost, stream.get()),
      "a copy of tokens");
  if (model_.options().checks_finite) {
    CheckCuda(cudaMemcpyAsync(step.tokens.data(), not_finite_.data(), sizeof(std::int32_t),
                              cudaMemcpyDeviceToHost, stream.get()),
              "a copy of a count");
  }
  if (step.asks_logprobs) {
    // Not in the graph: most steps are not asked.
    on::FindTopLogits(stream, logits_, batch.arrays.sampling, batch.arrays.first_sampled,
                      sampled_.As<std::int32_t>(), top_logits_.As<kernels::TopLogits>());
    CheckCuda(
        cudaMemcpyAsync(step.top_logits.data(), top_logits_.data(),
                        Size(step.logit_count * kTopBytes), cudaMemcpyDeviceToHost, stream.get()),
        "a copy of log-probabilities");
  }
  if (config_.returns_logits) FetchLogits(step);
}

void CudaExecutor::FetchLogits(Step& step) {
  const std::int64_t bytes =
      step.logit_count * logits_.stride * static_cast<std::int64_t>(sizeof(float));
  if (step.logits.bytes() < bytes) step.logits = PinnedBuffer(bytes, "pinned memory for logits");
  CheckCuda(cudaMemcpyAsync(step.logits.data(), logits_.data, Size(bytes), cudaMemcpyDeviceToHost,
                            model_.device().compute().get()),
            "a copy of logits");
}

// Waits for a step; a device that hangs is reported with the step that it hangs in.
void CudaExecutor::Await(const Step& step) const {
  try {
    model_.AwaitStep(step.done);
  } catch (const on::HungDevice&) {
    throw on::HungDevice(fmt::format("step {} of {} rows and {} sequences, {}", step.number,
                                     step.shape.rows, step.shape.sequences,
                                     step.graph != nullptr ? "replayed from a graph" : "launched"));
  }
}

void CudaExecutor::Resolve(Step& step) {
  if (step.resolved) return;
  step.resolved = true;
  if (!step.computes) return;
  Await(step);
  ReadShares(step);
  if (step.logit_count == 0) return;
  const auto* const numbers = step.tokens.As<std::int32_t>();
  if (model_.options().checks_finite && numbers[0] > 0) {
    throw on::DeviceError("the logits of a step",
                          std::to_string(numbers[0]) + " numbers are not finite");
  }
  for (std::size_t i = 0; i < step.sampled.size(); ++i) {
    SampledToken& sampled = step.sampled[i];
    sampled.token = numbers[1 + step.sampled_rows[i]];
    if (!sampled.fresh) continue;
    requests_[sampled.request].tokens[static_cast<std::size_t>(sampled.position)] = sampled.token;
  }
}

void CudaExecutor::ReadShares(Step& step) {
  step.shares = {};
  if (step.graph != nullptr) {
    if (step.detailed) step.graph->ReadLaps();
    step.shares = step.graph->shares;
  } else if (step.kind != nullptr) {
    if (step.detailed) step.kind->shares = step.laps.Parts();
    step.shares = step.kind->shares;
  }
  step.graph = nullptr;
}

void CudaExecutor::DropGraphs() {
  for (std::uint64_t i = collected_; i < launched_; ++i) Resolve(StepAt(i));
  AwaitStream(model_.device().compute(), "work on the device");
  graphs_.clear();
  graphs_stale_ = true;
}

bool CudaExecutor::Collectable() {
  CHECK(collected_ < launched_);
  model_.device().Use();
  const Step& step = StepAt(collected_);
  // With several ranks, always true: the wait in Collect() detects failed ranks.
  return step.resolved || !step.computes || model_.works_with_others() || step.done.Passed();
}

ComputedStep CudaExecutor::Collect() {
  CHECK(collected_ < launched_);
  model_.device().Use();
  Step& step = StepAt(collected_++);
  Resolve(step);
  const auto width = static_cast<std::size_t>(model_.config().shape.vocab);
  const std::int64_t stride = AlignedStride(model_.config().shape.vocab, DType::kFp32);
  for (std::size_t i = 0; i < step.kept.size(); ++i) {
    step.kept[i].logits = {step.logits.As<float>() + step.kept_rows[i] * stride, width};
  }
  ComputedStep computed{.sampled = step.sampled,
                        .started = std::max(step.launched, last_end_),
                        .finished = Clock::now(),
                        .parts = {},
                        .logits = step.kept};
  computed.parts =
      PartsOf(step, std::chrono::duration_cast<Duration>(computed.finished - computed.started));
  last_end_ = computed.finished;
  // Called after the end of the step has been taken, because what follows is not time of the
  // device.
  ReportLogprobs(step);
  computed.logprobs = logprobs_;
  return computed;
}

void CudaExecutor::ReportLogprobs(Step& step) {
  logprobs_.clear();
  for (std::size_t i = 0; i < step.sampled.size(); ++i) {
    if (step.asked_logprobs[i] < 0) continue;
    const std::size_t told = logprobs_.size();
    kernels::AppendLogprobs(step.top_logits.As<kernels::TopLogits>()[step.sampled_rows[i]],
                            step.sampled[i].token, logprobs_);
    step.sampled[i].logprobs = static_cast<std::int32_t>(logprobs_.size() - told);
  }
}

StepParts CudaExecutor::PartsOf(const Step& step, Duration whole) const {
  StepParts parts;
  if (step.computes) {
    const Duration computing{NanosecondsBetween(step.built, step.done)};
    // Clocks of host and device may differ in the last microsecond.
    parts = DivideBy(step.shares, std::min(computing, whole));
  }
  parts[StepPart::kBuild] += whole - parts.device();
  return parts;
}

void CudaExecutor::CaptureAll() {
  graphs_stale_ = false;
  buckets_ = model_.decode_buckets();
  if (buckets_.empty()) return;
  // The largest bucket first, so that no memory has to grow after a capture.
  const std::vector<std::int64_t> buckets(buckets_.rbegin(), buckets_.rend());
  for (const std::int64_t bucket : buckets) Capture(bucket);
}

DeviceBatch CudaExecutor::Stage(const StepPlan& plan, const OpenRequests& requests,
                                std::int64_t bucket) {
  const StreamView stream = model_.device().compute();
  builder_.Arrange(plan, requests,
                   {.block_size = config_.block_size,
                    .bucket = bucket,
                    .reads_tokens = model_.links().place.first_stage()});
  const StepShape shape = PlannedShape();
  bool moved = false;
  const StepMemory memory = arena_.Next(stream, shape, builder_.pages(), moved);
  CHECK(!moved);
  builder_.Write(plan, requests, memory.host);
  *memory.host.first_sampled =
      static_cast<std::int32_t>(kStepsMax) * static_cast<std::int32_t>(sampled_rows_);
  attention_->Plan(builder_.attention(memory, bucket > 0));
  arena_.Send(stream);
  return {.shape = shape,
          .arrays = memory.device,
          .sampled = sampled_.As<std::int32_t>(),
          .every_row_has_logits = bucket > 0};
}

void CudaExecutor::Capture(std::int64_t bucket) {
  const StreamView stream = model_.device().compute();
  const DeviceBatch batch = Stage({}, requests_, bucket);
  // Run once before the capture, so that libraries choose and load their kernels.
  LapEvents none(LapEvents::Kind::kNone);
  Enqueue(batch, none);
  AwaitStream(stream, "a step before its capture");
  DecodeGraph& graph = graphs_[bucket];
  graph.plain = Graph::Capture(stream, [&] { Enqueue(batch, none); });
  const on::KernelsApart apart;
  graph.detailed = Graph::Capture(stream, [&] { Enqueue(batch, graph.laps); });
}

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
  // In steps with decodes, prefills use another attention kernel.
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
  on::FindTopLogits(model_.device().compute(), logits_, batch.arrays.sampling,
                    batch.arrays.first_sampled, sampled_.As<std::int32_t>(),
                    top_logits_.As<kernels::TopLogits>());
}

}  // namespace twin::exec::cuda
