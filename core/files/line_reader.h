// Reads a text line by line, and throws errors that name its file and line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/files/byte_source.h"

namespace twin {

// Lines end with \n or \r\n; the last line may have no end. Empty lines and a byte order mark are
// skipped. Memory: the longest line, at most kLineBytesMax; longer lines are an error.
class LineReader {
 public:
  static constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

  // Opens a file, which may be gzip. Throws InputError; Next() does for a file of another kind
  // (Parquet, UTF-16, ...) and names it.
  explicit LineReader(const std::string& path);
  // Reads from `bytes`; errors call them `name`.
  LineReader(std::string name, std::unique_ptr<ByteSource> bytes);

  // Assigns the next line, without its end, to `line`; false at the end of the text. The view is
  // valid until the next call. Throws InputError.
  bool Next(std::string_view& line);

  // The next call of Next() returns the last line again. REQUIRES: the last Next() was true.
  void Unread() { unread_ = true; }

  // Throws InputError "file:line: field: found 'text'; allowed: ...". The text is shortened and
  // made printable.
  [[noreturn]] void RefuseField(std::string_view field, std::string_view found,
                                std::string_view allowed) const;
  // Throws InputError "file:line: what".
  [[noreturn]] void Refuse(const std::string& what) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t line_number() const {
    return line_number_;
  }  // number of the last line
  // True if the last line had no line end: the file may be cut within its last number.
  [[nodiscard]] bool ended_without_newline() const { return ended_without_newline_; }

 private:
  bool FillBuffer();
  void RefuseForeignKind() const;

  std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  std::string buffer_;
  std::size_t begin_ = 0;  // position of the unread part of buffer_
  std::string_view line_;
  std::int64_t line_number_ = 0;
  std::int64_t bytes_read_ = 0;
  bool unread_ = false;
  bool ended_without_newline_ = false;
};

}  // namespace twin
