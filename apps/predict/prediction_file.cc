#include "apps/predict/prediction_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace twin::run {
namespace {

constexpr std::array<std::string_view, 3> kPredictedColumns = {"predicted_us", "predicted_low_us",
                                                               "predicted_high_us"};

}  // namespace

PredictionFile::PredictionFile(const std::filesystem::path& path, const CsvTable& table)
    : table_(table), file_(path) {
  for (const std::string& name : table.columns()) {
    kept_.push_back(std::ranges::find(kPredictedColumns, name) == kPredictedColumns.end());
  }
  AddKept(table.columns());
  for (const std::string_view name : kPredictedColumns) line_.Word(name);
  EndLine();
}

void PredictionFile::Add(double median, double low, double high) {
  AddKept(table_.cells());
  for (const double us : {median, low, high}) line_.Word(fmt::format("{:.6g}", us));
  EndLine();
}

template <class Text>
void PredictionFile::AddKept(const std::vector<Text>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (kept_[i]) line_.Word(cells[i]);
  }
}

void PredictionFile::EndLine() {
  text_.clear();
  line_.AppendTo(text_);
  file_.Write(text_);
}

}  // namespace twin::run
