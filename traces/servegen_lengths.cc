#include "traces/servegen_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "core/check.h"
#include "core/files/csv.h"
#include "core/input_error.h"
#include "traces/field.h"

namespace twin {
namespace {

constexpr std::size_t kFirstQuantile = 3;  // behind client, window_start_s and field

// The probabilities in the names of the columns: q2.5 is 0.025.
std::vector<double> ReadProbabilities(const CsvTable& table) {
  std::vector<double> probabilities;
  for (std::size_t i = kFirstQuantile; i < table.columns().size(); ++i) {
    const std::string_view name = table.columns()[i];
    if (!name.starts_with('q')) table.lines().RefuseField("header", name, "q0 to q100");
    const double p = ParseReal({table.lines(), "header", name.substr(1)}, 0, 100) / 100;
    if (!probabilities.empty() && p <= probabilities.back()) {
      table.lines().RefuseField("header", name, "rising quantiles");
    }
    probabilities.push_back(p);
  }
  return probabilities;
}

std::vector<double> ReadValues(const CsvTable& table) {
  std::vector<double> values;
  for (std::size_t i = kFirstQuantile; i < table.columns().size(); ++i) {
    const Field field{table.lines(), table.columns()[i], table.cells()[i]};
    values.push_back(ParseReal(field, 0, kTokensMax));
    if (values.size() > 1 && values.back() < values[values.size() - 2]) {
      table.lines().RefuseField(field.name, field.text, "no less than the quantile before");
    }
  }
  return values;
}

}  // namespace

std::optional<ServeGenLengths::Field> ServeGenLengths::FieldNamed(std::string_view name) {
  constexpr std::string_view kNames[] = {"input_tokens", "output_tokens", "text_tokens",
                                         "image_tokens", "image_count",   "audio_tokens",
                                         "audio_count",  "video_tokens",  "video_count"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Field>(found - std::begin(kNames));
}

ServeGenLengths::ServeGenLengths(const std::string& path) {
  CsvTable table(path);
  constexpr std::string_view kFirst[] = {"client", "window_start_s", "field"};
  const std::vector<std::string>& names = table.columns();
  if (names.size() <= kFirstQuantile ||
      !std::equal(std::begin(kFirst), std::end(kFirst), names.begin())) {
    table.lines().RefuseField("header", fmt::format("{}", fmt::join(names, ",")),
                              "client,window_start_s,field,q0,...,q100");
  }
  const std::vector<double> probabilities = ReadProbabilities(table);
  while (table.Next()) {
    const auto client = static_cast<std::uint32_t>(table.Integer("client", 0, UINT32_MAX));
    const Duration start = ParseSeconds(table.At("window_start_s"));
    const std::optional<Field> field = FieldNamed(table.Text("field"));
    if (!field) table.Refuse("field", "input_tokens, output_tokens, ...");
    std::vector<Window>& windows = clients_[client];
    if (!windows.empty() && start < windows.back().start) {
      table.Refuse("window_start_s", "no earlier than the client's window before");
    }
    if (windows.empty() || start > windows.back().start) {
      windows.push_back({start, std::vector<std::optional<QuantileDistribution>>(kFieldCount)});
    }
    windows.back().fields[*field].emplace(probabilities, ReadValues(table));
  }
  CheckComplete(path);
}

void ServeGenLengths::CheckComplete(const std::string& path) const {
  if (clients_.empty()) {
    throw InputError(InputError::Kind::kData, path, "no client in the file");
  }
  for (const auto& [client, windows] : clients_) {
    for (const Window& window : windows) {
      if (window.fields[kOutput] && (window.fields[kInput] || window.fields[kText])) continue;
      throw InputError(InputError::Kind::kData, path,
                       fmt::format("client {}, window_start_s {}: allowed: output_tokens, and "
                                   "input_tokens or text_tokens",
                                   client, Seconds(window.start)));
    }
  }
}

std::vector<std::uint32_t> ServeGenLengths::clients() const {
  std::vector<std::uint32_t> clients;
  for (const auto& [client, windows] : clients_) clients.push_back(client);
  return clients;
}

ServeGenLengths::Lengths ServeGenLengths::Draw(std::uint32_t client, Duration at,
                                               ServeGenConfig::Dependence dependence,
                                               Random& random) const {
  const std::vector<Window>& windows = clients_.at(client);
  const auto after =
      std::upper_bound(windows.begin(), windows.end(), at,
                       [](Duration t, const Window& window) { return t < window.start; });
  const Window& window = after == windows.begin() ? *after : *std::prev(after);
  const double u = random.UnitReal();
  const auto draw = [&](Field field) {
    if (!window.fields[field]) return 0.0;
    const bool shared = dependence == ServeGenConfig::Dependence::kComonotone;
    return std::floor(window.fields[field]->At(shared ? u : random.UnitReal()) + 0.5);
  };
  double prompt = draw(kInput);
  if (!window.fields[kInput]) {
    prompt = draw(kText);
    prompt += draw(kImageCount) * draw(kImageTokens);
    prompt += draw(kAudioCount) * draw(kAudioTokens);
    prompt += draw(kVideoCount) * draw(kVideoTokens);
  }
  const auto clip = [](double tokens) {
    return static_cast<std::int32_t>(std::clamp(tokens, 1.0, double{kTokensMax}));
  };
  return {clip(prompt), clip(draw(kOutput))};
}

}  // namespace twin
