#include "apps/profile/profile_measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "config/model_shape_text.h"
#include "core/csv.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace twin::run {
namespace {

constexpr std::string_view kFirstLine = "# twinserve profile 1";

// Reads one text with its place in the file for messages.
class Place {
 public:
  Place(std::string file, std::size_t line) : file_(std::move(file)), line_(line) {}

  [[noreturn]] void Refuse(std::string_view field, const std::string& what) const {
    throw InputError(InputError::Kind::kData, file_ + ":" + std::to_string(line_),
                     std::string(field) + ": " + what);
  }

  template <class Number>
  void Parse(std::string_view field, std::string_view text, Number& value) const {
    if (ReadNumber(text, value) && std::isfinite(static_cast<double>(value)) && value >= 0) return;
    Refuse(field, "is \"" + Printable(text) + "\"; allowed: a number, 0 or more");
  }

  [[nodiscard]] const std::string& file() const { return file_; }
  void Next() { ++line_; }

 private:
  std::string file_;
  std::size_t line_;
};

template <class Row>
struct Column {
  std::string_view name;
  std::function<void(const Place&, std::string_view, Row&)> read;
  // Writes the value; fields with an empty text are left out.
  std::function<std::string(const Row&)> write;
  bool may_be_absent = false;
};

template <class Number>
std::string Text(Number number) {
  if constexpr (std::is_integral_v<Number>) return std::to_string(number);
  // Writes microseconds to a tenth of a nanosecond: clocks are no finer.
  char text[40];
  std::snprintf(text, sizeof text, "%.4f", static_cast<double>(number));
  return text;
}

template <class Row, class Access>
Column<Row> NumberColumn(std::string_view name, Access access) {
  return {name,
          [=](const Place& place, std::string_view text, Row& row) {
            place.Parse(name, text, access(row));
          },
          [=](const Row& row) {
            Row copy = row;
            return Text(access(copy));
          }};
}

// Outside these ranges, grids would be endless or empty.
template <class Row, class Access>
Column<Row> RangeColumn(std::string_view name, std::int64_t least, std::int64_t most,
                        Access access) {
  Column<Row> column = NumberColumn<Row>(name, access);
  column.read = [=, read = column.read](const Place& place, std::string_view text, Row& row) {
    read(place, text, row);
    if (access(row) >= least && access(row) <= most) return;
    place.Refuse(name, "is " + std::string(text) + "; allowed: " + std::to_string(least) + " to " +
                           std::to_string(most));
  };
  return column;
}

template <class Row, class Access>
Column<Row> TextColumn(std::string_view name, Access access) {
  return {name,
          [=](const Place& place, std::string_view text, Row& row) {
            if (text.empty()) place.Refuse(name, "is empty");
            access(row) = std::string(text);
          },
          [=](const Row& row) {
            Row copy = row;
            return access(copy);
          }};
}

using RowColumn = Column<ProfileRow>;

void AddTotals(std::vector<RowColumn>& columns) {
  const auto add = [&](std::string_view name, std::int64_t StepTotals::*member) {
    columns.push_back(NumberColumn<ProfileRow>(
        name, [member](ProfileRow& row) -> std::int64_t& { return row.totals.*member; }));
  };
  add("prefill_tokens", &StepTotals::prefill_tokens);
  add("prefill_items", &StepTotals::prefill_items);
  add("prefill_context_tokens", &StepTotals::prefill_context_tokens);
  add("prefill_attention_pairs", &StepTotals::prefill_attention_pairs);
  add("decode_items", &StepTotals::decode_items);
  add("decode_context_tokens", &StepTotals::decode_context_tokens);
  add("emitting_items", &StepTotals::emitting_items);
}

std::vector<std::string> PartColumnNames() {
  std::vector<std::string> names;
  names.reserve(kMeasuredPartCount);
  for (std::size_t i = 0; i < kMeasuredPartCount; ++i) {
    names.push_back(fmt::format("{}_us", kStepPartNames[i]));
  }
  return names;
}

const std::vector<RowColumn>& Columns() {
  static const std::vector<std::string> part_names = PartColumnNames();
  static const std::vector<RowColumn> columns = [] {
    using Row = ProfileRow;
    std::vector<RowColumn> all = {
        TextColumn<Row>("kind", [](Row& r) -> std::string& { return r.kind; }),
        TextColumn<Row>("name", [](Row& r) -> std::string& { return r.name; }),
        NumberColumn<Row>("round", [](Row& r) -> std::int32_t& { return r.round; }),
        NumberColumn<Row>("size", [](Row& r) -> std::int64_t& { return r.size; })};
    AddTotals(all);
    all.push_back(NumberColumn<Row>("samples", [](Row& r) -> std::int64_t& { return r.samples; }));
    all.push_back(NumberColumn<Row>("median_us", [](Row& r) -> double& { return r.median_us; }));
    all.push_back(NumberColumn<Row>("p10_us", [](Row& r) -> double& { return r.p10_us; }));
    all.push_back(NumberColumn<Row>("p90_us", [](Row& r) -> double& { return r.p90_us; }));
    for (std::size_t i = 0; i < kMeasuredPartCount; ++i) {
      all.push_back(
          NumberColumn<Row>(part_names[i], [i](Row& r) -> double& { return r.parts_us[i]; }));
    }
    all.push_back(
        NumberColumn<Row>("decode_probe_us", [](Row& r) -> double& { return r.decode_probe_us; }));
    all.push_back(NumberColumn<Row>("prefill_probe_us",
                                    [](Row& r) -> double& { return r.prefill_probe_us; }));
    return all;
  }();
  return columns;
}

// Ascending sizes, separated by blanks.
Column<ProfileHeader> DecodeBuckets() {
  static constexpr std::string_view kName = "decode_buckets";
  const auto read = [](const Place& place, std::string_view text, ProfileHeader& header) {
    std::istringstream words{std::string(text)};
    for (std::string word; words >> word;) {
      std::uint32_t bucket = 0;
      place.Parse(kName, word, bucket);
      if (bucket <= (header.decode_buckets.empty() ? 0 : header.decode_buckets.back())) {
        place.Refuse(kName, "holds " + word + "; allowed: ascending numbers, 1 or more");
      }
      header.decode_buckets.push_back(bucket);
    }
  };
  const auto write = [](const ProfileHeader& header) {
    std::string text;
    for (const std::uint32_t bucket : header.decode_buckets) {
      text += (text.empty() ? "" : " ") + std::to_string(bucket);
    }
    return text;
  };
  return {kName, read, write, true};
}

const std::vector<Column<ProfileHeader>>& HeaderFields() {
  using Header = ProfileHeader;
  using Limits = exec::ProfileLimits;
  static const std::vector<Column<Header>> fields = [] {
    std::vector<Column<Header>> all = {
        TextColumn<Header>("machine", [](Header& h) -> std::string& { return h.machine; }),
        TextColumn<Header>("instruction_set",
                           [](Header& h) -> std::string& { return h.instruction_set; }),
        NumberColumn<Header>("threads", [](Header& h) -> std::int32_t& { return h.threads; }),
        TextColumn<Header>("commit", [](Header& h) -> std::string& { return h.commit; }),
        RangeColumn<Header>("block_size", 1, 4096,
                            [](Header& h) -> std::int32_t& { return h.block_size; }),
        RangeColumn<Header>("rounds", 1, 1000, [](Header& h) -> std::int32_t& { return h.rounds; }),
        {"model_shape",
         [](const Place& place, std::string_view text, Header& h) {
           try {
             h.model = ParseModelShape(text, "model_shape");
             Validate(h.model);
           } catch (const InputError& error) {
             place.Refuse("model_shape", error.what());
           }
         },
         [](const Header& h) { return WriteModelShape(h.model); }}};
    all.push_back(DecodeBuckets());
    const auto limit = [&](std::string_view name, std::int32_t Limits::*member, std::int64_t least,
                           std::int64_t most) {
      all.push_back(RangeColumn<Header>(
          name, least, most, [member](Header& h) -> std::int32_t& { return h.limits.*member; }));
    };
    limit("tokens_max", &Limits::tokens_max, 1, 1 << 20);
    limit("context_max", &Limits::context_max, 64, 1 << 20);
    limit("batch_max", &Limits::batch_max, 1, 4096);
    limit("mixes", &Limits::mixes, 0, 1000);
    all.push_back(RangeColumn<Header>("cache_tokens", 1, 1 << 29, [](Header& h) -> std::int64_t& {
      return h.limits.cache_tokens;
    }));
    all.push_back({"grid",
                   [](const Place& place, std::string_view text, Header& h) {
                     h.limits.coarse = text == "coarse";
                     if (text != "coarse" && text != "fine") {
                       place.Refuse("grid",
                                    "is \"" + Printable(text) + "\"; allowed: coarse, fine");
                     }
                   },
                   [](const Header& h) { return h.limits.coarse ? "coarse" : "fine"; }});
    return all;
  }();
  return fields;
}

std::string ColumnLine() {
  return fmt::format("{}", fmt::join(Columns() | std::views::transform(&RowColumn::name), ","));
}

std::string HeaderText(const ProfileHeader& header) {
  std::string text(kFirstLine);
  text += "\n";
  for (const auto& field : HeaderFields()) {
    const std::string value = field.write(header);
    if (value.empty()) continue;
    text += "# " + std::string(field.name) + ": " + value + "\n";
  }
  return text + ColumnLine() + "\n";
}

[[noreturn]] void RefuseCut(const Place& place, std::string_view expected) {
  place.Refuse(expected, "the line has no end: the file is cut short");
}

std::string NextLine(std::istream& in, Place& place, std::string_view expected) {
  std::string line;
  place.Next();
  if (!std::getline(in, line)) place.Refuse(expected, "is missing; the file ends here");
  if (in.eof()) RefuseCut(place, expected);
  return line;
}

ProfileHeader ReadHeader(std::istream& in, Place& place) {
  if (NextLine(in, place, "first line") != kFirstLine) {
    place.Refuse("first line", "is not \"" + std::string(kFirstLine) + "\"");
  }
  ProfileHeader header;
  std::optional<std::string> kept;  // not the field's that it was read for
  for (const auto& field : HeaderFields()) {
    const std::string line = kept ? *std::exchange(kept, {}) : NextLine(in, place, field.name);
    const std::string start = "# " + std::string(field.name) + ": ";
    if (line.rfind(start, 0) != 0) {
      if (field.may_be_absent) {
        kept = line;
        continue;
      }
      place.Refuse(field.name, "expected here; found \"" + Printable(line) + "\"");
    }
    field.read(place, std::string_view(line).substr(start.size()), header);
  }
  if (NextLine(in, place, "columns") != ColumnLine()) {
    place.Refuse("columns", "are not those of this version; allowed: " + ColumnLine());
  }
  return header;
}

void DropUnfinishedLine(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t end = text.rfind('\n') + 1;  // 0 without any line
  if (end < text.size()) std::filesystem::resize_file(path, end);
}

ProfileRow ReadRow(std::string_view line, const Place& place) {
  ProfileRow row;
  CsvCells split;
  split.Split(line);
  const std::vector<std::string_view>& cells = split.cells();
  if (cells.size() != Columns().size()) {
    place.Refuse(Columns()[std::min(cells.size(), Columns().size()) - 1].name,
                 fmt::format("the line has {} fields than the {} columns",
                             cells.size() < Columns().size() ? "fewer" : "more", Columns().size()));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) Columns()[i].read(place, cells[i], row);
  if (row.kind != "operation" && row.kind != "step" && row.kind != "host") {
    place.Refuse("kind", "is \"" + Printable(row.kind) + "\"; allowed: operation, step, host");
  }
  return row;
}

}  // namespace

