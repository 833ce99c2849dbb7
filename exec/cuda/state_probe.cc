#include "exec/cuda/state_probe.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "core/statistics.h"
#include "exec/cuda/device.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/nvml_clocks.h"
#include "kernels/cuda/random_fill.h"

namespace twin::exec {
namespace {

using cuda::DeviceBuffer;
using kernels::cuda::CheckCuda;
using kernels::cuda::DeviceMatrix;
using Clock = cuda::NvmlClocks::Clock;

constexpr std::int64_t kTokens = 1024;
constexpr std::int64_t kWeightCopies = 4;  // so that products read weights from memory
// Seconds of all loads and pauses at full length: the sum of what MeasureAll() runs.
constexpr double kWholeSeconds = 30;
constexpr double kRestMs = 500;
constexpr double kChainMs = 300;
constexpr double kBurstMs = 40;
constexpr double kDecodeMs = 1500;
constexpr int kBursts = 8;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Products of one activation matrix by weights in turn.
class Load {
 public:
  Load(cuda::Device& device, std::int64_t outputs, std::int64_t inputs)
      : device_(device),
        outputs_(outputs),
        inputs_(inputs),
        weights_(kWeightCopies * Bytes(outputs, inputs), "weights of a load"),
        x_(Bytes(kTokensMax, inputs), "activations of a load"),
        y_(Bytes(kTokensMax, outputs), "results of a load") {
    Fill(weights_, kWeightCopies * outputs, inputs, 1);
    Fill(x_, kTokensMax, inputs, 2);
  }

  void Multiply(std::int64_t tokens) {
    turn_ = (turn_ + 1) % kWeightCopies;
    device_.gemm().Multiply(
        device_.compute(), kernels::cuda::DenseDeviceMatrix(x_.data(), kFormat, tokens, inputs_),
        kernels::cuda::DenseDeviceMatrix(weights_.data() + turn_ * Bytes(outputs_, inputs_),
                                         kFormat, outputs_, inputs_),
        kernels::cuda::DenseDeviceMatrix(y_.data(), kFormat, tokens, outputs_));
  }
  // Uses the fastest algorithm from now on.
  void Tune(std::int64_t tokens) {
    device_.gemm().Tune(device_.compute(),
                        {.tokens = tokens, .outputs = outputs_, .inputs = inputs_});
  }
  // Calls that follow each other without a pause, for about `ms`.
  TimedCalls Run(std::int64_t tokens, double ms) {
    const double one = std::max(MedianMs(tokens, 3), 1e-4);
    const auto calls = static_cast<std::size_t>(std::clamp(ms / one, 4.0, 20'000.0));
    const std::vector<cuda::Event>& events = Events(calls + 1);
    events[0].Record(device_.compute());
    for (std::size_t i = 1; i <= calls; ++i) {
      Multiply(tokens);
      events[i].Record(device_.compute());
    }
    events[calls].Await("a load");
    TimedCalls timed;
    for (std::size_t i = 0; i < calls; ++i) {
      timed.begin_ms.push_back(static_cast<double>(NanosecondsBetween(events[0], events[i])) *
                               1e-6);
      timed.ms.push_back(static_cast<double>(NanosecondsBetween(events[i], events[i + 1])) * 1e-6);
    }
    return timed;
  }
  // Median time of single calls.
  double MedianMs(std::int64_t tokens, std::int64_t calls) {
    const std::vector<cuda::Event>& events = Events(2);
    std::vector<double> ms;
    for (std::int64_t i = 0; i < calls; ++i) {
      events[0].Record(device_.compute());
      Multiply(tokens);
      events[1].Record(device_.compute());
      events[1].Await("a product");
      ms.push_back(static_cast<double>(NanosecondsBetween(events[0], events[1])) * 1e-6);
    }
    return Median(ms);
  }

 private:
  static constexpr DType kFormat = DType::kBf16;
  static constexpr std::int64_t kTokensMax = 2 * kTokens + 128;
  static std::int64_t Bytes(std::int64_t rows, std::int64_t columns) {
    return rows * columns * ByteSize(kFormat);
  }
  // Random numbers: products of zeros draw less power.
  void Fill(const DeviceBuffer& buffer, std::int64_t rows, std::int64_t columns,
            std::uint64_t key) const {
    kernels::cuda::FillWithNormals(
        device_.compute(), {.key = key, .row_step = static_cast<std::uint64_t>(columns)},
        kernels::cuda::DenseDeviceMatrix(buffer.data(), kFormat, rows, columns));
  }
  const std::vector<cuda::Event>& Events(std::size_t count) {
    while (events_.size() < count) events_.emplace_back(cuda::Event::Kind::kTimed);
    return events_;
  }

  cuda::Device& device_;
  std::int64_t outputs_;
  std::int64_t inputs_;
  DeviceBuffer weights_;
  DeviceBuffer x_;
  DeviceBuffer y_;
  std::int64_t turn_ = 0;
  std::vector<cuda::Event> events_;
};

// Runs the loads of one measurement. `scale` shortens loads and pauses.
class Measurement {
 public:
  Measurement(cuda::Device& device, double scale, Clock::time_point begin, ProbedDeviceState& state)
      : scale_(scale),
        begin_(begin),
        state_(state),
        load_(device, state.outputs, state.inputs),
        narrow_(device, state.inputs, state.inputs) {}

  void MeasureAll() {
    load_.Tune(kTokens);
    for (int repeat = 0; repeat < 3; ++repeat) Chain("chain", kRestMs);
    for (const double rest : {10.0, 20.0, 40.0, 80.0, 160.0, 400.0}) {
      Rest(kRestMs);
      for (int burst = 0; burst < kBursts; ++burst) {
        Rest(rest);
        Add("bursts", rest, 0, kBurstMs);
      }
    }
    for (const std::int64_t batch : {64, 128, 256}) {
      load_.Tune(batch);
      Rest(kRestMs);
      load_.Run(batch, kDecodeMs * scale_);
      Add("chain after decodes", 0, batch, kChainMs);
    }
    MeasureTiles();
  }

 private:
  void Rest(double ms) const {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms * scale_));
  }
  void Chain(const char* name, double rest) {
    Rest(rest);
    Add(name, rest, 0, kChainMs);
  }
  void Add(const char* name, double rest, std::int64_t rows, double ms) {
    StateSeries series{.name = name,
                       .rest_ms = rest * scale_,
                       .rows = rows,
                       .begin_ms = MillisecondsSince(begin_),
                       .calls = {}};
    series.calls = load_.Run(kTokens, ms * scale_);
    state_.series.push_back(std::move(series));
  }
  // Measures both sides of the multiples of 16 around the sizes of chunks.
  void MeasureTiles() {
    for (const std::int64_t chunk : {256, 512, 1024, 2048}) {
      for (std::int64_t tokens = chunk - 32; tokens <= chunk + 32; tokens += 16) {
        for (const std::int64_t m : {tokens, tokens + 1}) {
          state_.tiles.push_back({m, state_.outputs, state_.inputs, 1e3 * load_.MedianMs(m, 5)});
          state_.tiles.push_back({m, state_.inputs, state_.inputs, 1e3 * narrow_.MedianMs(m, 5)});
        }
      }
    }
  }

