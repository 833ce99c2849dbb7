#include "exec/cpu/cpu_operations.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/check.h"
#include "exec/model/rope.h"
#include "exec/ragged_batch.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/kv_copy.h"
#include "kernels/norm.h"
#include "kernels/paged_attention.h"

namespace twin::exec {
namespace {

template <class Work>
double SecondsOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<std::int32_t> Numbered(std::int64_t count, std::int32_t modulus) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(modulus));
  }
  return numbers;
}

}  // namespace

std::vector<const kernels::WeightView*> ModelMatrices::Layer::present() const {
  std::vector<const kernels::WeightView*> all = {&qkv, &output, &up, &down};
  std::erase_if(all, [](const kernels::WeightView* w) { return w->rows == 0; });
  return all;
}

ModelMatrices MatricesOf(const ModelWeights& weights) {
  ModelMatrices matrices{.layers = {},
                         .mixtures = MixturesOf(weights),
                         .embedding = weights.embedding.matrix.view(),
                         .head = weights.head().matrix.view()};
  for (const LayerWeights& layer : weights.layers) {
    matrices.layers.push_back({.qkv = layer.qkv.matrix.view(),
                               .output = layer.output.matrix.view(),
                               .up = layer.up.matrix.view(),
                               .down = layer.down.matrix.view()});
  }
  return matrices;
}

CpuOperations::CpuOperations(const ModelConfig& config, ModelMatrices matrices,
                             std::int32_t positions, const kernels::KvCacheView& cache,
                             kernels::ThreadPool& pool)
    : config_(config),
      matrices_(std::move(matrices)),
      mixture_(config, pool),
      cache_(cache),
      pool_(pool),
      random_(1, "operations"),
      gain_(static_cast<std::size_t>(config.shape.hidden), 1.0F),
      bias_(static_cast<std::size_t>(config.shape.hidden), 0.0F) {
  if (config.shape.learned_positions == 0) {
    rope_.emplace(InverseFrequencies(config.rope, config.rotary_dimensions), positions,
                  config.rope.magnitude);
  }
}

CpuOperations::Matrix CpuOperations::Input(std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = rows * columns;
  auto* const data = input_.Reserve<float>(count);
  if (count > filled_) {
    for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(random_.Normal());
    filled_ = count;
  }
  return kernels::DenseMatrix(data, rows, columns);
}

CpuOperations::Matrix CpuOperations::Output(std::int64_t rows, std::int64_t columns) {
  return kernels::DenseMatrix(output_.Reserve<float>(rows * columns), rows, columns);
}

GemmSeconds CpuOperations::RunGemms(std::int64_t tokens) {
  std::int64_t widest_in = 0;
  std::int64_t widest_out = 0;
  for (const auto& layer : matrices_.layers) {
    for (const kernels::WeightView* w : layer.present()) {
      widest_in = std::max(widest_in, w->columns);
      widest_out = std::max(widest_out, w->rows);
    }
  }
  Input(tokens, widest_in);
  Output(tokens, widest_out);
  GemmSeconds seconds;
  for (const auto& layer : matrices_.layers) {
    const auto run = [&](const kernels::WeightView& w, bool accumulate) {
      const Matrix x = Input(tokens, w.columns);
      const Matrix y = Output(tokens, w.rows);
      return SecondsOf(
          [&] { kernels::Gemm(pool_, x, w, {.bias = {}, .accumulate = accumulate}, y); });
    };
    seconds.qkv += run(layer.qkv, false);
    seconds.output += run(layer.output, true);
    if (!matrices_.mixtures.empty()) continue;
    seconds.up += run(layer.up, false);
    seconds.down += run(layer.down, true);
  }
  if (matrices_.mixtures.empty()) return seconds;
  const MixtureSeconds of = RunMixtures(tokens);
  seconds.router = of[static_cast<std::size_t>(MixturePart::kRouter)];
  seconds.expert_up = of[static_cast<std::size_t>(MixturePart::kExpertUp)];
  seconds.expert_down = of[static_cast<std::size_t>(MixturePart::kExpertDown)];
  seconds.up = of[static_cast<std::size_t>(MixturePart::kSharedUp)];
  seconds.down = of[static_cast<std::size_t>(MixturePart::kSharedDown)];
  return seconds;
}

MixtureSeconds CpuOperations::RunMixtures(std::int64_t tokens) {
  using Clock = std::chrono::steady_clock;
  const Matrix x = Input(tokens, config_.shape.hidden);
  MixtureSeconds seconds{};
  for (const MixtureMatrices& matrices : matrices_.mixtures) {
    Clock::time_point last = Clock::now();
    mixture_.Compute(x, matrices, [&](MixturePart part) {
      const Clock::time_point now = Clock::now();
      seconds[static_cast<std::size_t>(part)] += std::chrono::duration<double>(now - last).count();
      last = now;
    });
  }
  return seconds;
}

double CpuOperations::RunHead(std::int64_t rows) {
  const Matrix x = Input(rows, matrices_.head.columns);
  const Matrix y = Output(rows, matrices_.head.rows);
  return SecondsOf([&] { kernels::Gemm(pool_, x, matrices_.head, {}, y); });
}

void CpuOperations::Normalize(Matrix from, Matrix to) {
  if (config_.shape.norm == NormKind::kLayerNorm) {
    kernels::LayerNorm(pool_, from, gain_, bias_, config_.norm_epsilon, to);
  } else {
    kernels::RmsNorm(pool_, from, gain_, config_.norm_epsilon, to);
  }
}

