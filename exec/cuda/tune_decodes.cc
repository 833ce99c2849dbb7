#include "exec/cuda/tune_decodes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "exec/cuda/cuda_operations.h"
#include "kernels/cuda/decode_times.h"
#include "kernels/cuda/stream.h"

namespace twin::exec::cuda {
namespace {

namespace on = kernels::cuda;

constexpr std::int64_t kLengths[] = {256, 1024, 4096};
constexpr int kTurns = 3;

// Powers of two, because neighbouring numbers of decodes are computed alike.
std::vector<std::int64_t> NumbersOfDecodes(const CudaModel& model) {
  std::vector<std::int64_t> numbers;
  for (const std::uint32_t bucket : model.decode_buckets()) {
    if ((bucket & (bucket - 1)) == 0) numbers.push_back(bucket);
  }
  return numbers;
}

bool Fits(const std::vector<std::int64_t>& lengths, const kernels::KvCacheShape& cache) {
  std::int64_t pages = 0;
  for (const std::int64_t length : lengths) {
    pages += (length + cache.block_size - 1) / cache.block_size;
  }
  return pages <= cache.blocks;
}

}  // namespace

void TuneDecodes(CudaModel& model, const kernels::KvCacheView& cache) {
  const on::AttentionShape shape = model.AttentionShapeOf(cache.shape.block_size);
  on::DecodeTuning tuning{.shape = on::ShapeText(shape),
                          .decodes = NumbersOfDecodes(model),
                          .lengths = {},
                          .ways = on::DecodeWaysOf(shape, model.device().compute_capability())};
  if (model.decodes_are_fixed() || tuning.ways.size() < 2) return;
  for (const std::int64_t length : kLengths) {
    if (length <= model.positions()) tuning.lengths.push_back(length);
  }
  on::DecodeTimes& times = model.device().gemm().decode_times();
  CudaOperations operations(model, cache);
  const auto timer = [&](const on::DecodeCase& each) -> std::optional<double> {
    const std::vector<std::int64_t> lengths = on::LengthsOf(each, model.positions());
    if (!Fits(lengths, cache.shape)) return std::nullopt;
    double seconds = std::numeric_limits<double>::max();
    try {
      for (int turn = 0; turn < kTurns; ++turn) {
        seconds = std::min(seconds, operations.RunDecodes(each.way, lengths));
      }
    } catch (const on::DeviceError& error) {
      if (!error.out_of_memory()) throw;
      return std::nullopt;
    }
    return seconds * 1e6;
  };
  if (on::MeasureDecodes(tuning, timer, times)) model.device().gemm().Save();
  model.UseDecodes(on::FastestDecodes(tuning, times));
}

}  // namespace twin::exec::cuda
