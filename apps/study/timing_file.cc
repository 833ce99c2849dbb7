#include "apps/study/timing_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <system_error>

#include "core/csv.h"

namespace twin::run {
namespace {

// Bytes up to the end of the last whole line.
std::uintmax_t WholeLines(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::uintmax_t bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) bytes += line.size() + 1;
  return bytes;
}

}  // namespace

TimingFile::TimingFile(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::uintmax_t bytes = WholeLines(path);
  if (std::filesystem::exists(path)) std::filesystem::resize_file(path, bytes, ignored);
  out_.open(path, std::ios::app | std::ios::binary);
  if (bytes == 0) out_ << "point,replication,wall_seconds\n";
}

void TimingFile::Append(const StudyRow& row) {
  CsvLine line;
  line.Count(row.id.point).Count(row.id.replication);
  line.Word(fmt::format("{:.6f}", row.wall_seconds)).WriteTo(out_);
  out_.flush();
}

}  // namespace twin::run