std::string ProfileRow::key() const { return kind + "," + name + "," + std::to_string(size); }

Profile ReadProfile(const std::filesystem::path& path, UnfinishedRow unfinished) {
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder) RequireRegularFileIfThere(path);
  std::ifstream in(path, std::ios::binary);
  if (!in || is_folder) {
    throw InputError(InputError::Kind::kData, path.string(), "cannot be read");
  }
  Place place(path.string(), 0);
  Profile profile;
  profile.header = ReadHeader(in, place);
  while (in.peek() != std::char_traits<char>::eof()) {
    std::string line;
    place.Next();
    std::getline(in, line);
    if (in.eof()) {
      if (unfinished == UnfinishedRow::kLeftOut) break;
      RefuseCut(place, "row");
    }
    profile.rows.push_back(ReadRow(line, place));
  }
  return profile;
}

ProfileWriter::ProfileWriter(const std::filesystem::path& path, const ProfileHeader& header,
                             bool begins)
    : path_(path) {
  if (!begins) DropUnfinishedLine(path);
  file_.open(path, std::ios::binary | (begins ? std::ios::trunc : std::ios::app));
  Write(begins ? HeaderText(header) : "");
}

void ProfileWriter::Add(const std::vector<ProfileRow>& rows) {
  std::string text;
  CsvLine line;
  for (const ProfileRow& row : rows) {
    for (const RowColumn& column : Columns()) line.Word(column.write(row));
    line.AppendTo(text);
  }
  Write(text);
}

void ProfileWriter::Write(const std::string& text) {
  file_ << text << std::flush;
  if (!file_) throw std::system_error(errno, std::generic_category(), path_.string());
}

void RequireSameHeader(const std::filesystem::path& path, const ProfileHeader& in_file,
                       const ProfileHeader& header) {
  ProfileHeader wanted = header;
  const bool coarse = wanted.limits.coarse;
  wanted.limits = in_file.limits;
  wanted.limits.coarse = coarse;
  for (const auto& field : HeaderFields()) {
    const std::string there = field.write(in_file);
    const std::string here = field.write(wanted);
    if (there == here) continue;
    throw InputError(InputError::Kind::kUsage, path.string(),
                     std::string(field.name) + ": the file was begun with " +
                         Printable(there, kMessageBytesMax) + ", this is " +
                         Printable(here, kMessageBytesMax) +
                         "; allowed: the same, or another --out");
  }
}

}  // namespace twin::run
