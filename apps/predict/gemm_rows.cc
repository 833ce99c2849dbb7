#include "apps/predict/gemm_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/predict/operation_predictor.h"
#include "core/files/csv.h"
#include "run/run_control.h"

namespace twin::run {
namespace {

constexpr double kSecondsPerMicrosecond = 1e-6;
constexpr double kUsMax = 1e9;

}  // namespace

GemmRows ReadGemmRows(const std::string& path, const RunControl& control) {
  CsvTable table(path, {"backend", "dtype", "m", "n", "k", "latency_us"});
  GemmRows result;
  while (table.Next()) {
    EndIfStopped(control);
    result.rows.push_back(
        {.library = LibraryOf(table),
         .format = GemmFormatOf(table),
         .m = table.Integer("m", 1, kGemmSizeMax),
         .n = table.Integer("n", 1, kGemmSizeMax),
         .k = table.Integer("k", 1, kGemmSizeMax),
         .seconds = kSecondsPerMicrosecond * table.Positive("latency_us", kUsMax)});
    if (!table.Has("version")) continue;
    const std::string version = fmt::format("{} {}", table.Text("backend"), table.Text("version"));
    if (std::ranges::find(result.versions, version) == result.versions.end()) {
      result.versions.push_back(version);
    }
  }
  return result;
}

}  // namespace twin::run
