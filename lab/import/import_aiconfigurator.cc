#include "lab/import/import_aiconfigurator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/input_error.h"
#include "files/output_file.h"
#include "lab/import/gemm_import.h"
#include "lab/import/gemm_rows.h"
#include "lab/import/moe_import.h"
#include "proto/hardware_file.h"
#include "proto/profile_file.h"

namespace twin::lab {
namespace {

constexpr std::string_view kGemm = "gemm_";
constexpr std::string_view kMoe = "moe_vllm_";

// The SYSTEM of PREFIX_SYSTEM.csv[.gz]; empty for other names.
std::string SystemOf(std::string name, std::string_view prefix) {
  for (const std::string_view ending : {".gz", ".csv"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return name.starts_with(prefix) ? name.substr(prefix.size()) : "";
}

std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    files.push_back(entry.path());
  }
  if (error) {
    throw InputError(InputError::Kind::kUsage, folder.string(),
                     fmt::format("cannot be read: {}", error.message()));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

void ImportAiconfigurator(const std::filesystem::path& folder, const std::filesystem::path& out,
                          RunControl& control) {
  bool any = false;
  for (const std::filesystem::path& file : FilesOf(folder)) {
    std::string system = SystemOf(file.filename().string(), kGemm);
    const bool is_moe = system.empty();
    if (is_moe) system = SystemOf(file.filename().string(), kMoe);
    if (system.empty()) continue;
    any = true;
    const std::string_view preset = PresetOfAiconfigurator(system);
    if (preset.empty()) {
      control.OnWarning(
          fmt::format("{}: skipped, no data sheet of system \"{}\"", file.string(), system));
      continue;
    }
    const HardwareSpec hardware = HardwarePreset(preset);
    if (is_moe) {
      const std::filesystem::path target = out / preset / FileName(ProfilePart::kMoe);
      std::filesystem::create_directories(target.parent_path());
      WriteFile(target, ImportMoe(hardware, file.string()).text);
      control.OnNote(fmt::format("wrote {}", target.string()));
      continue;
    }
    const GemmRows rows = ReadGemmRows(file.string());
    const GemmImport import = ImportGemm(hardware, rows, control);
    const std::filesystem::path target = out / preset / FileName(ProfilePart::kGemm);
    std::filesystem::create_directories(target.parent_path());
    WriteFile(target, WriteGemmImport(import, rows,
                                      fmt::format("Matrix products of {}, from NVIDIA "
                                                  "aiconfigurator (Apache-2.0), {}; written by "
                                                  "\"twinserve import aiconfigurator\".",
                                                  preset, file.filename().string())));
    control.OnNote(fmt::format("wrote {}", target.string()));
  }
  if (any) return;
  throw InputError(InputError::Kind::kUsage, folder.string(),
                   "holds no table; allowed: a folder with gemm_SYSTEM.csv or moe_vllm_SYSTEM.csv, "
                   "plain or .gz");
}

}  // namespace twin::lab
