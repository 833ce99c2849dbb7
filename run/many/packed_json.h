// JSON as the bytes that a forked run passes to its parent (forked_runs.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace twin::run {

// In MessagePack.
inline std::string Packed(const nlohmann::ordered_json& json) {
  const std::vector<std::uint8_t> bytes = nlohmann::ordered_json::to_msgpack(json);
  return {bytes.begin(), bytes.end()};
}

}  // namespace twin::run
