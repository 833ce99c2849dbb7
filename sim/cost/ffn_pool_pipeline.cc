#include "sim/cost/ffn_pool_pipeline.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/check.h"

namespace twin::sim {
namespace {

constexpr std::size_t kInPlace = 64;

// The slowest resource that all layers share.
Duration SlowestShared(const FfnPoolLayer& layer, FfnPoolPlacement placement) {
  if (placement == FfnPoolPlacement::kPooled) return SlowestTime(layer);
  return std::max({layer.attention, layer.send, layer.back});
}

// `back_at`: when each micro-batch is back at the attention devices; all 0 at first.
Duration Recurrence(std::span<const FfnPoolLayer> layers, const FfnPoolPipe& pipe,
                    std::span<Duration> back_at) {
  // When each resource becomes free.
  Duration attention{0};
  Duration send{0};
  Duration ffn{0};
  Duration back{0};
  for (const FfnPoolLayer& layer : layers) {
    if (pipe.placement == FfnPoolPlacement::kPerLayer) ffn = Duration{0};
    for (Duration& at : back_at) {
      attention = std::max(attention, at) + layer.attention;
      send = std::max(send, attention) + layer.send;
      ffn = std::max(ffn, send + pipe.latency) + layer.ffn;
      back = std::max(back, ffn) + layer.back;
      at = back + pipe.latency;
    }
  }
  return back_at.back();
}

}  // namespace

Duration AloneTime(const FfnPoolLayer& layer, Duration latency) {
  return layer.attention + layer.send + layer.ffn + layer.back + 2 * latency;
}

Duration SlowestTime(const FfnPoolLayer& layer) {
  return std::max({layer.attention, layer.send, layer.ffn, layer.back});
}

std::int32_t FillingMicroBatches(const FfnPoolLayer& layer, Duration latency) {
  const Duration slowest = SlowestTime(layer);
  if (slowest <= Duration{0}) return 1;
  const Duration alone = AloneTime(layer, latency);
  return static_cast<std::int32_t>((alone + slowest - Duration{1}) / slowest);
}

Duration FfnPoolTime(std::span<const FfnPoolLayer> layers, const FfnPoolPipe& pipe) {
  CHECK(pipe.micro_batches >= 1);
  const auto count = static_cast<std::size_t>(pipe.micro_batches);
  if (count <= kInPlace) {
    std::array<Duration, kInPlace> back_at{};
    return Recurrence(layers, pipe, std::span(back_at).first(count));
  }
  std::vector<Duration> back_at(count, Duration{0});
  return Recurrence(layers, pipe, back_at);
}

Duration FfnPoolTimeOfEqual(const FfnPoolLayer& layer, std::int32_t layers,
                            const FfnPoolPipe& pipe) {
  CHECK(layers >= 1 && pipe.micro_batches >= 1);
  const Duration slowest = SlowestShared(layer, pipe.placement);
  if (layer.ffn > slowest) {
    const std::vector<FfnPoolLayer> all(static_cast<std::size_t>(layers), layer);
    return FfnPoolTime(all, pipe);
  }
  const Duration alone = AloneTime(layer, pipe.latency);
  const std::int64_t m = pipe.micro_batches;
  return (layers - 1) * std::max(m * slowest, alone) + alone + (m - 1) * slowest;
}

FfnPoolBounds PerLayerBounds(const FfnPoolLayer& layer, std::int32_t layers,
                             const FfnPoolPipe& pipe) {
  const Duration slowest = SlowestShared(layer, FfnPoolPlacement::kPerLayer);
  CHECK(layer.ffn >= slowest);
  const Duration alone = AloneTime(layer, pipe.latency);
  const std::int64_t m = pipe.micro_batches;
  const Duration by_ffn = layers * alone + (m - 1) * layer.ffn;
  const Duration by_others = (layers - 1) * m * slowest + alone + (m - 1) * slowest;
  return {.least = std::max(by_ffn, by_others),
          .most = (layers - 1) * std::max(m * layer.ffn, alone) + alone + (m - 1) * layer.ffn};
}

}  // namespace twin::sim
