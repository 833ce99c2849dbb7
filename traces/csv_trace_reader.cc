#include "traces/csv_trace_reader.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/csv.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "traces/session_numbers.h"
#include "traces/trace_limits.h"
#include "traces/words.h"

namespace twin {
namespace {

// Stands for a column that the layout does not know.
constexpr CsvColumn kIgnored{"", ColumnMeaning::kUnused};

// True for the first column of a data frame that was written with its row numbers.
bool NumbersRows(std::string_view name) { return name.empty() || name == "Unnamed: 0"; }

const CsvColumn* FindColumn(const CsvLayout& layout, std::string_view name) {
  const auto found = std::find_if(layout.columns.begin(), layout.columns.end(),
                                  [&](const CsvColumn& column) { return column.name == name; });
  return found == layout.columns.end() ? nullptr : &*found;
}

std::size_t KnownColumns(const CsvLayout& layout, const std::vector<std::string_view>& names) {
  return static_cast<std::size_t>(std::count_if(
      names.begin(), names.end(), [&](auto name) { return FindColumn(layout, name) != nullptr; }));
}

bool Fits(const CsvLayout& layout, const std::vector<std::string_view>& names) {
  const std::size_t ignored = NumbersRows(names.front()) ? 1 : 0;
  if (!layout.ignores_others && KnownColumns(layout, names) + ignored != names.size()) return false;
  return std::all_of(layout.columns.begin(), layout.columns.end(), [&](const CsvColumn& column) {
    return !column.required || std::find(names.begin(), names.end(), column.name) != names.end();
  });
}

// The column names of a header with any separator: RFC 4180 leaves it open.
std::vector<std::string_view> NamesOf(std::string_view header, CsvCells& cells) {
  cells.Split(header, CsvSeparator(header));
  return cells.cells();
}

std::string ColumnList(const CsvLayout& layout) {
  std::string list;
  for (const CsvColumn& column : layout.columns) {
    if (!list.empty()) list += ", ";
    list += column.required ? std::string(column.name) : "[" + std::string(column.name) + "]";
  }
  if (layout.ignores_others) list += ", and others";
  return list;
}

[[noreturn]] void RefuseHeader(const LineReader& lines, std::span<const CsvLayout> layouts,
                               const std::vector<std::string_view>& names,
                               std::string_view repeated) {
  const CsvLayout& nearest =
      *std::max_element(layouts.begin(), layouts.end(), [&](const auto& a, const auto& b) {
        return KnownColumns(a, names) < KnownColumns(b, names);
      });
  const std::string allowed = "the columns " + ColumnList(nearest) + " ([] = optional)";
  if (!repeated.empty()) lines.RefuseField("header", repeated, "each column once");
  for (const std::string_view name : names) {
    if (nearest.ignores_others || FindColumn(nearest, name) != nullptr) continue;
    if (name.data() == names.front().data() && NumbersRows(name)) continue;
    lines.RefuseField("header", name, allowed);
  }
  for (const CsvColumn& column : nearest.columns) {
    if (column.required && std::find(names.begin(), names.end(), column.name) == names.end()) {
      lines.Refuse("header: column '" + std::string(column.name) +
                   "' is missing; allowed: " + allowed);
    }
  }
  lines.Refuse("header: unusable; allowed: " + allowed);
}

// One entry per column of the file, in the file's order.
struct CsvHeader {
  const CsvLayout* layout = nullptr;
  std::vector<const CsvColumn*> columns;
  UnusedNames unused;

  [[nodiscard]] bool Has(ColumnMeaning meaning) const {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const CsvColumn* column) { return column->meaning == meaning; });
  }
  // The column's name; its number if the layout does not know the column.
  [[nodiscard]] std::string NameOf(std::size_t column) const {
    const std::string_view name = columns[column]->name;
    return name.empty() ? "column " + std::to_string(column + 1) : std::string(name);
  }
};