OtherSeconds CpuOperations::RunOther(std::int64_t tokens) {
  const ModelSpec& shape = config_.shape;
  const std::int64_t query_width = std::int64_t{shape.query_heads} * shape.head_dim;
  const std::int64_t key_width = std::int64_t{shape.kv_heads} * shape.head_dim;
  const std::int64_t inner = (shape.gated_mlp ? 2 : 1) * std::int64_t{shape.intermediate};
  const std::int64_t widest =
      std::max({std::int64_t{shape.hidden}, query_width + 2 * key_width, inner});
  const Matrix x = Input(tokens, widest);
  const Matrix y = Output(tokens, widest);
  const Matrix keys = x.Columns(query_width, key_width);
  const Matrix values = x.Columns(query_width + key_width, key_width);
  const std::vector<std::int32_t> positions =
      Numbered(tokens, rope_ ? static_cast<std::int32_t>(rope_->positions()) : 1);
  const std::vector<std::int32_t> slots = Numbered(tokens, static_cast<std::int32_t>(tokens));
  CHECK(tokens <= cache_.shape.blocks * cache_.shape.block_size);
  const std::vector<std::int32_t> ids = Numbered(tokens, shape.vocab);
  OtherSeconds seconds;
  const Matrix rows = y.Columns(0, matrices_.embedding.columns);
  seconds.embedding = SecondsOf([&] { kernels::EmbedRows(pool_, matrices_.embedding, ids, rows); });
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const Matrix hidden = x.Columns(0, shape.hidden);
    for (std::int32_t norm = 0; norm < shape.norms_per_layer; ++norm) {
      seconds.norms += SecondsOf([&] { Normalize(hidden, y.Columns(0, shape.hidden)); });
    }
    if (rope_) {
      // Repeated rotations do not change the size of the numbers.
      seconds.rope += SecondsOf([&] {
        kernels::ApplyRope(pool_, *rope_, positions, {shape.head_dim},
                           x.Columns(0, query_width + key_width));
      });
    }
    seconds.append +=
        SecondsOf([&] { kernels::AppendKv(pool_, keys, values, slots, layer, cache_); });
    if (matrices_.mixtures.empty()) seconds.activation += RunActivation(x, y);
  }
  if (matrices_.mixtures.empty()) return seconds;
  const MixtureSeconds of = RunMixtures(tokens);
  seconds.activation = of[static_cast<std::size_t>(MixturePart::kActivation)];
  seconds.routing = of[static_cast<std::size_t>(MixturePart::kRouting)];
  return seconds;
}

double CpuOperations::RunActivation(Matrix from, Matrix to) {
  const std::int64_t width = config_.shape.intermediate;
  return SecondsOf([&] {
    if (config_.shape.gated_mlp) {
      kernels::ActivateGated(pool_, config_.activation, from.Columns(0, width),
                             from.Columns(width, width), to.Columns(0, width));
    } else {
      kernels::Activate(pool_, config_.activation, to.Columns(0, width));
    }
  });
}

double CpuOperations::RunAttention(std::span<const StepItem> items) {
  const ModelSpec& shape = config_.shape;
  const auto block_size = static_cast<std::int32_t>(cache_.shape.block_size);
  std::vector<std::int32_t> order = Numbered(cache_.shape.blocks, 1 << 30);
  std::vector<std::vector<BlockId>> blocks(items.size());
  std::vector<BatchItem> batch_items;
  std::size_t taken = 0;
  const std::vector<std::int32_t> ids(
      static_cast<std::size_t>(
          std::max_element(items.begin(), items.end(),
                           [](const StepItem& a, const StepItem& b) { return a.tokens < b.tokens; })
              ->tokens),
      0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int32_t end = items[i].start + items[i].tokens;
    while (static_cast<std::int32_t>(blocks[i].size()) * block_size < end) {
      CHECK(taken < order.size());
      const auto drawn = static_cast<std::size_t>(random_.UniformInt(
          static_cast<std::int64_t>(taken), static_cast<std::int64_t>(order.size()) - 1));
      std::swap(order[taken], order[drawn]);
      blocks[i].push_back(BlockId{order[taken++]});
    }
    batch_items.push_back({std::span(ids).first(static_cast<std::size_t>(items[i].tokens)),
                           items[i].start, blocks[i]});
  }
  RaggedBatch batch;
  batch.Assign(batch_items, block_size);
  const std::int64_t width = std::int64_t{shape.query_heads} * shape.head_dim;
  const Matrix q = Input(batch.rows(), width);
  const Matrix out = Output(batch.rows(), width);
  return SecondsOf([&] {
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      kernels::PagedAttention(pool_, q,
                              {.first_query = batch.first_row,
                               .kv_lengths = batch.kv_lengths,
                               .block_tables = batch.block_tables,
                               .table_stride = batch.table_stride},
                              cache_, layer,
                              {.scale = config_.attention_scale,
                               .window = config_.layer_windows[static_cast<std::size_t>(layer)],
                               .logit_cap = config_.attention_cap},
                              out);
    }
  });
}

double CpuOperations::RunBlockCopies(std::int64_t blocks) {
  CHECK(2 * blocks <= cache_.shape.blocks);
  std::vector<kernels::BlockCopy> copies;
  for (std::int64_t i = 0; i < blocks; ++i) {
    copies.push_back({static_cast<std::int32_t>(2 * i), static_cast<std::int32_t>(2 * i + 1)});
  }
  return SecondsOf([&] { kernels::CopyBlocks(pool_, cache_, cache_, copies); });
}

}  // namespace twin::exec
