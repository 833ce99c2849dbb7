#include "apps/predict/profile_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <utility>

#include "core/files/output_file.h"
#include "run/run_control.h"

namespace twin::run {
namespace {

// Fields of a table with the values that a reader assumes where they are absent.
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

ProfileOutput::ProfileOutput(std::filesystem::path out) : out_(std::move(out)) {
  RequireOutputFolder(out_);
}

void ProfileOutput::Add(std::string_view device, ProfilePart part, const std::string& text) {
  files_.push_back({out_ / device / FileName(part), CompactProfileText(text)});
}

void ProfileOutput::Commit(RunControl& control) const {
  EndIfStopped(control);
  std::list<OutputFile> written;
  for (const File& file : files_) {
    MakeOutputFolder(file.path.parent_path());
    written.emplace_back(file.path).Write(file.text);
    written.back().Flush();
  }
  for (OutputFile& file : written) file.Commit();
  for (const File& file : files_) {
    control.OnNote(fmt::format("wrote {}", file.path.string()));
  }
}

}  // namespace twin::run
