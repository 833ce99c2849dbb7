// results.csv of a study: one row per run, appended as runs finish, in order in the end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/study/derived_columns.h"
#include "apps/study/study.h"
#include "apps/study/study_runner.h"

namespace twin::run {

// Columns: point, the study's columns, replication, seed, the keys of the summaries in the order of
// the metric catalogue (then by name), derived columns, error. Numbers have the shortest form that
// reads back equal; undefined ones, and keys that a run does not have, are empty. Derived columns
// of a file that is there are computed again.
//
// Every row is written at once, so a process that is killed loses none; data reaches the disk once
// a second. A row with a key that no row before had rewrites the file with another column; the new
// file is durable before it replaces the old one. A finished file depends on the study alone.
class ResultsFile {
 public:
  // Opens `path`, or creates it; an empty file is a new one. Rows of a file that is there count as
  // done if they are complete, belong to the study and have no error; all other rows are made
  // again. `extended`: the file is of a study with fewer values or replications, whose points may
  // have other numbers; its rows are found by their values. Borrows the study. Throws InputError
  // (usage) if the file is not the study's, or has rows that an extended study lacks;
  // std::system_error.
  ResultsFile(std::filesystem::path path, const Study& study, bool extended = false);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  // By row (Study::RowAt).
  [[nodiscard]] bool Has(std::size_t row) const { return offsets_[row] >= 0; }
  // Whether points of the file had other numbers.
  [[nodiscard]] bool renumbered() const { return renumbered_; }
  // Appended rows that have an error.
  [[nodiscard]] std::size_t failed() const { return failed_; }

  // Throws std::system_error.
  void Append(const StudyRow& row);

  // Puts the rows in order and makes them durable. Throws std::system_error.
  void Finish();

 private:
  void WriteHeader();
  void ReadHeader(const std::string& line);
  void ReadRows();
  void NoteRow(const std::vector<std::string_view>& cells, std::int64_t offset);
  void NumberPoints();
  [[nodiscard]] std::optional<std::size_t> PointOf(const std::vector<std::string_view>& cells);
  void SetColumns(const std::vector<std::string>& columns);
  void AddColumns(const StudyRow& row);
  void Rewrite(const std::vector<std::string>& columns);
  // A row from its cells up to the last summary key.
  [[nodiscard]] std::string Row(std::vector<std::string> cells, const std::string& error);
  void Open();
  void Write(const std::string& text);
  [[nodiscard]] std::string LineAt(std::int64_t offset) const;
  [[nodiscard]] std::string HeaderLine() const;

  const std::filesystem::path path_;
  const Study& study_;
  std::vector<std::string> lead_;     // point, axes, replication, seed
  std::vector<std::string> columns_;  // keys of summaries, in order
  DerivedColumns derived_;
  std::size_t derived_there_ = 0;  // columns of the file that are derived ones
  bool derived_anew_ = false;      // they may differ from the study's
  std::map<std::vector<std::string>, std::size_t> points_by_values_;  // of an extended study
  bool renumbered_ = false;
  bool numbers_anew_ = false;          // of points, in the file
  std::size_t strange_ = 0;            // rows that an extended study lacks
  std::vector<std::int64_t> offsets_;  // of each row in the file; negative: not there
  std::int64_t end_ = 0;               // of the file
  std::int64_t latest_ = -1;           // the row that was appended last
  bool in_order_ = true;               // the file holds the rows in order, and nothing else
  std::size_t failed_ = 0;
  int descriptor_ = -1;
  std::chrono::steady_clock::time_point synced_;
};

}  // namespace twin::run
