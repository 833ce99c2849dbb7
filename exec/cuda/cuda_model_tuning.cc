// CudaModel: the algorithms of its products and of the attention of decodes, chosen by measurement.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/cuda_model.h"
#include "exec/cuda/cuda_operations.h"
#include "kernels/cuda/decode_times.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/widening_gemm.h"

namespace twin::exec::cuda {
namespace {

namespace on = kernels::cuda;

// The numbers of tokens whose products are tuned for prefills, ascending: 64, 96, 128, 192 and so
// on up to 8,192, and the largest step.
std::vector<std::int64_t> PrefillSizes(const StepSizes& largest_step) {
  const std::int64_t largest = largest_step.tokens;
  std::vector<std::int64_t> sizes;
  for (std::int64_t tokens = 64; tokens <= 8192 && tokens < largest; tokens *= 2) {
    sizes.push_back(tokens);
    const std::int64_t between = tokens + tokens / 2;
    if (between <= 8192 && between < largest) sizes.push_back(between);
  }
  sizes.push_back(largest);
  return sizes;
}

constexpr std::int64_t kDecodeLengths[] = {256, 1024, 4096};
constexpr int kDecodeTurns = 3;

// Powers of two, because neighbouring numbers of decodes are computed alike.
std::vector<std::int64_t> NumbersOfDecodes(const std::vector<std::uint32_t>& buckets) {
  std::vector<std::int64_t> numbers;
  for (const std::uint32_t bucket : buckets) {
    if ((bucket & (bucket - 1)) == 0) numbers.push_back(bucket);
  }
  return numbers;
}

bool CacheHolds(const std::vector<std::int64_t>& lengths, const kernels::KvCacheShape& cache) {
  std::int64_t pages = 0;
  for (const std::int64_t length : lengths) {
    pages += (length + cache.block_size - 1) / cache.block_size;
  }
  return pages <= cache.blocks;
}

}  // namespace

std::optional<on::DeviceGemmShape> CudaModel::ProductShape(std::int64_t tokens,
                                                           const DeviceLinear& linear,
                                                           DType output) const {
  if (linear.empty()) return std::nullopt;
  on::DeviceMatrix weights = linear.matrix;
  on::Fp8Accumulation accumulation{};
  if (Widens(linear)) {
    if (tokens <= on::kWideningTokensMax) return std::nullopt;
    weights = Widened(linear);
  } else if (weights.dtype == DType::kFp8) {
    weights = linear.padded().values;
    accumulation = AccumulationOf(options_);
  }
  return on::DeviceGemmShape{.tokens = tokens,
                             .outputs = weights.rows,
                             .inputs = weights.columns,
                             .input_dtype = weights.dtype,
                             .output_dtype = output,
                             .accumulation = accumulation};
}

std::vector<on::DeviceGemmShape> CudaModel::ProductShapes(std::int64_t tokens, bool logits) const {
  const DeviceLayer& layer = weights_.layers.front();
  std::vector<on::DeviceGemmShape> shapes;
  const auto add = [&](const DeviceLinear& linear, DType output) {
    if (const auto shape = ProductShape(tokens, linear, output)) shapes.push_back(*shape);
  };
  add(layer.router, DType::kFp32);
  for (const DeviceLinear* linear : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
    add(*linear, kActivationFormat);
  }
  if (logits && options_.links.place.last_stage()) add(weights_.head(), DType::kFp32);
  return shapes;
}

bool CudaModel::TuneProduct(const on::DeviceGemmShape& shape, std::vector<std::string>& failures) {
  try {
    device_->gemm().Tune(device_->compute(), shape);
    return true;
  } catch (const on::HungDevice&) {
    throw;
  } catch (const on::DeviceError& error) {
    if (!error.out_of_memory()) {
      failures.push_back(
          fmt::format("the product of {} x {} weights and {} tokens is not tuned: {}",
                      shape.outputs, shape.inputs, shape.tokens, error.what()));
    }
    return false;
  }
}

void CudaModel::LoadProducts() {
  const DeviceLayer& layer = weights_.layers.front();
  const std::int64_t largest = options_.largest_step.tokens;
  for (std::int64_t tokens = 1; tokens <= largest; tokens = on::RoundedTokens(tokens + 1)) {
    Multiply(activations_.normed(tokens), layer.qkv, activations_.qkv(tokens));
    Multiply(activations_.attended(tokens), layer.output, activations_.normed(tokens));
    if (layer.up.empty()) continue;
    Multiply(activations_.residual(tokens), layer.up, activations_.inner(tokens));
    Multiply(activations_.activated(tokens), layer.down, activations_.normed(tokens));
  }
}

std::vector<std::string> CudaModel::TuneProducts() {
  struct Size {
    std::int64_t tokens;
    bool decodes;
  };
  std::vector<Size> sizes;
  for (const std::uint32_t bucket : decode_buckets()) sizes.push_back({bucket, true});
  for (const std::int64_t tokens : PrefillSizes(options_.largest_step)) {
    sizes.push_back({tokens, false});
  }
  std::vector<std::string> failures;
  for (const Size& size : sizes) {
    bool tuned = false;
    for (const on::DeviceGemmShape& shape : ProductShapes(size.tokens, size.decodes)) {
      const double flops = 2 * static_cast<double>(shape.tokens) *
                           static_cast<double>(shape.outputs) * static_cast<double>(shape.inputs);
      const bool small = !size.decodes && flops < options_.tuned_flops_min;
      if (small || device_->gemm().Measured(shape)) continue;
      if (TuneProduct(shape, failures)) tuned = true;
    }
    if (tuned) device_->gemm().Save();
  }
  return failures;
}

void CudaModel::TuneDecodes(const kernels::KvCacheView& cache) {
  const on::AttentionShape shape = AttentionShapeOf(cache.shape.block_size);
  on::DecodeTuning tuning{.shape = on::ShapeText(shape),
                          .decodes = NumbersOfDecodes(decode_buckets()),
                          .lengths = {},
                          .ways = on::DecodeWaysOf(shape, device_->compute_capability())};
  if (decodes_are_fixed() || tuning.ways.size() < 2) return;
  for (const std::int64_t length : kDecodeLengths) {
    if (length <= positions()) tuning.lengths.push_back(length);
  }
  on::DecodeTimes& times = device_->gemm().decode_times();
  CudaOperations operations(*this, cache);
  const auto timer = [&](const on::DecodeCase& each) -> std::optional<double> {
    const std::vector<std::int64_t> lengths = on::LengthsOf(each, positions());
    if (!CacheHolds(lengths, cache.shape)) return std::nullopt;
    double seconds = std::numeric_limits<double>::max();
    try {
      for (int turn = 0; turn < kDecodeTurns; ++turn) {
        seconds = std::min(seconds, operations.RunDecodes(each.way, lengths));
      }
    } catch (const on::DeviceError& error) {
      if (!error.out_of_memory()) throw;
      return std::nullopt;
    }
    return seconds * 1e6;
  };
  if (on::MeasureDecodes(tuning, timer, times)) device_->gemm().Save();
  measured_decodes_ = on::FastestDecodes(tuning, times);
}

}  // namespace twin::exec::cuda
