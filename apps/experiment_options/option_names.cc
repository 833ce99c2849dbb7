#include "apps/experiment_options/option_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "config/hardware_file.h"
#include "config/models/model_names.h"
#include "config/models/named_model.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/nearest_names.h"
#include "core/printable.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameMax = 80;

[[noreturn]] void RefuseName(const std::string& where, const std::string& what, const char* list) {
  throw InputError(InputError::Kind::kUsage, where,
                   fmt::format("{}; allowed: see twinserve doctor --list {}", what, list));
}

// Families of boards, and the board that people mean.
struct UsualBoard {
  std::string_view family;
  std::string_view device;
  std::string_view board;
};
constexpr UsualBoard kUsualBoards[] = {{"h100", "h100-sxm", "SXM board"},
                                       {"h200", "h200-sxm", "SXM board"},
                                       {"h100-80gb", "h100-sxm", "SXM board"},
                                       {"h200-141gb", "h200-sxm", "SXM board"},
                                       {"a100", "a100-80gb-sxm", "SXM board with 80 GB"},
                                       {"a100-80gb", "a100-80gb-sxm", "SXM board"}};

std::size_t CommonStart(std::string_view a, std::string_view b) {
  const auto [end, other] = std::ranges::mismatch(a, b, {}, LowerCase, LowerCase);
  return static_cast<std::size_t>(end - a.begin());
}

// Up to three devices whose names begin like `text`, SXM boards before those for PCIe; by the
// distance of the whole names if none begins with its first three characters.
std::string NearestDevices(const std::string& text) {
  const std::span<const std::string_view> devices = HardwarePresetNames();
  std::size_t longest = 0;
  for (const std::string_view device : devices) {
    longest = std::max(longest, CommonStart(text, device));
  }
  if (longest < 3) return NearestNames(text, devices);
  std::vector<std::string_view> nearest;
  for (const std::string_view device : devices) {
    if (CommonStart(text, device) == longest) nearest.push_back(device);
  }
  std::ranges::reverse(nearest);
  nearest.resize(std::min<std::size_t>(nearest.size(), 3));
  return fmt::format("{}", fmt::join(nearest, ", "));
}

// The device by its name, or by that of its family; nullopt if there is none.
std::optional<NamedPart> FindDevice(std::string_view text) {
  const auto* const usual = std::ranges::find_if(kUsualBoards, [&](const UsualBoard& board) {
    return EqualsIgnoringSeparators(board.family, text);
  });
  if (usual != std::end(kUsualBoards)) {
    return NamedPart{std::string(usual->device),
                     fmt::format("{} means the {}", text, usual->board)};
  }
  const std::string_view device = PresetOfDevice(text);
  if (device.empty()) return std::nullopt;
  return NamedPart{std::string(device), ""};
}

// A device and a number of them.
struct CountedDevice {
  std::string_view device;
  std::string_view count;
};

// Understands "4xh100" and "h100x4"; nullopt for any other text.
std::optional<CountedDevice> SplitCount(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits =
      static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  if (digits > 0 && digits < text.size() && LowerCase(text[digits]) == 'x') {
    return CountedDevice{text.substr(digits + 1), text.substr(0, digits)};
  }
  const std::size_t last = text.find_last_not_of("0123456789");
  if (last == std::string_view::npos || last + 1 == text.size()) return std::nullopt;
  if (LowerCase(text[last]) != 'x') return std::nullopt;
  return CountedDevice{text.substr(0, last), text.substr(last + 1)};
}

bool Exists(const std::string& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

std::string AbsolutePath(const std::string& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return (absolute.has_filename() ? absolute : absolute.parent_path()).string();
}

}  // namespace

NamedPart NameDevice(const std::string& where, const std::string& text) {
  if (text.find('/') != std::string::npos) return {AbsolutePath(text), ""};
  if (std::optional<NamedPart> found = FindDevice(text)) return *std::move(found);
  const std::optional<CountedDevice> counted = SplitCount(text);
  if (counted && FindDevice(counted->device)) {
    throw InputError(
        InputError::Kind::kUsage, where,
        fmt::format("\"{}\" is a number of devices; allowed: {} with --tp {} (one engine) or "
                    "--replicas {} (engines of one device)",
                    Printable(text, kNameMax), counted->device, counted->count, counted->count));
  }
  RefuseName(
      where,
      fmt::format("no device \"{}\"; nearest {}", Printable(text, kNameMax), NearestDevices(text)),
      "hardware");
}

NamedPart NameModel(const std::string& where, const std::string& text) {
  if (const auto preset = FindPresetName(text); !preset.empty()) return {std::string(preset), ""};
  if (Exists(text)) return {AbsolutePath(text), ""};
  const std::string last = text.substr(text.find_last_of('/') + 1);
  if (const std::optional<ModelSpec> known = FindModel(last)) return {known->name, ""};
  const std::string shown = Printable(text, kNameMax);
  if (const std::string_view why = WhyNotDescribed(text); !why.empty()) {
    RefuseName(
        where,
        fmt::format("\"{}\" cannot be described: {}; nearest {}", shown, why, NearestModels(text)),
        "models");
  }
  RefuseName(where,
             fmt::format("no model \"{}\", and no folder or config.json of that name; nearest {}",
                         shown, NearestModels(text)),
             "models");
}

NamedPart NameServer(const std::string& where, const std::string& text) {
  if (FindServer(text)) return {text, ""};
  if (const auto newest = NewestOfServer(text)) {
    return {std::string(*newest), "the newest that is known"};
  }
  RefuseName(where, WhyNoServer(text), "servers");
}

std::string ServerTitle(std::string_view server, std::string_view asked) {
  const std::string_view named = asked.empty() ? server : asked;
  const std::optional<ListedServer> found = FindServer(named);
  if (!found) return std::string(named);
  const ServerVersion& version = found->version;
  const std::string title =
      fmt::format("{} {}.{}.{}", found->server->title, version[0], version[1], version[2]);
  return found->exact ? title : fmt::format("{} as {}", title, found->preset->name);
}

}  // namespace twin::apps