// Reads the header, the first record of `file`, whose errors name a line of `lines`. Throws
// InputError if no layout matches.
CsvHeader ReadCsvHeader(CsvReader& file, const LineReader& lines,
                        std::span<const CsvLayout> layouts) {
  if (!file.Next()) lines.Refuse("header: the file is empty; allowed: a header line");
  CsvHeader header;
  header.layout = MatchCsvHeader(layouts, file.text());
  if (header.layout == nullptr) {
    RefuseHeader(lines, layouts, file.cells(), RepeatedName(file.cells()));
  }
  const CsvColumn* session = nullptr;
  for (const std::string_view name : file.cells()) {
    const CsvColumn* known = FindColumn(*header.layout, name);
    if (known == nullptr) known = &kIgnored;
    if (known->meaning == ColumnMeaning::kSessionName && (session == nullptr || known < session)) {
      session = known;
    }
    header.columns.push_back(known);
  }
  for (std::size_t i = 0; i < header.columns.size(); ++i) {
    const CsvColumn*& column = header.columns[i];
    if (column->meaning == ColumnMeaning::kSessionName && column != session) column = &kIgnored;
    if (column->meaning == ColumnMeaning::kUnused) header.unused.Add(file.cells()[i]);
  }
  return header;
}

bool EqualText(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const std::optional<double> x = NumberFrom<double>(a);
  return x && x == NumberFrom<double>(b);
}

class CsvTraceReader final : public TraceReader {
 public:
  CsvTraceReader(std::unique_ptr<LineReader> lines, std::span<const CsvLayout> layouts,
                 const TraceReadOptions& options)
      : lines_(std::move(lines)),
        file_(*lines_),
        header_(ReadCsvHeader(file_, *lines_, layouts)),
        has_status_(header_.Has(ColumnMeaning::kStatus)),
        options_(options) {
    for (const auto arrival :
         {ColumnMeaning::kArrivalSeconds, ColumnMeaning::kArrivalMs, ColumnMeaning::kArrivalUs,
          ColumnMeaning::kArrivalNs, ColumnMeaning::kTimestamp}) {
      has_arrivals_ = has_arrivals_ || header_.Has(arrival);
    }
    for (const ColumnFilter& filter : options.filters) filter_columns_.push_back(Find(filter));
  }

  bool Next(TracedRequest& request) override {
    while (ReadRow()) {
      if (!Passes()) {
        ++counts_.filtered;
        continue;
      }
      const Outcome outcome = ReadOutcome();
      if (outcome == Outcome::kNothing) {
        Defer();
        continue;
      }
      if (outcome == Outcome::kFailure || !Parse(request)) {
        ++counts_.skipped_failures;
        continue;
      }
      ++counts_.requests;
      return true;
    }
    if (NextDeferred(request)) return true;
    if (counts_.requests == 0) RefuseNothing();
    return false;
  }

  [[nodiscard]] bool has_arrivals() const override { return has_arrivals_; }
  [[nodiscard]] const TraceReadCounts& counts() const override { return counts_; }
  [[nodiscard]] const LineReader& lines() const override { return *lines_; }
  [[nodiscard]] const std::string& note() const override { return header_.unused.note(); }
  [[nodiscard]] bool sorts() const { return header_.layout->sorts; }

 private:
  std::size_t Find(const ColumnFilter& filter) const {
    std::string allowed;
    for (std::size_t i = 0; i < header_.columns.size(); ++i) {
      const CsvColumn& column = *header_.columns[i];
      if (column.meaning != ColumnMeaning::kGroup && column.meaning != ColumnMeaning::kLabel) {
        continue;
      }
      if (column.name == filter.column) return i;
      allowed += (allowed.empty() ? "the columns " : ", ") + std::string(column.name);
    }
    lines_->RefuseField("filter", filter.column, allowed.empty() ? "no filter" : allowed);
  }

  bool ReadRow() {
    if (!file_.Next()) return false;
    const std::vector<std::string_view>& cells = file_.cells();
    if (cells.size() < header_.columns.size()) {
      lines_->Refuse(header_.NameOf(cells.size()) + ": found '" + Printable(file_.text()) +
                     "' with " + std::to_string(cells.size()) +
                     " columns, this one is missing; allowed: " +
                     std::to_string(header_.columns.size()) + " columns");
    }
    if (cells.size() > header_.columns.size()) {
      lines_->RefuseField(
          "column " + std::to_string(header_.columns.size() + 1), cells[header_.columns.size()],
          "nothing behind the header's " + std::to_string(header_.columns.size()) + " columns");
    }
    return true;
  }

