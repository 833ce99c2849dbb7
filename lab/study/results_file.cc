#include "lab/study/results_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <system_error>
#include <utility>
#include <variant>

#include "core/check.h"
#include "core/input_error.h"
#include "files/output_file.h"
#include "lab/study/csv_row.h"
#include "lab/study/metric_columns.h"
#include "record/number_text.h"

namespace twin::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kError = "error";
constexpr std::chrono::seconds kSyncInterval{1};

std::vector<std::string> LeadOf(const Study& study) {
  std::vector<std::string> lead = {"point"};
  lead.insert(lead.end(), study.columns().begin(), study.columns().end());
  lead.insert(lead.end(), {"replication", "seed"});
  return lead;
}

std::string CellText(const SummaryValue* value) {
  if (value == nullptr) return "";
  if (const auto* count = std::get_if<std::int64_t>(value)) return std::to_string(*count);
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  const double number = std::get<double>(*value);
  return std::isfinite(number) ? ShortestText(number) : "";
}

[[noreturn]] void FailWith(const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

}  // namespace

ResultsFile::ResultsFile(fs::path path, const Study& study)
    : path_(std::move(path)),
      study_(study),
      lead_(LeadOf(study)),
      offsets_(study.rows(), -1),
      synced_(std::chrono::steady_clock::now()) {
  if (fs::exists(path_)) {
    ReadRows();
  } else {
    WriteFile(path_, HeaderLine());
    end_ = static_cast<std::int64_t>(HeaderLine().size());
  }
  Open();
}

ResultsFile::~ResultsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ResultsFile::Open() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) FailWith(path_);
  // What a killed process left of a row.
  if (ftruncate(descriptor_, end_) != 0 || lseek(descriptor_, 0, SEEK_END) < 0) FailWith(path_);
}

std::string ResultsFile::HeaderLine() const {
  std::vector<std::string> names = lead_;
  names.insert(names.end(), columns_.begin(), columns_.end());
  names.emplace_back(kError);
  return CsvRow(names);
}

void ResultsFile::ReadHeader(const std::string& line) {
  std::vector<std::string> names;
  SplitCsvRow(line, names);
  if (names.size() <= lead_.size() || names.back() != kError ||
      !std::equal(lead_.begin(), lead_.end(), names.begin())) {
    throw InputError(InputError::Kind::kUsage, path_.string(),
                     fmt::format("has other columns; allowed: those of this study ({}, ...)",
                                 fmt::join(lead_, ", ")));
  }
  columns_.assign(names.begin() + static_cast<std::ptrdiff_t>(lead_.size()), names.end() - 1);
}

void ResultsFile::ReadRows() {
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  std::vector<std::string> cells;
  bool header = true;
  while (std::getline(in, line) && !in.eof()) {  // a line without its end is not complete
    if (header) {
      ReadHeader(line);
      header = false;
    } else {
      SplitCsvRow(line, cells);
      NoteRow(cells, end_);
    }
    end_ += static_cast<std::int64_t>(line.size()) + 1;
  }
  if (header) ReadHeader(line);  // refuses an empty file
}

// Notes where a row is, if it is one that counts.
void ResultsFile::NoteRow(const std::vector<std::string>& cells, std::int64_t offset) {
  in_order_ = false;
  if (cells.size() != lead_.size() + columns_.size() + 1) return;
  const auto point = NumberOfCell<std::size_t>(cells[0]);
  const auto replication = NumberOfCell<std::uint32_t>(cells[lead_.size() - 2]);
  const auto seed = NumberOfCell<std::uint64_t>(cells[lead_.size() - 1]);
  if (!point || !replication || !seed) return;
  const StudyRowId id{.point = *point, .replication = *replication};
  const bool known = id.point < study_.points() && id.replication < study_.config().replications;
  if (!known || seed != study_.SeedOf(id.replication)) return;
  offsets_[study_.IndexOf(id)] = cells.back().empty() ? offset : -1;
}

