#include "exec/cuda/cuda_operations.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/kernel_overlap.h"
#include "kernels/cuda/random_fill.h"
#include "sched/computed_rows.h"

namespace twin::exec::cuda {
namespace {

namespace on = kernels::cuda;

// Labels of moments. In a graph with mixtures, the labels below are the parts of the mixture.
constexpr auto kFirst = static_cast<std::uint8_t>(kMixturePartCount);
enum class Gemm : std::uint8_t { kQkv = kFirst, kOutput, kUp, kDown };
enum class Other : std::uint8_t { kNorms = kFirst, kRope, kActivation, kEmbedding };
enum class Single : std::uint8_t { kAll };

template <class T>
void CopyToDevice(const std::vector<T>& values, StreamView stream, DeviceBuffer& to) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  if (to.bytes() < bytes) {
    AwaitStream(stream, "work on the device");
    to = DeviceBuffer(bytes, "device memory for indices");
  }
  // The source is pageable memory: the call returns when the values have been copied from it.
  CheckCuda(cudaMemcpyAsync(to.data(), values.data(), values.size() * sizeof(T),
                            cudaMemcpyHostToDevice, stream.get()),
            "a copy of indices");
}

}  // namespace

CudaOperations::CudaOperations(CudaModel& model, const kernels::KvCacheView& cache)
    : model_(model), cache_(cache), random_(1, "operations") {}

CudaOperations::~CudaOperations() { AwaitStreamQuietly(model_.device().compute()); }

const LapEvents& CudaOperations::Replay(const std::string& name, const Work& work) {
  const StreamView stream = model_.device().compute();
  if (captured_ != name) {
    // Run once before the capture, so that libraries choose and load their kernels.
    LapEvents none(LapEvents::Kind::kNone);
    work(none);
    AwaitStream(stream, "operations before their capture");
    captured_.clear();
    laps_ = LapEvents(LapEvents::Kind::kInGraph);
    const on::KernelsApart apart;
    graph_ = Graph::Capture(stream, [&] {
      laps_.Start(stream);
      work(laps_);
    });
    captured_ = name;
  }
  graph_.Launch(stream);
  AwaitStream(stream, "operations");
  return laps_;
}

void CudaOperations::Reserve(std::int64_t rows, std::int64_t logit_rows) {
  if (model_.Reserve(rows, logit_rows)) captured_.clear();
  if (rows <= rows_ && logit_rows <= logit_rows_) return;
  rows_ = std::max(rows, rows_);
  logit_rows_ = std::max(logit_rows, logit_rows_);
  const StreamView stream = model_.device().compute();
  const Activations& all = model_.activations();
  std::uint64_t key = 1;
  for (const on::DeviceMatrix& matrix :
       {all.residual(rows_), all.normed(rows_), all.qkv(rows_), all.attended(rows_),
        all.inner(rows_), all.activated(rows_)}) {
    on::FillWithNormals(
        stream, {.key = key++, .row_step = static_cast<std::uint64_t>(matrix.columns)}, matrix);
  }
}

void CudaOperations::Number(std::int64_t count, std::int32_t modulus, DeviceBuffer& to) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(modulus));
  }
  CopyToDevice(numbers, model_.device().compute(), to);
}

GemmSeconds CudaOperations::RunGemms(std::int64_t tokens) {
  Reserve(tokens, 1);
  const StreamView stream = model_.device().compute();
  const Activations& all = model_.activations();
  const LapEvents& laps = Replay("gemms " + std::to_string(tokens), [&](LapEvents& moments) {
    for (const DeviceLayer& layer : model_.weights().layers) {
      model_.Multiply(all.normed(tokens), layer.qkv, all.qkv(tokens));
      moments.Lap(stream, Gemm::kQkv);
      model_.Multiply(all.attended(tokens), layer.output, all.normed(tokens));
      moments.Lap(stream, Gemm::kOutput);
      if (!layer.experts.empty()) {
        Mix(layer, tokens, moments);
        continue;
      }
      model_.Multiply(all.residual(tokens), layer.up, all.inner(tokens));
      moments.Lap(stream, Gemm::kUp);
      model_.Multiply(all.activated(tokens), layer.down, all.normed(tokens));
      moments.Lap(stream, Gemm::kDown);
    }
  });
  return {.qkv = laps.SecondsOf(Gemm::kQkv),
          .output = laps.SecondsOf(Gemm::kOutput),
          .up = laps.SecondsOf(Gemm::kUp) + laps.SecondsOf(MixturePart::kSharedUp),
          .down = laps.SecondsOf(Gemm::kDown) + laps.SecondsOf(MixturePart::kSharedDown),
          .router = laps.SecondsOf(MixturePart::kRouter),
          .expert_up = laps.SecondsOf(MixturePart::kExpertUp),
          .expert_down = laps.SecondsOf(MixturePart::kExpertDown)};
}