  bool Passes() const {
    for (std::size_t i = 0; i < filter_columns_.size(); ++i) {
      if (!EqualText(file_.cells()[filter_columns_[i]], options_.filters[i].value)) return false;
    }
    return true;
  }

  // Outcome that the row's states and errors state; kNothing if the file has columns of states and
  // all are empty in this row. Such a row is a failed request if other rows have a state.
  Outcome ReadOutcome() {
    Outcome outcome = has_status_ ? Outcome::kNothing : Outcome::kSuccess;
    for (std::size_t i = 0; i < header_.columns.size(); ++i) {
      const Field field{*lines_, header_.columns[i]->name, file_.cells()[i]};
      const Outcome said = OutcomeOfField(field, header_.columns[i]->meaning);
      if (said == Outcome::kUnknown) RefuseStatus(field);
      if (said == Outcome::kNothing) continue;
      if (header_.columns[i]->meaning == ColumnMeaning::kStatus) has_states_ = true;
      if (said == Outcome::kFailure && options_.failed_rows == FailedRows::kRefuse) {
        RefuseStatus(field);
      }
      if (outcome != Outcome::kFailure) outcome = said;
    }
    return outcome;
  }

  static Outcome OutcomeOfField(const Field& field, ColumnMeaning meaning) {
    if (meaning == ColumnMeaning::kStatus) return FindOutcome(field.text);
    const bool error = meaning == ColumnMeaning::kError && NamesError(field.text);
    return error ? Outcome::kFailure : Outcome::kNothing;
  }

  [[noreturn]] static void RefuseStatus(const Field& field) {
    field.lines.RefuseField(field.name, field.text, kStatusesAllowed);
  }

  // Keeps a row without a state until the end of the file tells whether other rows have one. It may
  // lack its lengths only if it turns out to be a failed request.
  void Defer() {
    if (unstated_ == 0) first_unstated_line_ = lines_->line_number();
    ++unstated_;
    try {
      TracedRequest request;
      if (Parse(request)) {
        deferred_.push_back(std::move(request));
      } else {
        --unstated_;
        ++counts_.skipped_failures;
      }
    } catch (const InputError&) {
      if (!deferred_error_) deferred_error_ = std::current_exception();
    }
  }

  // Takes the next deferred row, if no row of the file has a state. REQUIRES: all rows are read.
  bool NextDeferred(TracedRequest& request) {
    if (has_states_) {
      if (unstated_ > 0 && options_.failed_rows == FailedRows::kRefuse) {
        throw InputError(InputError::Kind::kData,
                         lines_->name() + ":" + std::to_string(first_unstated_line_),
                         "status: is empty where other rows have one; allowed: " +
                             std::string(kStatusesAllowed));
      }
      counts_.skipped_failures += std::exchange(unstated_, 0);
      return false;
    }
    if (deferred_error_) std::rethrow_exception(deferred_error_);
    if (next_deferred_ == deferred_.size()) return false;
    request = std::move(deferred_[next_deferred_++]);
    ++counts_.requests;
    return true;
  }

  // Returns false for a failed request that is to be skipped.
  bool Parse(TracedRequest& request) {
    request.arrival = kTimeZero;
    request.max_output_tokens = 0;
    request.predicted_output_tokens = -1;
    request.priority = 0;
    request.tenant = 0;
    request.session = 0;
    request.prefix_chunks.clear();
    request.prefix_chunk_tokens = 0;
    bool kept = true;
    for (std::size_t i = 0; i < header_.columns.size(); ++i) {
      const CsvColumn& column = *header_.columns[i];
      kept &= Assign({*lines_, column.name, file_.cells()[i]}, column.meaning, request);
    }
    if (!kept) return false;
    if (request.max_output_tokens == 0) request.max_output_tokens = request.output_tokens;
    CheckWhole(request);
    return true;
  }

