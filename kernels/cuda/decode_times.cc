#include "kernels/cuda/decode_times.h"

#include <algorithm>
#include <limits>
#include <sstream>

namespace twin::kernels::cuda {
namespace {

constexpr DecodeWay kWays[] = {{AttentionKernel::kFa2, true},
                               {AttentionKernel::kFa2, false},
                               {AttentionKernel::kCudaCore, true}};

DecodeCase CaseOf(const DecodeTuning& tuning, std::int64_t decodes, std::int64_t length,
                  const DecodeWay& way) {
  return {tuning.shape, decodes, length, way};
}

// Of one number of decodes at one length, by way; empty if not all ways were measured.
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
  return std::string(Name(way.kernel)) + (way.cut ? "" : " whole");
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
  return text.str();
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
