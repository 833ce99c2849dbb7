// Lines of a text, one at a time, and the one way to say what is wrong with one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "traces/byte_source.h"

namespace twin {

// Reads lines that end with \n or \r\n; the last may lack it. Skips empty lines and a byte order
// mark. Memory: the longest line; more than kLineBytesMax is refused.
class LineReader {
 public:
  static constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

  // The file, uncompressed if it is gzip. Throws InputError.
  explicit LineReader(const std::string& path);
  // `name` stands for the file in errors.
  LineReader(std::string name, std::unique_ptr<ByteSource> bytes);

  // The next line without its end; false at the end. The view is valid until the next call.
  // Throws InputError.
  bool Next(std::string_view& line);

  // Makes Next() give the last line once more. REQUIRES: the last Next() was true.
  void Unread() { unread_ = true; }

  // Throws the InputError "file:line: field: found 'text'; allowed: ...", the text shortened and
  // printable.
  [[noreturn]] void RefuseField(std::string_view field, std::string_view found,
                                std::string_view allowed) const;
  // Throws the InputError "file:line: what".
  [[noreturn]] void Refuse(const std::string& what) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }  // of the last line
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }    // uncompressed
  // The text's last line had no end: it may have been cut within its last number.
  [[nodiscard]] bool ended_without_newline() const { return ended_without_newline_; }

 private:
  bool FillBuffer();

  std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of the unread part of buffer_
  std::string_view line_;
  std::int64_t line_number_ = 0;
  std::int64_t bytes_read_ = 0;
  bool unread_ = false;
  bool ended_without_newline_ = false;
};

}  // namespace twin
