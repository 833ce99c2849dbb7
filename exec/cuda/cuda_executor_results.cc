// CudaExecutor: results of steps (tokens, logits, times) and the capture of graphs.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/check.h"
#include "exec/cuda/cuda_executor.h"
#include "kernels/cuda/kernel_overlap.h"

namespace twin::exec::cuda {

namespace on = kernels::cuda;

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
  // Behind the end of the step: what follows is no time of the device.
  TellLogprobs(step);
  computed.logprobs = logprobs_;
  return computed;
}

void CudaExecutor::TellLogprobs(Step& step) {
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

}  // namespace twin::exec::cuda
