// Renders templates for compare_with_jinja_test.py: one JSON object per line on standard input, one
// answer per line on standard output.
//   {"template": "..."}   loads it: {} or {"refused": message}
//   {"variables": {...}}  renders the last one: {"text": ...} or {"error": message}
//   {"variables": {...}, "repeat": N}  renders it N times: {"seconds": for all of them}
#include <chrono>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/template.h"
#include "core/input_error.h"

namespace {

using nlohmann::ordered_json;

// The clock of the comparison: Friday, 26 July 2024, 9:05:03.
std::tm FixedTime() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 3;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

ordered_json Answer(const ordered_json& request, std::optional<twin::text::Template>& current) {
  if (request.contains("template")) {
    try {
      current.emplace(request.at("template").get<std::string>(), "template");
      return ordered_json::object();
    } catch (const twin::InputError& error) {
      current.reset();
      return {{"refused", error.what()}};
    }
  }
  const ordered_json& variables = request.at("variables");
  try {
    if (!request.contains("repeat")) return {{"text", current->Render(variables, FixedTime)}};
    const auto start = std::chrono::steady_clock::now();
    for (int i = request.at("repeat").get<int>(); i > 0; --i) {
      static_cast<void>(current->Render(variables, FixedTime));
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return {{"seconds", taken.count()}};
  } catch (const twin::InputError& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::optional<twin::text::Template> current;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << Answer(ordered_json::parse(line), current).dump() << std::endl;
  }
}
