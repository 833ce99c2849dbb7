#include "apps/study/results_file.h"

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

#include "apps/study/metric_columns.h"
#include "core/check.h"
#include "core/csv.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin::run {
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

void WriteTo(int descriptor, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t n = write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailWith(path);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Makes a rename within the folder of `path` durable. EINVAL: the file system has no such call.
void SyncFolderOf(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) FailWith(folder);
  const bool failed = fsync(descriptor) != 0 && errno != EINVAL;
  const int error = errno;
  close(descriptor);
  errno = error;
  if (failed) FailWith(folder);
}

// A file that replaces another one once it is durable.
class Replacement {
 public:
  explicit Replacement(const fs::path& path) : path_(path), file_(path) {}

  void Write(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) Flush();
  }
  void Commit() {
    Flush();
    if (fsync(file_.descriptor()) != 0) FailWith(path_);
    file_.Commit();
    SyncFolderOf(path_);
  }

 private:
  static constexpr std::size_t kBufferBytes = 1 << 16;

  void Flush() {
    WriteTo(file_.descriptor(), buffer_, path_);
    buffer_.clear();
  }

  const fs::path& path_;
  OutputFile file_;
  std::string buffer_;
};

}  // namespace

ResultsFile::ResultsFile(fs::path path, const Study& study, bool extended)
    : path_(std::move(path)),
      study_(study),
      lead_(LeadOf(study)),
      derived_(study.config()),
      offsets_(study.rows(), -1),
      synced_(std::chrono::steady_clock::now()) {
  if (extended) NumberPoints();
  // A crash of the machine may leave an empty file.
  if (fs::exists(path_) && !fs::is_empty(path_)) ReadRows();
  if (strange_ > 0) {
    throw InputError(InputError::Kind::kUsage, path_.string(),
                     fmt::format("has {} runs of values or replications that this study lacks; "
                                 "allowed: a study with all of them, or another --out",
                                 strange_));
  }
  if (end_ == 0) WriteHeader();
  Open();
  if (derived_anew_ || numbers_anew_) Rewrite(columns_);
}

ResultsFile::~ResultsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ResultsFile::Open() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) FailWith(path_);
  // Cuts off the part of a row that a killed process left.
  if (ftruncate(descriptor_, end_) != 0 || lseek(descriptor_, 0, SEEK_END) < 0) FailWith(path_);
}

void ResultsFile::WriteHeader() {
  derived_there_ = derived_.names().size();
  const std::string header = HeaderLine();
  Replacement out(path_);
  out.Write(header);
  out.Commit();
  end_ = static_cast<std::int64_t>(header.size());
}

std::string ResultsFile::HeaderLine() const {
  std::vector<std::string> names = lead_;
  names.insert(names.end(), columns_.begin(), columns_.end());
  names.insert(names.end(), derived_.names().begin(), derived_.names().end());
  names.emplace_back(kError);
  return CsvRow(names);
}

void ResultsFile::ReadHeader(const std::string& line) {
  CsvCells split;
  split.Split(line);
  const std::vector<std::string_view>& names = split.cells();
  if (names.size() <= lead_.size() || names.back() != kError ||
      !std::equal(lead_.begin(), lead_.end(), names.begin())) {
    throw InputError(InputError::Kind::kUsage, path_.string(),
                     fmt::format("has other columns; allowed: those of this study ({}, ...)",
                                 fmt::join(lead_, ", ")));
  }
  const auto first = names.begin() + static_cast<std::ptrdiff_t>(lead_.size());
  const auto last = std::find_if_not(first, names.end() - 1, IsRowMetric);
  columns_.assign(first, last);
  derived_there_ = static_cast<std::size_t>(names.end() - 1 - last);
  derived_anew_ = derived_there_ > 0 || !derived_.names().empty();
}

void ResultsFile::ReadRows() {
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  CsvCells split;
  bool header = true;
  while (std::getline(in, line) && !in.eof()) {  // a line without its end is not complete
    if (header) {
      ReadHeader(line);
      header = false;
    } else {
      split.Split(line);
      NoteRow(split.cells(), end_);
    }
    end_ += static_cast<std::int64_t>(line.size()) + 1;
  }
  if (header) ReadHeader(line);  // without its end
}

