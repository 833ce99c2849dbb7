#include "core/files/line_reader.h"

#include <utility>

#include "core/check.h"
#include "core/files/file_kind.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

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