void CudaOperations::Mix(const DeviceLayer& layer, std::int64_t tokens, LapEvents& moments) {
  const Activations& all = model_.activations();
  model_.MixExperts(layer, all.residual(tokens), all.normed(tokens),
                    [&](MixturePart part) { moments.Lap(model_.device().compute(), part); });
}

double CudaOperations::RunHead(std::int64_t rows) {
  Reserve(rows, rows);
  const StreamView stream = model_.device().compute();
  const Activations& all = model_.activations();
  const DeviceLinear& head = model_.weights().head();
  const on::DeviceMatrix input =
      model_.weights().project_out.empty() ? all.residual(rows) : all.narrow(rows);
  const LapEvents& laps = Replay("head " + std::to_string(rows), [&](LapEvents& moments) {
    model_.device().gemm().Multiply(stream, input, head.matrix,
                                    all.logits(rows).Columns(0, head.matrix.rows));
    moments.Lap(stream, Single::kAll);
  });
  return laps.SecondsOf(Single::kAll);
}

OtherSeconds CudaOperations::RunOther(std::int64_t tokens) {
  Reserve(tokens, 1);
  CHECK(tokens <= cache_.shape.blocks * cache_.shape.block_size);
  const StreamView stream = model_.device().compute();
  const Activations& all = model_.activations();
  const ModelConfig& share = model_.share();
  if (captured_ != "other " + std::to_string(tokens)) {
    Number(tokens, std::min(model_.positions(), share.shape.vocab), numbers_);
    Number(tokens, static_cast<std::int32_t>(tokens), slots_);
  }
  const auto* const numbers = numbers_.As<std::int32_t>();
  const on::DeviceMatrix embedded =
      model_.weights().project_in.empty() ? all.residual(tokens) : all.narrow(tokens);
  const LapEvents& laps = Replay("other " + std::to_string(tokens), [&](LapEvents& moments) {
    on::EmbedTokens(stream, model_.weights().embedding.matrix, {.token_ids = numbers}, embedded);
    moments.Lap(stream, Other::kEmbedding);
    std::int64_t number = 0;
    for (const DeviceLayer& layer : model_.weights().layers) {
      for (std::int32_t i = 0; i < share.shape.norms_per_layer; ++i) {
        on::AddNormalize(stream, {.delta = all.normed(tokens), .scale = 0.5F},
                         model_.NormOf(layer.attention_norm), all.residual(tokens),
                         all.normed(tokens));
      }
      moments.Lap(stream, Other::kNorms);
      on::RopeAppend(stream, all.qkv(tokens), numbers, slots_.As<std::int32_t>(),
                     model_.RopeOptionsOf(layer), number++, cache_);
      moments.Lap(stream, Other::kRope);
      if (!layer.experts.empty()) {
        Mix(layer, tokens, moments);
        continue;
      }
      model_.Activate(layer, all.inner(tokens), all.activated(tokens));
      moments.Lap(stream, Other::kActivation);
    }
  });
  return {
      .norms = laps.SecondsOf(Other::kNorms),
      .rope = laps.SecondsOf(Other::kRope),
      .append = 0,
      .activation = laps.SecondsOf(Other::kActivation) + laps.SecondsOf(MixturePart::kActivation),
      .embedding = laps.SecondsOf(Other::kEmbedding),
      .routing = laps.SecondsOf(MixturePart::kRouting)};
}