  double scale_;
  Clock::time_point begin_;
  ProbedDeviceState& state_;
  Load load_;
  Load narrow_;
};

// Chooses the size of Llama-3-8B's gate and up projections, or as much of it as fits.
void ChooseSizes(ProbedDeviceState& state) {
  state.tokens = kTokens;
  state.outputs = 28672;
  state.inputs = 4096;
  const std::int64_t free = cuda::CurrentDeviceMemory().free;
  const auto bytes = [&] {
    const std::int64_t weights = kWeightCopies * (state.outputs + state.inputs) * state.inputs;
    return 2 * (weights + 3 * kTokens * (state.outputs + 3 * state.inputs));
  };
  while (bytes() > free / 4 && state.inputs > 16) {
    state.outputs /= 2;
    state.inputs /= 2;
  }
}

// Median time of the calls that began in a span.
double MedianIn(const TimedCalls& calls, double from_ms, double to_ms) {
  std::vector<double> ms;
  for (std::size_t i = 0; i < calls.ms.size(); ++i) {
    if (calls.begin_ms[i] >= from_ms && calls.begin_ms[i] < to_ms) ms.push_back(calls.ms[i]);
  }
  return QuantileOrZero(std::move(ms), 0.5);
}

}  // namespace

ProbedDeviceState MeasureDeviceState(std::int32_t ordinal, const StateOptions& options) {
  cuda::Device device(ordinal, {});
  ProbedDeviceState state;
  state.device = device.description();
  ChooseSizes(state);
  char bus[32] = {};
  CheckCuda(cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal), "cudaDeviceGetPCIBusId");
  const Clock::time_point begin = Clock::now();
  cuda::NvmlClocks clocks(options.nvml, bus, begin);
  Measurement(device, options.seconds / kWholeSeconds, begin, state).MeasureAll();
  clocks.Stop();
  state.clocks = clocks.samples();
  state.no_clocks = clocks.why();
  return state;
}

std::vector<std::string> Summarize(const ProbedDeviceState& state) {
  std::vector<std::string> lines;
  const double flops =
      2e-9 * static_cast<double>(state.tokens) * static_cast<double>(state.outputs * state.inputs);
  for (const StateSeries& series : state.series) {
    if (series.name == "bursts" || series.calls.ms.empty()) continue;
    const double length = series.calls.begin_ms.back() + series.calls.ms.back();
    const double first = MedianIn(series.calls, 0, length / 60);
    const double last = MedianIn(series.calls, length / 2, length);
    if (first <= 0 || last <= 0) continue;
    // Finds the first call that has slowed by two thirds of the way, by the median of the call and
    // its neighbours.
    double tau = 0;
    for (double at = 0; at < length && tau == 0; at += length / 60) {
      const double now = MedianIn(series.calls, at, at + length / 60);
      if (now > 0 && now >= first + 0.63 * (last - first)) tau = at;
    }
    const std::string before = series.rows > 0 ? fmt::format("products of {} rows", series.rows)
                                               : fmt::format("{:.0f} ms of rest", series.rest_ms);
    lines.push_back(
        fmt::format("after {}: {:.1f} TFLOP/s at first, {:.1f} at last, a factor of {:.3f}, 63 % "
                    "of it in {:.0f} ms",
                    before, flops / first, flops / last, last / first, tau));
  }
  if (!state.no_clocks.empty()) {
    lines.push_back("no clocks: " + state.no_clocks);
  } else if (!state.clocks.empty()) {
    const auto [low, high] = std::minmax_element(
        state.clocks.begin(), state.clocks.end(),
        [](const ClockSample& a, const ClockSample& b) { return a.sm_mhz < b.sm_mhz; });
    std::uint64_t reasons = 0;
    double watts = 0;
    for (const ClockSample& sample : state.clocks) {
      reasons |= sample.event_reasons;
      watts = std::max(watts, sample.watts);
    }
    lines.push_back(fmt::format(
        "SM clock {} to {} MHz, at most {:.0f} W, clock event reasons {:#x} together, {} samples",
        low->sm_mhz, high->sm_mhz, watts, reasons, state.clocks.size()));
  }
  return lines;
}

}  // namespace twin::exec
