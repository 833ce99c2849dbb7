#include "exec/cuda/cuda_executor.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/check.h"
#include "exec/cuda/tune_decodes.h"
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
  // A step of so many pages would attend to 16 million tokens in blocks of 16.
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

}  // namespace

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
  if (model.options().tunes) TuneDecodes(model, cache_);
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

void CudaExecutor::Learn(const SampledToken& sampled) {
  CHECK(!model_.links().place.last_stage());
  requests_.Learn(sampled);
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
  // No bucket if the logits of all rows are returned: they must not contain rows of padding.
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
  told_order_.resize(sources.size());
  std::iota(told_order_.begin(), told_order_.end(), 0);
  std::stable_sort(told_order_.begin(), told_order_.end(), [&](std::int32_t a, std::int32_t b) {
    return sources[static_cast<std::size_t>(a)].item < sources[static_cast<std::size_t>(b)].item;
  });
  const std::int64_t ring = SampledAt(launched_) - sampled_.As<std::int32_t>();
  for (const std::int32_t row : told_order_) {
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

}  // namespace twin::exec::cuda
