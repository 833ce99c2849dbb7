#include "lab/import/profile_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "files/output_file.h"

namespace twin::lab {
namespace {

// Fields of a table at the values that a reader takes where they are absent.
constexpr std::string_view kDefaults[] = {"  compute_dtype: bf16",
                                          "  kv_dtype: bf16",
                                          "  window: 0",
                                          "  base: -1",
                                          "  by_query_heads: false",
                                          "  untimed_calls: 0",
                                          "  timed_calls: 0",
                                          "  between_shapes: near",
                                          "  trend_share: 0",
                                          "  trend_library: vllm",
                                          "    packs_heads: true",
                                          "    tile_rows: 128",
                                          "    slots_per_multiprocessor: 1",
                                          "    splits_single_heads: true",
                                          "    packed_group_max: 0"};
constexpr std::string_view kRow = "  rows: ";

}  // namespace

std::string CompactProfileText(std::string_view text) {
  std::string compact;
  bool in_list = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.starts_with(kRow)) {
      compact.append(in_list ? ",\n" : "rows: [\n").append(line.substr(kRow.size()));
      in_list = true;
      continue;
    }
    if (in_list) compact += "]\n";
    in_list = false;
    if (std::ranges::find(kDefaults, line) == std::end(kDefaults)) {
      compact.append(line).append("\n");
    }
  }
  return compact;
}

void WriteImportedPart(const std::filesystem::path& out, std::string_view device, ProfilePart part,
                       const std::string& text, RunControl& control) {
  const std::filesystem::path target = out / device / FileName(part);
  std::filesystem::create_directories(target.parent_path());
  WriteFile(target, CompactProfileText(text));
  control.OnNote(fmt::format("wrote {}", target.string()));
}

}  // namespace twin::lab
