// Measures how the speed of a CUDA device depends on its recent load; includes no CUDA header.
//
// Under a power limit, a device lowers its clock while products run and raises it again while
// it rests or decodes. A cost model needs the rates of the rested and of the loaded device, and how
// fast one becomes the other. Loads of known lengths with pauses of known lengths show all three.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twin::exec {

// Calls of one product, each timed by the device. Milliseconds since the first call began.
struct TimedCalls {
  std::vector<double> begin_ms;
  std::vector<double> ms;
};

// A series of products, and what the device did before it.
struct StateSeries {
  std::string name;       // "chain", "bursts", "chain after decodes"
  double rest_ms = 0;     // pause before the series, or before each of its bursts
  std::int64_t rows = 0;  // tokens of the products before the series; 0 if there are none
  double begin_ms = 0;    // since the measurement began, on the host's clock
  TimedCalls calls;
};

// Clocks and power by NVML at one moment.
struct ClockSample {
  double ms = 0;  // since the measurement began
  std::uint32_t sm_mhz = 0;
  std::uint32_t memory_mhz = 0;
  double watts = 0;
  std::uint64_t event_reasons = 0;  // nvmlClocksEventReasons
};

// A product near the edge of a tile.
struct TilePoint {
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  double us = 0;  // median
};

struct ProbedDeviceState {
  std::string device;
  std::int64_t tokens = 0;  // of the products of the chain
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::vector<StateSeries> series;
  std::vector<ClockSample> clocks;
  std::string no_clocks;  // why there are no clocks; empty if there are
  std::vector<TilePoint> tiles;
};

struct StateOptions {
  double seconds = 30;  // of all loads and pauses together, about
  std::string nvml = "libnvidia-ml.so.1";
};

// Runs chains of products of 1,024 rows after a rest, bursts of such products with pauses of 10 to
// 400 ms, a chain after products of 64, 128 and 256 rows, and products with numbers of rows around
// multiples of 16. The matrices have the sizes of Llama-3-8B's, or smaller ones if these do not fit
// into a quarter of the free memory. Throws InputError if the device does not exist,
// kernels::cuda::DeviceError.
ProbedDeviceState MeasureDeviceState(std::int32_t ordinal, const StateOptions& options);

// Summarises the series, one line for each finding.
std::vector<std::string> Summarize(const ProbedDeviceState& state);

}  // namespace twin::exec
