#include "core/files/line_reader.h"

#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

using std::string_view_literals::operator""sv;

struct Kind {
  std::string_view magic;
  std::string_view name;
};

// First bytes of files that hold no text, as the specifications of their formats name them.
constexpr Kind kKinds[] = {
    {"PAR1"sv, "a Parquet file"},
    {"ARROW1"sv, "an Arrow (Feather) file"},
    {"FEA1"sv, "a Feather file"},
    {"ORC"sv, "an ORC file"},
    {"Obj\1"sv, "an Avro file"},
    {"PK\3\4"sv, "a zip file (Excel workbooks are such files)"},
    {"\xD0\xCF\x11\xE0"sv, "an Excel workbook of the old kind"},
    {"\x28\xB5\x2F\xFD"sv, "a zstd file"},
    {"BZh"sv, "a bzip2 file"},
    {"\xFD\x37zXZ"sv, "an xz file"},
    {"\x04\x22\x4D\x18"sv, "an lz4 file"},
    {"\x93NUMPY"sv, "a NumPy file"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"SQLite format 3"sv, "an SQLite file"},
    {"\x80\4\x95"sv, "a Python pickle"},
    {"\x80\5\x95"sv, "a Python pickle"},
    {"RDX2\n"sv, "an R data file"},
    {"RDX3\n"sv, "an R data file"},
    {"%PDF"sv, "a PDF file"},
    {"<!DOCTYPE"sv, "a web page"},
    {"<!doctype"sv, "a web page"},
    {"<html"sv, "a web page"},
    {"<?xml"sv, "an XML file"},
    {"version https://git-lfs"sv, "a Git LFS pointer instead of its file"},
    {"\xFF\xFE\0\0"sv, "text in UTF-32"},
    {"\0\0\xFE\xFF"sv, "text in UTF-32"},
    {"\xFF\xFE"sv, "text in UTF-16"},
    {"\xFE\xFF"sv, "text in UTF-16"},
};

// True for ASCII in UTF-16 without a byte order mark: every other byte is 0.
bool AlternatesWithZero(std::string_view text, std::size_t zero) {
  constexpr std::size_t kLook = 8;
  if (text.size() < kLook) return false;
  for (std::size_t i = 0; i < kLook; ++i) {
    if ((text[i] == '\0') != (i % 2 == zero)) return false;
  }
  return true;
}

// The kind of a file that begins with these bytes and holds no text that a LineReader understands
// ("a Parquet file"); empty if the bytes may be text in UTF-8.
std::string_view ForeignKind(std::string_view beginning) {
  for (const Kind& kind : kKinds) {
    if (beginning.starts_with(kind.magic)) return kind.name;
  }
  if (AlternatesWithZero(beginning, 0) || AlternatesWithZero(beginning, 1)) {
    return "text in UTF-16";
  }
  return {};
}

std::unique_ptr<ByteSource> OpenOrRefuse(const std::string& path) {
  try {
    return Decompress(OpenFileBytes(path));
  } catch (const ByteSourceError& error) {
    throw InputError(InputError::Kind::kData, path, error.what());
  }
}

}  // namespace

LineReader::LineReader(const std::string& path) : LineReader(path, OpenOrRefuse(path)) {}

LineReader::LineReader(std::string name, std::unique_ptr<ByteSource> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {}

bool LineReader::Next(std::string_view& line) {
  if (unread_) {
    unread_ = false;
    line = line_;
    return true;
  }
  std::size_t scanned = 0;  // bytes after begin_ known to hold no line end
  while (true) {
    const std::size_t end = buffer_.find('\n', begin_ + scanned);
    if (end != std::string::npos) {
      line_ = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = end + 1;
    } else {
      scanned = buffer_.size() - begin_;
      if (scanned > kLineBytesMax) {
        ++line_number_;
        RefuseField("line", std::string_view(buffer_).substr(begin_, 40), "at most 16 MiB a line");
      }
      if (FillBuffer()) continue;
      if (scanned == 0) return false;
      ended_without_newline_ = true;
      line_ = std::string_view(buffer_).substr(begin_);
      begin_ = buffer_.size();
    }
    ++line_number_;
    scanned = 0;
    if (line_number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.remove_prefix(3);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    if (!line_.empty()) break;
  }
  line = line_;
  return true;
}

bool LineReader::FillBuffer() {
  constexpr std::size_t kChunkBytes = 64 * 1024;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t old_size = buffer_.size();
  buffer_.resize(old_size + kChunkBytes);
  std::size_t size = 0;
  try {
    size = bytes_->Read(std::span(buffer_).subspan(old_size));
  } catch (const ByteSourceError& error) {
    throw InputError(InputError::Kind::kData, name_ + ":" + std::to_string(line_number_ + 1),
                     error.what());
  }
  buffer_.resize(old_size + size);
  if (bytes_read_ == 0) RefuseForeignKind();
  bytes_read_ += static_cast<std::int64_t>(size);
  return size > 0;
}

void LineReader::RefuseForeignKind() const {
  const std::string_view kind = ForeignKind(buffer_);
  if (kind.empty()) return;
  throw InputError(InputError::Kind::kData, name_ + ":1",
                   "encoding: found " + std::string(kind) +
                       "; allowed: text in UTF-8 (CSV or JSON), plain or gzip");
}

void LineReader::RefuseField(std::string_view field, std::string_view found,
                             std::string_view allowed) const {
  Refuse(Printable(field) + ": found '" + Printable(found) + "'; allowed: " + std::string(allowed));
}

void LineReader::Refuse(const std::string& what) const {
  throw InputError(InputError::Kind::kData, name_ + ":" + std::to_string(line_number_), what);
}

}  // namespace twin