  bool Assign(const Field& field, ColumnMeaning meaning, TracedRequest& request) {
    switch (meaning) {
      case ColumnMeaning::kArrivalSeconds:
        request.arrival = Arrive(field, ParseSeconds(field));
        return true;
      case ColumnMeaning::kArrivalMs:
        request.arrival = Arrive(field, ParseWhole(field, 1'000'000));
        return true;
      case ColumnMeaning::kArrivalUs:
        request.arrival = Arrive(field, ParseWhole(field, 1'000));
        return true;
      case ColumnMeaning::kArrivalNs:
        request.arrival = Arrive(field, ParseWhole(field, 1));
        return true;
      case ColumnMeaning::kTimestamp:
        request.arrival = Arrive(field, SinceFirst(field, ParseTimestamp(field)));
        return true;
      case ColumnMeaning::kPromptTokens:
        request.prompt_tokens = ParseTokens(field);
        return true;
      case ColumnMeaning::kOutputTokens:
        return ParseOutput(field, request.output_tokens);
      case ColumnMeaning::kTenantName:
        request.tenant = TenantNamed(MeansNothing(field.text) ? "" : field.text);
        return true;
      case ColumnMeaning::kSessionName:
        request.session = MeansNothing(field.text) || field.text == "0"
                              ? 0
                              : sessions_.Of(std::string(field.text), /*starts=*/false);
        return true;
      default:
        if (!MeansNothing(field.text)) AssignOptional(field, meaning, request);
        return true;
    }
  }

  std::uint32_t TenantNamed(std::string_view name) {
    return tenants_.try_emplace(std::string(name), tenants_.size()).first->second;
  }

  static Duration ParseWhole(const Field& field, std::int64_t unit_ns) {
    return Duration{ParseInteger(field, 0, kArrivalMax.count() / unit_ns) * unit_ns};
  }

  static void AssignOptional(const Field& field, ColumnMeaning meaning, TracedRequest& request) {
    switch (meaning) {
      case ColumnMeaning::kMaxOutputTokens:
        request.max_output_tokens = ParseTokens(field);
        return;
      case ColumnMeaning::kPredictedTokens:
        request.predicted_output_tokens =
            static_cast<std::int32_t>(ParseInteger(field, -1, kTokensMax));
        return;
      case ColumnMeaning::kPriority:
        request.priority = static_cast<std::int32_t>(ParseInteger(field, INT32_MIN, INT32_MAX));
        return;
      case ColumnMeaning::kTenant:
        request.tenant = static_cast<std::uint32_t>(ParseInteger(field, 0, UINT32_MAX));
        return;
      case ColumnMeaning::kSession:
        request.session = ParseUnsigned(field);
        return;
      case ColumnMeaning::kPrefixChunkTokens:
        request.prefix_chunk_tokens = static_cast<std::int32_t>(ParseInteger(field, 0, kTokensMax));
        return;
      case ColumnMeaning::kPrefixChunks:
        AssignChunks(field, request);
        return;
      default:
        return;
    }
  }

  static void AssignChunks(const Field& field, TracedRequest& request) {
    std::string_view rest = field.text;
    while (true) {
      const std::size_t end = rest.find(';');
      request.prefix_chunks.push_back(
          ParseUnsigned({field.lines, field.name, rest.substr(0, end)}));
      if (end == std::string_view::npos) return;
      rest.remove_prefix(end + 1);
    }
  }

  bool ParseOutput(const Field& field, std::int32_t& output_tokens) {
    const bool may_fail =
        header_.layout->zero_output_is_failure && options_.failed_rows != FailedRows::kRefuse;
    if (!may_fail || !IsZeroOrNothing(field)) {
      output_tokens = ParseTokens(field);
      return true;
    }
    output_tokens = 1;
    if (options_.failed_rows == FailedRows::kOneToken) return true;
    ++counts_.without_output;
    return false;
  }

  static bool IsZeroOrNothing(const Field& field) {
    return MeansNothing(field.text) || field.text == "0" || field.text == "0.0";
  }

  Duration SinceFirst(const Field& field, Duration since_epoch) {
    if (!has_origin_) origin_ = since_epoch;
    has_origin_ = true;
    if (since_epoch < origin_) RefuseBackwards(field);
    return since_epoch - origin_;
  }

  TimePoint Arrive(const Field& field, Duration arrival) {
    if (!sorts() && !order_.Accepts(TimePoint{arrival})) RefuseBackwards(field);
    return TimePoint{arrival};
  }

  [[noreturn]] void RefuseBackwards(const Field& field) {
    if (header_.Has(ColumnMeaning::kGroup) && GroupName() != last_group_) {
      RefuseUnfilteredGroups(field);
    }
    order_.Refuse(field);
  }

  std::string GroupName() const {
    std::string name;
    for (std::size_t i = 0; i < header_.columns.size(); ++i) {
      if (header_.columns[i]->meaning != ColumnMeaning::kGroup) continue;
      name += (name.empty() ? "" : ",") + std::string(header_.columns[i]->name) + "=" +
              Printable(file_.cells()[i]);
    }
    return name;
  }

  // Reads the rest of the file, so that the message can name all groups.
  [[noreturn]] void RefuseUnfilteredGroups(const Field& field) {
    constexpr std::size_t kGroupsShown = 12;
    const std::string where = lines_->name() + ":" + std::to_string(lines_->line_number());
    const std::string found = Printable(field.text);
    std::set<std::string> groups{last_group_};
    do {
      if (Passes()) groups.insert(GroupName());
    } while (groups.size() <= kGroupsShown && ReadRow());
    std::string list;
    for (const std::string& group : groups) list += (list.empty() ? "" : "; ") + group;
    if (groups.size() > kGroupsShown) list += "; ...";
    throw InputError(InputError::Kind::kData, where,
                     std::string(field.name) + ": found '" + found +
                         "', earlier than the row before: arrivals restart in every group; "
                         "allowed: a filter that leaves one of: " +
                         list);
  }

  void CheckWhole(const TracedRequest& request) {
    if (request.max_output_tokens < request.output_tokens) {
      lines_->RefuseField("max_output_tokens", std::to_string(request.max_output_tokens),
                          "at least output_tokens, " + std::to_string(request.output_tokens));
    }
    CheckPrefixChunks(*lines_, "prefix_chunks", request,
                      request.prompt_tokens + request.output_tokens);
    if (header_.Has(ColumnMeaning::kGroup)) last_group_ = GroupName();
  }

  [[noreturn]] void RefuseNothing() const {
    if (counts_.skipped_failures > 0) {
      lines_->Refuse(SkippedText(counts_) + "; allowed: at least one that succeeded");
    }
    if (counts_.filtered > 0) {
      lines_->Refuse("filter: none of " + std::to_string(counts_.filtered) +
                     " rows passes; allowed: values that occur");
    }
    lines_->Refuse("no request in the file; allowed: at least one row behind the header");
  }

  std::unique_ptr<LineReader> lines_;
  CsvReader file_;
  CsvHeader header_;
  bool has_status_;
  TraceReadOptions options_;
  std::vector<std::size_t> filter_columns_;
  ArrivalOrder order_;
  std::map<std::string, std::uint32_t> tenants_;  // numbers of kTenantName
  SessionNumbers sessions_;                       // of kSessionName
  std::string last_group_;
  Duration origin_{};
  TraceReadCounts counts_;
  bool has_states_ = false;  // a row so far has a state
  std::int64_t unstated_ = 0;
  std::int64_t first_unstated_line_ = 0;
  std::vector<TracedRequest> deferred_;  // rows without a state, while no row has one
  std::size_t next_deferred_ = 0;
  std::exception_ptr deferred_error_;
  bool has_origin_ = false;
  bool has_arrivals_ = false;
};

}  // namespace

const CsvLayout* MatchCsvHeader(std::span<const CsvLayout> layouts, std::string_view header) {
  CsvCells cells;
  const std::vector<std::string_view> names = NamesOf(header, cells);
  const auto found = std::find_if(layouts.begin(), layouts.end(),
                                  [&](const CsvLayout& layout) { return Fits(layout, names); });
  return found == layouts.end() || !RepeatedName(names).empty() ? nullptr : &*found;
}

std::size_t KnownCsvColumns(std::span<const CsvLayout> layouts, std::string_view header) {
  CsvCells cells;
  const std::vector<std::string_view> names = NamesOf(header, cells);
  std::size_t best = 0;
  for (const CsvLayout& layout : layouts) best = std::max(best, KnownColumns(layout, names));
  return best;
}

std::unique_ptr<TraceReader> OpenCsvTrace(std::unique_ptr<LineReader> lines,
                                          std::span<const CsvLayout> layouts,
                                          const TraceReadOptions& options) {
  auto reader = std::make_unique<CsvTraceReader>(std::move(lines), layouts, options);
  if (reader->sorts()) return SortByArrival(std::move(reader));
  return reader;
}

}  // namespace twin