void ResultsFile::NumberPoints() {
  for (std::size_t point = 0; point < study_.points(); ++point) {
    points_by_values_.emplace(study_.ValuesOf(point), point);
  }
}

// The number in the row, or in an extended study that of its values; nullopt: it has none.
std::optional<std::size_t> ResultsFile::PointOf(const std::vector<std::string_view>& cells) {
  const auto point = NumberFrom<std::size_t>(cells[0]);
  if (!point || points_by_values_.empty()) return point;
  const std::vector<std::string> values(
      cells.begin() + 1, cells.begin() + static_cast<std::ptrdiff_t>(lead_.size()) - 2);
  if (*point < study_.points() && study_.ValuesOf(*point) == values) return point;
  const auto found = points_by_values_.find(values);
  if (found == points_by_values_.end()) return std::nullopt;
  renumbered_ = numbers_anew_ = true;
  return found->second;
}

// Stores the place of a row, if the row counts.
void ResultsFile::NoteRow(const std::vector<std::string_view>& cells, std::int64_t offset) {
  in_order_ = false;
  if (cells.size() != lead_.size() + columns_.size() + derived_there_ + 1) return;
  const auto point = PointOf(cells);
  const auto replication = NumberFrom<std::uint32_t>(cells[lead_.size() - 2]);
  const auto seed = NumberFrom<std::uint64_t>(cells[lead_.size() - 1]);
  const bool known = point && replication && seed && *point < study_.points() &&
                     *replication < study_.config().replications &&
                     *seed == study_.SeedOf(*replication);
  if (!known) {
    if (!points_by_values_.empty()) ++strange_;
    return;
  }
  const StudyRowId id{.point = *point, .replication = *replication};
  offsets_[study_.IndexOf(id)] = cells.back().empty() ? offset : -1;
}

void ResultsFile::SetColumns(const std::vector<std::string>& columns) {
  columns_ = columns;
  std::vector<std::string> all = lead_;
  all.insert(all.end(), columns.begin(), columns.end());
  derived_.SetColumns(all);
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
  const auto index = static_cast<std::int64_t>(study_.IndexOf(row.id));
  const std::int64_t offset = end_;
  Write(Row(std::move(cells), row.error));
  offsets_[static_cast<std::size_t>(index)] = offset;
  in_order_ = in_order_ && index > latest_;
  latest_ = index;
  if (!row.error.empty()) ++failed_;
}

void ResultsFile::Write(const std::string& text) {
  WriteTo(descriptor_, text, path_);
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

std::string ResultsFile::Row(std::vector<std::string> cells, const std::string& error) {
  const std::size_t size = cells.size() + derived_.names().size();
  if (error.empty()) derived_.AppendTo(cells);
  cells.resize(size);
  cells.push_back(error);
  return CsvRow(cells);
}

// Writes the rows in order under these columns, which include the present ones.
void ResultsFile::Rewrite(const std::vector<std::string>& columns) {
  std::vector<std::size_t> places;  // of the present columns
  for (const std::string& column : columns_) {
    const auto found = std::ranges::find(columns, column);
    CHECK(found != columns.end());
    places.push_back(lead_.size() + static_cast<std::size_t>(found - columns.begin()));
  }
  const bool same = columns == columns_ && !derived_anew_ && !numbers_anew_;
  SetColumns(columns);
  std::vector<std::int64_t> offsets(offsets_.size(), -1);
  CsvCells split;
  const std::vector<std::string_view>& cells = split.cells();
  Replacement out(path_);
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
      split.Split(line);
      std::vector<std::string> moved(lead_.size() + columns.size());
      for (std::size_t i = 0; i < lead_.size(); ++i) moved[i] = cells[i];
      moved[0] = std::to_string(study_.RowAt(row).point);
      for (std::size_t i = 0; i < places.size(); ++i) moved[places[i]] = cells[lead_.size() + i];
      line = Row(std::move(moved), std::string(cells.back()));
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
  derived_there_ = derived_.names().size();
  derived_anew_ = numbers_anew_ = false;
  Open();
}

void ResultsFile::Finish() {
  if (!in_order_) Rewrite(columns_);
  if (fsync(descriptor_) != 0) FailWith(path_);
}

}  // namespace twin::run