void ResultsFile::AddColumns(const StudyRow& row) {
  std::vector<std::string> columns = columns_;
  for (const SummaryEntry& entry : row.summary.entries()) {
    if (std::ranges::find(columns_, entry.name) == columns_.end()) columns.push_back(entry.name);
  }
  SortMetricColumns(columns);
  Rewrite(columns);
}

void ResultsFile::Append(const StudyRow& row) {
  const auto found = std::ranges::count_if(
      columns_, [&row](const std::string& column) { return row.summary.Find(column) != nullptr; });
  if (static_cast<std::size_t>(found) < row.summary.entries().size()) AddColumns(row);
  std::vector<std::string> cells = {std::to_string(row.id.point)};
  for (std::string& value : study_.ValuesOf(row.id.point)) cells.push_back(std::move(value));
  cells.push_back(std::to_string(row.id.replication));
  cells.push_back(std::to_string(row.seed));
  for (const std::string& column : columns_) cells.push_back(CellText(row.summary.Find(column)));
  cells.push_back(row.error);
  const auto index = static_cast<std::int64_t>(study_.IndexOf(row.id));
  const std::int64_t offset = end_;
  Write(CsvRow(cells));
  offsets_[static_cast<std::size_t>(index)] = offset;
  in_order_ = in_order_ && index > latest_;
  latest_ = index;
  if (!row.error.empty()) ++failed_;
}

void ResultsFile::Write(const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(descriptor_, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailWith(path_);
    written += static_cast<std::size_t>(n);
  }
  end_ += static_cast<std::int64_t>(text.size());
  const auto now = std::chrono::steady_clock::now();
  if (now - synced_ < kSyncInterval) return;
  if (fdatasync(descriptor_) != 0) FailWith(path_);
  synced_ = now;
}

std::string ResultsFile::LineAt(std::int64_t offset) const {
  std::string line;
  char chunk[4096];
  for (;;) {
    const ssize_t n = pread(descriptor_, chunk, sizeof chunk, offset);
    if (n < 0) FailWith(path_);
    CHECK(n > 0);
    const std::string_view read(chunk, static_cast<std::size_t>(n));
    const std::size_t end = read.find('\n');
    line.append(read.substr(0, end));
    if (end != std::string_view::npos) return line;
    offset += n;
  }
}

// The rows in order under these columns, of which the present ones are a part.
void ResultsFile::Rewrite(const std::vector<std::string>& columns) {
  std::vector<std::size_t> places;  // of the present columns
  for (const std::string& column : columns_) {
    const auto found = std::ranges::find(columns, column);
    CHECK(found != columns.end());
    places.push_back(lead_.size() + static_cast<std::size_t>(found - columns.begin()));
  }
  const bool same = columns == columns_;
  columns_ = columns;
  std::vector<std::int64_t> offsets(offsets_.size(), -1);
  std::vector<std::string> cells;
  OutputFile out(path_);
  const std::string header = HeaderLine();
  out.Write(header);
  auto end = static_cast<std::int64_t>(header.size());
  latest_ = -1;
  for (std::size_t row = 0; row < offsets_.size(); ++row) {
    if (offsets_[row] < 0) continue;
    std::string line = LineAt(offsets_[row]);
    if (same) {
      line += '\n';
    } else {
      SplitCsvRow(line, cells);
      std::vector<std::string> moved(lead_.size() + columns.size() + 1);
      for (std::size_t i = 0; i < lead_.size(); ++i) moved[i] = cells[i];
      for (std::size_t i = 0; i < places.size(); ++i) moved[places[i]] = cells[lead_.size() + i];
      moved.back() = cells.back();
      line = CsvRow(moved);
    }
    offsets[row] = end;
    end += static_cast<std::int64_t>(line.size());
    out.Write(line);
    latest_ = static_cast<std::int64_t>(row);
  }
  out.Commit();
  offsets_ = std::move(offsets);
  end_ = end;
  in_order_ = true;
  Open();
  if (fsync(descriptor_) != 0) FailWith(path_);
}

void ResultsFile::Finish() {
  if (!in_order_) Rewrite(columns_);
  if (fsync(descriptor_) != 0) FailWith(path_);
}

}  // namespace twin::lab
