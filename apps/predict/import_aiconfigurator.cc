#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/predict/attention_import.h"
#include "apps/predict/collective_import.h"
#include "apps/predict/gemm_import.h"
#include "apps/predict/gemm_rows.h"
#include "apps/predict/import_databases.h"
#include "apps/predict/launch_rows.h"
#include "apps/predict/moe_import.h"
#include "apps/predict/operation_import.h"
#include "apps/predict/profile_output.h"
#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

constexpr std::string_view kGemm = "gemm_";
constexpr std::string_view kMoe = "moe_vllm_";
constexpr std::string_view kContextAttention = "context_attention_";
constexpr std::string_view kGenerationAttention = "generation_attention_";
constexpr std::string_view kCollectives = "comm_";

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

// A table of the database with the data sheet of its system.
struct Table {
  std::filesystem::path file;
  HardwareSpec hardware;
  std::string source;  // for the head of a profile
};

std::vector<Table> TablesOf(const std::filesystem::path& folder, std::string_view prefix,
                            RunControl& control) {
  std::vector<Table> tables;
  for (const std::filesystem::path& file : FilesOf(folder)) {
    const std::string system = SystemOf(file.filename().string(), prefix);
    if (system.empty()) continue;
    const std::string_view preset = PresetOfDevice(system);
    if (preset.empty()) {
      control.OnWarning(
          fmt::format("{}: skipped, no data sheet of system \"{}\"", file.string(), system));
      continue;
    }
    const HardwareSpec hardware = HardwarePreset(preset);
    // The second one's profile would take the place of the first one's.
    const auto same = std::ranges::find_if(
        tables, [&](const Table& table) { return table.hardware.name == hardware.name; });
    if (same != tables.end()) {
      throw InputError(InputError::Kind::kUsage, file.string(),
                       fmt::format("and {} are both of {}; allowed: one table of a kind and device",
                                   same->file.filename().string(), hardware.name));
    }
    tables.push_back({file, hardware,
                      fmt::format("from NVIDIA aiconfigurator (Apache-2.0), {}; written by "
                                  "\"twinserve import aiconfigurator\".",
                                  file.filename().string())});
  }
  return tables;
}

// aiconfigurator's benchmark warms up with 3 replays of a graph and times 6. TensorRT-LLM has a
// collector of its own, whose times per product do not rise with the length of a call.
constexpr sim::BackToBackCalls kCalls{.untimed = 3, .timed = 6};

void ImportGemmTables(const std::vector<Table>& tables, ProfileOutput& out, RunControl& control) {
  for (const Table& table : tables) {
    GemmRows rows = ReadGemmRows(table.file.string(), control);
    rows.calls = {{sim::KernelLibrary::kVllm, kCalls}, {sim::KernelLibrary::kSglang, kCalls}};
    if (rows.rows.empty()) {
      throw InputError(InputError::Kind::kData, table.file.string(),
                       "has no rows; allowed: one or more");
    }
    std::string head = fmt::format("Matrix products of {}, {}", table.hardware.name, table.source);
    for (const std::string& line : ExcludeLaunchRows(rows)) {
      control.OnWarning(fmt::format("{}: {}", table.file.string(), line));
      head += fmt::format("\n# {}", line);
    }
    const GemmImport import = ImportGemm(table.hardware, rows, control);
    out.Add(table.hardware.name, ProfilePart::kGemm, WriteGemmImport(import, rows, head));
  }
}

void ImportMoeTables(const std::vector<Table>& tables, ProfileOutput& out, RunControl& control) {
  for (const Table& table : tables) {
    out.Add(table.hardware.name, ProfilePart::kMoe,
            ImportMoe(table.hardware, table.file.string(), control).text);
  }
}