CudaOperations::Requests CudaOperations::RequestsOf(std::span<const StepItem> items) {
  const auto block_size = static_cast<std::int32_t>(cache_.shape.block_size);
  std::vector<std::int32_t> order(static_cast<std::size_t>(cache_.shape.blocks));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  Requests requests;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const RequestId id{static_cast<std::uint32_t>(i)};
    const std::int32_t end = items[i].start + items[i].tokens;
    requests.open.Open(id, std::vector<std::int32_t>(static_cast<std::size_t>(end)), {});
    std::vector<BlockId>& blocks = requests.open[id].blocks;
    while (static_cast<std::int32_t>(blocks.size()) * block_size < end) {
      CHECK(taken < order.size());
      const auto drawn = static_cast<std::size_t>(random_.UniformInt(
          static_cast<std::int64_t>(taken), static_cast<std::int64_t>(order.size()) - 1));
      std::swap(order[taken], order[drawn]);
      blocks.push_back(BlockId{order[taken++]});
    }
    requests.plan.work.push_back(
        {.request = id, .start = items[i].start, .tokens = items[i].tokens});
  }
  return requests;
}

double CudaOperations::RunAttention(std::span<const StepItem> items) {
  const Requests requests = RequestsOf(items);
  BatchBuilder builder;
  const auto block_size = static_cast<std::int32_t>(cache_.shape.block_size);
  // Decodes alone are planned as serving replays them: padded to their bucket, for a graph.
  const std::int64_t bucket = ComputedRowsOf(requests.plan, model_.decode_buckets()).bucket;
  builder.Arrange(requests.plan, requests.open, {.block_size = block_size, .bucket = bucket});
  const StepShape& shape = builder.shape();
  if (shape.rows > attention_room_.rows || shape.sequences > attention_room_.sequences) {
    attention_room_.rows = std::max(shape.rows, attention_room_.rows);
    attention_room_.sequences = std::max(shape.sequences, attention_room_.sequences);
    attention_.reset();
    attention_ = model_.MakeAttention(block_size, attention_room_);
  }
  return RunArranged(builder, requests, *attention_, /*graph=*/bucket > 0);
}

double CudaOperations::RunDecodes(const on::DecodeWay& way, std::span<const std::int64_t> lengths) {
  const auto decodes = static_cast<std::int64_t>(lengths.size());
  std::vector<StepItem> items;
  for (const std::int64_t length : lengths) {
    items.push_back(DecodeItem(static_cast<std::int32_t>(length) - 1));
  }
  const Requests requests = RequestsOf(items);
  BatchBuilder builder;
  builder.Arrange(
      requests.plan, requests.open,
      {.block_size = static_cast<std::int32_t>(cache_.shape.block_size), .bucket = decodes});
  on::PagedAttention attention(model_.AttentionShapeOf(cache_.shape.block_size),
                               {.decode = way.kernel, .measured = {{0, way}}}, decodes, decodes);
  return RunArranged(builder, requests, attention, /*graph=*/true);
}

double CudaOperations::RunArranged(const BatchBuilder& builder, const Requests& requests,
                                   on::PagedAttention& attention, bool graph) {
  StepShape shape = builder.shape();
  Reserve(shape.rows, 1);
  shape.plan_bytes = attention.PlanBytes(builder.attention());
  const StreamView stream = model_.device().compute();
  bool moved = false;
  const StepMemory memory = arena_.Next(stream, shape, builder.pages(), moved);
  builder.Write(requests.plan, requests.open, memory.host);
  attention.Plan(builder.attention(memory, graph));
  arena_.Send(stream);
  captured_.clear();  // each call uses other blocks
  const Activations& all = model_.activations();
  const on::DeviceMatrix out = all.attended(shape.rows);
  const LapEvents& laps = Replay("attention", [&](LapEvents& moments) {
    std::int64_t layer = 0;
    for (const std::int32_t window : model_.share().layer_windows) {
      attention.Run(stream, all.qkv(shape.rows), cache_, layer++, window, out);
    }
    moments.Lap(stream, Single::kAll);
  });
  return laps.SecondsOf(Single::kAll);
}

double CudaOperations::RunBlockCopies(std::int64_t blocks) {
  CHECK(2 * blocks <= cache_.shape.blocks);
  std::vector<kernels::BlockCopy> copies;
  for (std::int64_t i = 0; i < blocks; ++i) {
    copies.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(blocks + i)});
  }
  const StreamView stream = model_.device().compute();
  const std::string name = "block copies " + std::to_string(blocks);
  if (captured_ != name) CopyToDevice(copies, stream, copies_);
  const LapEvents& laps = Replay(name, [&](LapEvents& moments) {
    on::CopyBlocks(stream, cache_, cache_, copies_.As<kernels::BlockCopy>(), blocks);
    moments.Lap(stream, Single::kAll);
  });
  return laps.SecondsOf(Single::kAll);
}

}  // namespace twin::exec::cuda
