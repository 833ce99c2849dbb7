#include "apps/predict/operation_rows.h"

#include <utility>

#include "apps/predict/operation_predictor.h"

namespace twin::run {
namespace {

constexpr std::int64_t kColumnMax = std::int64_t{1} << 40;

double SizeOf(const CsvTable& row, std::string_view column) {
  if (column == "hidden") return row.Text("model").starts_with("GLM") ? 6144 : 7168;
  return row.Has(column) ? static_cast<double>(row.Integer(column, 0, kColumnMax)) : 0;
}

sim::KernelLibrary LibraryOfKind(const sim::OperationKind& kind, const CsvTable& row) {
  if (row.Has("backend")) return LibraryOf(row);
  if (kind.name.ends_with("_sglang")) return sim::KernelLibrary::kSglang;
  if (kind.name.ends_with("_trtllm")) return sim::KernelLibrary::kTrtllm;
  return sim::KernelLibrary::kVllm;
}

}  // namespace

std::vector<std::string_view> RequiredColumnsOf(const sim::OperationKind& kind) {
  std::vector<std::string_view> columns;
  for (const std::string_view column : kind.shape) {
    columns.push_back(column == "hidden" ? "model" : column);
  }
  for (const std::string_view column : kind.call) {
    if (column != "past") columns.push_back(column);
  }
  return columns;
}

OperationCall ReadOperationCall(const sim::OperationKind& kind, const CsvTable& row) {
  OperationCall call{.library = LibraryOfKind(kind, row), .variant = {}, .shape = {}, .call = {}};
  for (const std::string_view column : kind.shape) {
    const double size = SizeOf(row, column);
    if (size < 1) row.Refuse(column, "an integer above 0");
    call.shape.push_back(size);
  }
  for (const std::string_view column : kind.call) call.call.push_back(SizeOf(row, column));
  for (const std::string_view column : kind.variant) {
    std::string word(row.Has(column) ? row.Text(column) : "");
    if (word.empty()) word = column.ends_with("_dtype") ? "bfloat16" : "-";
    if (!call.variant.empty()) call.variant += ' ';
    for (char& c : word) c = c == ' ' ? '_' : c;
    call.variant += word;
  }
  return call;
}

}  // namespace twin::run
