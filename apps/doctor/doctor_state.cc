#include "apps/doctor/doctor_state.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include <nlohmann/json.hpp>

namespace twin::apps {
namespace {

using nlohmann::ordered_json;

// To a tenth of a microsecond, so that thousands of times stay readable.
ordered_json Rounded(const std::vector<double>& ms) {
  ordered_json json = ordered_json::array();
  for (const double value : ms) json.push_back(std::round(value * 1e4) * 1e-4);
  return json;
}

}  // namespace

nlohmann::ordered_json StateJson(const exec::DeviceState& state) {
  ordered_json json{{"device", state.device},
                    {"product", {state.tokens, state.outputs, state.inputs}},
                    {"summary", exec::Summarize(state)}};
  json["series"] = ordered_json::array();
  for (const exec::StateSeries& series : state.series) {
    json["series"].push_back({{"name", series.name},
                              {"rest_ms", series.rest_ms},
                              {"rows_before", series.rows},
                              {"begin_ms", series.begin_ms},
                              {"call_begin_ms", Rounded(series.calls.begin_ms)},
                              {"call_ms", Rounded(series.calls.ms)}});
  }
  json["no_clocks"] = state.no_clocks;
  json["clocks"] = ordered_json::array();
  for (const exec::ClockSample& sample : state.clocks) {
    json["clocks"].push_back({std::round(sample.ms * 10) / 10, sample.sm_mhz, sample.memory_mhz,
                              sample.watts, sample.event_reasons});
  }
  json["tiles"] = ordered_json::array();
  for (const exec::TilePoint& tile : state.tiles) {
    json["tiles"].push_back({tile.tokens, tile.outputs, tile.inputs, tile.us});
  }
  return json;
}

void PrintState(const exec::DeviceState& state) {
  std::cout << fmt::format("state     of {}, products of {} x {} x {}\n", state.device,
                           state.tokens, state.outputs, state.inputs);
  for (const std::string& line : exec::Summarize(state)) std::cout << "  " << line << "\n";
}

}  // namespace twin::apps
