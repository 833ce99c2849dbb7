#include "config/hardware_file.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/embedded_files.h"
#include "config/hardware.bind.h"
#include "config/hardware.pb.h"
#include "config/overlay.h"
#include "config/text_message.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/nearest_names.h"

namespace twin {

namespace {

HardwareSpec Parse(std::string_view text, const std::string& source) {
  proto::Hardware message;
  ParseText(text, {source}, message);
  CheckRules(message, source);
  HardwareSpec spec;
  FromMessage fields(message);
  Bind(fields, spec);
  try {
    Validate(spec);
  } catch (const InputError& error) {
    throw InputError(InputError::Kind::kUsage, source, error.what());
  }
  return spec;
}

// Lower-case letters and digits of the name, without the maker.
std::string Spelling(std::string_view name) {
  std::string plain;
  for (const char capital : name) {
    const char c = LowerCase(capital);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain.push_back(c);
  }
  for (const std::string_view word : {"nvidia", "geforce", "tesla"}) {
    if (plain.starts_with(word)) plain.erase(0, word.size());
  }
  return plain;
}

// Names of devices in drivers and public data sets, in the form of Spelling(). "H100" alone is
// missing, because it may be SXM or PCIe.
std::string_view PresetOfOtherName(const std::string& spelling) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"a100sxm440gb", "a100-40gb"},
      {"a10080gbpcie", "a100-80gb-pcie"},
      {"a100pcie80gb", "a100-80gb-pcie"},
      {"a100sxm480gb", "a100-80gb-sxm"},
      {"a100sxm80gb", "a100-80gb-sxm"},
      {"a800sxm480gb", "a800-80gb-sxm"},
      {"a800sxm80gb", "a800-80gb-sxm"},
      {"ascend910c", "ascend-910c-die"},
      {"h100sxm80gb", "h100-sxm"},
      {"h10080gbhbm3", "h100-sxm"},
      {"gh200480gb", "gh200-96gb"},
      {"gh200144ghbm3e", "gh200-144gb"},
      {"h200", "h200-sxm"},
      {"h200sxm141gb", "h200-sxm"},
      {"a6000", "rtx-a6000"},
      {"v100pcie16gb", "v100-16gb-pcie"},
      {"v100pcie32gb", "v100-32gb-pcie"},
      {"v100sxm216gb", "v100-16gb-sxm"},
      {"v100sxm232gb", "v100-32gb-sxm"},
      {"rtxpro6000", "rtx-pro-6000-server"},
      {"rtxpro6000blackwellserveredition", "rtx-pro-6000-server"}};
  const auto* known = std::ranges::find(kNames, spelling, [](const auto& n) { return n.first; });
  return known == std::end(kNames) ? std::string_view() : known->second;
}

std::string_view DeviceOf(const EmbeddedFile& sheet) {
  return sheet.name.substr(0, sheet.name.find('.'));
}

}  // namespace

std::string_view PresetOfDevice(std::string_view name) {
  if (const std::string_view preset = PresetOfAiconfigurator(name); !preset.empty()) return preset;
  const std::string spelling = Spelling(name);
  for (const std::string_view preset : HardwarePresetNames()) {
    if (Spelling(preset) == spelling) return preset;
  }
  return PresetOfOtherName(spelling);
}

std::span<const std::string_view> HardwarePresetNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const EmbeddedFile& sheet : HardwareTexts()) all.push_back(DeviceOf(sheet));
    return all;
  }();
  return names;
}

HardwareSpec HardwarePreset(std::string_view name) {
  std::string all;
  for (const EmbeddedFile& sheet : HardwareTexts()) {
    const std::string_view device = DeviceOf(sheet);
    if (device == name) return Parse(sheet.bytes, std::string(name));
    all += (all.empty() ? "" : ", ") + std::string(device);
  }
  throw InputError(InputError::Kind::kUsage, "hardware",
                   "no device \"" + std::string(name) + "\"; nearest " +
                       NearestNames(name, HardwarePresetNames()) + "; allowed: " + all +
                       ", or the path of a file (with a '/')");
}

HardwareSpec HardwareFromNameOrFile(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos) return ReadHardwareFile(name_or_path);
  const std::string_view preset = PresetOfDevice(name_or_path);
  return HardwarePreset(preset.empty() ? name_or_path : preset);
}

std::string_view PresetOfAiconfigurator(std::string_view system) {
  static constexpr std::pair<std::string_view, std::string_view> kSystems[] = {
      {"a100_pcie", "a100-80gb-pcie"},
      {"a100_sxm", "a100-80gb-sxm"},
      {"a30", "a30"},
      {"b200_sxm", "b200"},
      {"b300_sxm", "b300"},
      {"b60", "arc-pro-b60"},
      {"gb200", "gb200"},
      {"gb300", "gb300"},
      {"h100_pcie", "h100-pcie"},
      {"h100_sxm", "h100-sxm"},
      {"h200_sxm", "h200-sxm"},
      {"l4", "l4"},
      {"l40s", "l40s"},
      {"rtx_pro_6000_server", "rtx-pro-6000-server"}};
  for (const auto& [name, preset] : kSystems) {
    if (name == system) return preset;
  }
  return {};
}

HardwareSpec ReadHardwareFile(const std::filesystem::path& path) {
  return Parse(ReadTextFile(path), path.string());
}

}  // namespace twin