// Context and generation attention of one system go into one file.
void ImportAttentionTables(const std::vector<Table>& context, const std::vector<Table>& generation,
                           ProfileOutput& out, RunControl& control) {
  std::map<std::string, std::pair<sim::DeviceProfile, std::string>> profiles;
  const auto import = [&](const Table& table, sim::AttentionKind kind) {
    auto& [profile, head] = profiles[table.hardware.name];
    const AttentionImport made =
        ImportAttention(table.hardware, kind, table.file.string(), profile.attention, control);
    for (const std::string& warning : made.warnings) {
      control.OnWarning(fmt::format("{}: {}", table.file.string(), warning));
    }
    head += fmt::format(
        "# Attention of {}, {}\n# {}. Kind, library, formats of products/cache, head size, "
        "window: rows, errors in % (median/p90) of\n# the closed form, and of heads "
        "that the table is made without.\n",
        table.hardware.name, table.source, fmt::join(made.versions, ", "));
    for (const std::string& line : made.report) head += fmt::format("# {}\n", line);
  };
  for (const Table& table : context) import(table, sim::AttentionKind::kContext);
  for (const Table& table : generation) import(table, sim::AttentionKind::kGeneration);
  for (const auto& [name, made] : profiles) {
    out.Add(name, ProfilePart::kAttention,
            made.second + WriteProfilePart(made.first, ProfilePart::kAttention));
  }
}

void ImportCollectiveTables(const std::vector<Table>& tables, ProfileOutput& out,
                            RunControl& control) {
  for (const Table& table : tables) {
    const CollectiveImport import = ImportCollectives(table.file.string(), control);
    sim::DeviceProfile profile;
    profile.collectives = import.profile;
    out.Add(table.hardware.name, ProfilePart::kCollectives,
            fmt::format("# Collectives of {}, {}\n# {}.\n{}", table.hardware.name, table.source,
                        fmt::join(import.versions, ", "),
                        WriteProfilePart(profile, ProfilePart::kCollectives)));
  }
}

// All kinds of operations of one system go into one file.
bool ImportOperationTables(const std::filesystem::path& folder, ProfileOutput& out,
                           RunControl& control) {
  std::map<std::string, std::pair<sim::DeviceProfile, std::string>> profiles;
  for (const sim::OperationKind& kind : sim::OperationKinds()) {
    for (const Table& table : TablesOf(folder, fmt::format("{}_", kind.name), control)) {
      control.OnNote(fmt::format("reading {}", table.file.string()));
      auto& [profile, head] = profiles[table.hardware.name];
      for (const std::string& line : ImportOperations(table.hardware, kind, table.file.string(),
                                                      profile.operations, control)) {
        head += fmt::format("# {}\n", line);
      }
    }
  }
  for (const auto& [name, made] : profiles) {
    out.Add(name, ProfilePart::kOperations,
            fmt::format("# Operations of {} from NVIDIA aiconfigurator (Apache-2.0); written by "
                        "\"twinserve import\n# aiconfigurator\". Kind, library, variant: rows, "
                        "errors in % (median/p90) of the closed form, and of shapes left out.\n"
                        "{}{}",
                        name, made.second, WriteProfilePart(made.first, ProfilePart::kOperations)));
  }
  return !profiles.empty();
}

}  // namespace

void ImportAiconfigurator(const std::filesystem::path& folder, const std::filesystem::path& out,
                          RunControl& control) {
  const std::vector<Table> gemm = TablesOf(folder, kGemm, control);
  const std::vector<Table> moe = TablesOf(folder, kMoe, control);
  const std::vector<Table> context = TablesOf(folder, kContextAttention, control);
  const std::vector<Table> generation = TablesOf(folder, kGenerationAttention, control);
  const std::vector<Table> collectives = TablesOf(folder, kCollectives, control);
  ProfileOutput output(out);
  const bool operations = ImportOperationTables(folder, output, control);
  if (!operations && gemm.empty() && moe.empty() && context.empty() && generation.empty() &&
      collectives.empty()) {
    throw InputError(
        InputError::Kind::kUsage, folder.string(),
        "holds no table of a known system; allowed: a folder with gemm_SYSTEM.csv, "
        "moe_vllm_SYSTEM.csv, context_attention_SYSTEM.csv, generation_attention_SYSTEM.csv, "
        "comm_SYSTEM.csv, a kind of operation_kinds.h, plain or .gz");
  }
  ImportCollectiveTables(collectives, output, control);
  ImportAttentionTables(context, generation, output, control);
  ImportMoeTables(moe, output, control);
  ImportGemmTables(gemm, output, control);
  output.Commit(control);
}

}  // namespace twin::run
