#include "kernels/cuda/decode_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr DecodeWay kWays[] = {{AttentionKernel::kFa2, 1},
                               {AttentionKernel::kFa2, 2},
                               {AttentionKernel::kFa2, kWavesMax},
                               {AttentionKernel::kFa2, 0},
                               {AttentionKernel::kCudaCore, 1}};

DecodeCase CaseOf(const DecodeTuning& tuning, std::int64_t decodes, std::int64_t length,
                  const DecodeWay& way) {
  return {tuning.shape, decodes, length, way};
}

// The times of a number of decodes at one length, by way; empty if not all ways were measured.
std::vector<double> TimesOf(const DecodeTuning& tuning, std::int64_t decodes, std::int64_t length,
                            const DecodeTimes& times) {
  std::vector<double> found;
  for (const DecodeWay& way : tuning.ways) {
    const auto time = times.find(CaseOf(tuning, decodes, length, way));
    if (time == times.end()) return {};
    found.push_back(time->second);
  }
  return found;
}

}  // namespace

std::string NameOf(const DecodeWay& way) {
  const std::string kernel(Name(way.kernel));
  if (way.waves == 0) return kernel + " whole";
  return way.waves == 1 ? kernel : kernel + " " + std::to_string(way.waves) + " waves";
}

std::optional<DecodeWay> ParseDecodeWay(std::string_view name) {
  for (const DecodeWay& way : kWays) {
    if (NameOf(way) == name) return way;
  }
  return std::nullopt;
}

std::vector<DecodeWay> DecodeWaysOf(const AttentionShape& shape, int compute_capability) {
  std::vector<DecodeWay> ways;
  for (const DecodeWay& way : kWays) {
    if (WhyNotAttention(way.kernel, shape, compute_capability).empty()) ways.push_back(way);
  }
  return ways;
}

std::string ShapeText(const AttentionShape& shape) {
  std::ostringstream text;
  text << twin::Name(shape.dtype) << ':' << shape.heads << '/' << shape.kv_heads << 'x'
       << shape.head_dim << ':' << shape.block_size;
  for (const std::int64_t window : shape.windows) text << ':' << window;
  text << ":ragged";  // distinguishes these times from earlier ones, of equal lengths
  return text.str();
}

std::vector<std::int64_t> LengthsOf(const DecodeCase& each, std::int64_t longest) {
  // Quantiles of a log-logistic distribution, close to the log-normal one with sigma 0.8 that
  // lengths of conversations have; in an order that is not sorted.
  constexpr double kShape = 0.47;
  const auto count = static_cast<std::size_t>(each.decodes);
  std::vector<double> quantiles(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    quantiles[i] = std::pow(share / (1 - share), kShape);
  }
  const double mean =
      std::accumulate(quantiles.begin(), quantiles.end(), 0.0) / static_cast<double>(count);
  std::vector<std::int64_t> lengths(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double length = static_cast<double>(each.length) * quantiles[i] / mean;
    lengths[i] = std::clamp(static_cast<std::int64_t>(length), std::int64_t{1}, longest);
  }
  std::shuffle(lengths.begin(), lengths.end(), std::mt19937(1));
  return lengths;
}

bool MeasureDecodes(const DecodeTuning& tuning, const DecodeTimer& timer, DecodeTimes& times) {
  bool measured = false;
  for (const std::int64_t decodes : tuning.decodes) {
    for (const std::int64_t length : tuning.lengths) {
      for (const DecodeWay& way : tuning.ways) {
        const DecodeCase each = CaseOf(tuning, decodes, length, way);
        if (times.contains(each)) continue;
        const std::optional<double> time = timer(each);
        if (!time) continue;
        times[each] = *time;
        measured = true;
      }
    }
  }
  return measured;
}

std::vector<MeasuredDecodes> FastestDecodes(const DecodeTuning& tuning, const DecodeTimes& times) {
  std::vector<MeasuredDecodes> fastest;
  for (const std::int64_t decodes : tuning.decodes) {
    std::vector<double> sums(tuning.ways.size(), 0);
    bool any = false;
    for (const std::int64_t length : tuning.lengths) {
      const std::vector<double> found = TimesOf(tuning, decodes, length, times);
      if (found.empty()) continue;
      any = true;
      const double least =
          std::max(*std::ranges::min_element(found), std::numeric_limits<double>::min());
      for (std::size_t i = 0; i < found.size(); ++i) sums[i] += found[i] / least;
    }
    if (!any) continue;
    const auto best = std::ranges::min_element(sums) - sums.begin();
    fastest.push_back({decodes, tuning.ways[static_cast<std::size_t>(best)]});
  }
  return fastest;
}

}  // namespace twin::kernels::cuda
