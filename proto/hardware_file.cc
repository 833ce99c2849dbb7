#include "proto/hardware_file.h"

#include <string>
#include <vector>

#include "core/input_error.h"
#include "core/nearest_names.h"
#include "proto/hardware.pb.h"
#include "proto/hardware_texts.h"
#include "proto/overlay.h"
#include "proto/system_binding.h"
#include "proto/text_message.h"

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

}  // namespace

std::span<const std::string_view> HardwarePresetNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const HardwareText& entry : HardwareTexts()) all.push_back(entry.name);
    return all;
  }();
  return names;
}

HardwareSpec HardwarePreset(std::string_view name) {
  std::string all;
  for (const HardwareText& entry : HardwareTexts()) {
    if (entry.name == name) return Parse(entry.text, std::string(name));
    all += (all.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw InputError(InputError::Kind::kUsage, "hardware",
                   "no device \"" + std::string(name) + "\"; nearest " +
                       NearestNames(name, HardwarePresetNames()) + "; allowed: " + all +
                       ", or the path of a file (with a '/')");
}

HardwareSpec HardwareFromNameOrFile(const std::string& name_or_path) {
  return name_or_path.find('/') == std::string::npos ? HardwarePreset(name_or_path)
                                                     : ReadHardwareFile(name_or_path);
}

HardwareSpec ReadHardwareFile(const std::filesystem::path& path) {
  return Parse(ReadTextFile(path), path.string());
}

}  // namespace twin
