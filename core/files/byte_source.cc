#include "core/files/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/check.h"

namespace twin {
namespace {

class FileBytes final : public ByteSource {
 public:
  explicit FileBytes(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) throw ByteSourceError("is a directory");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_) throw ByteSourceError(std::string("cannot be opened: ") + std::strerror(errno));
  }

  std::size_t Read(std::span<char> bytes) override {
    const std::size_t size = std::fread(bytes.data(), 1, bytes.size(), file_.get());
    if (size == 0 && std::ferror(file_.get()) != 0) throw ByteSourceError("read error");
    return size;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

class StringBytes final : public ByteSource {
 public:
  explicit StringBytes(std::string bytes) : bytes_(std::move(bytes)) {}

  std::size_t Read(std::span<char> bytes) override {
    const std::size_t size = std::min(bytes.size(), bytes_.size() - position_);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(position_), size, bytes.begin());
    position_ += size;
    return size;
  }

 private:
  std::string bytes_;
  std::size_t position_ = 0;
};

class GzipBytes final : public ByteSource {
 public:
  explicit GzipBytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
    // The magic has two bytes; a source may return one at a time.
    while (available_ < 2 && FillInput()) {
    }
    compressed_ = available_ >= 2 && input_[0] == '\x1f' && input_[1] == '\x8b';
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(available_);
    constexpr int kGzipOnly = 15 + 16;  // zlib.h: window bits, plus 16 for the gzip header
    if (compressed_) CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK);
  }
  ~GzipBytes() override {
    if (compressed_) inflateEnd(&stream_);
  }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::size_t Read(std::span<char> bytes) override {
    return compressed_ ? Inflate(bytes) : Copy(bytes);
  }

 private:
  // Appends to the unread input at the front of the buffer; false at the end.
  bool FillInput() {
    const std::size_t size =
        source_->Read(std::span(input_).subspan(available_, input_.size() - available_));
    available_ += size;
    return size > 0;
  }

  bool Refill() {
    available_ = 0;
    const bool more = FillInput();
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(available_);
    return more;
  }

  std::size_t Copy(std::span<char> bytes) {
    if (stream_.avail_in == 0 && !Refill()) return 0;
    const std::size_t size = std::min<std::size_t>(bytes.size(), stream_.avail_in);
    std::memcpy(bytes.data(), stream_.next_in, size);
    stream_.next_in += size;
    stream_.avail_in -= static_cast<uInt>(size);
    return size;
  }

  std::size_t Inflate(std::span<char> bytes) {
    stream_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_out = static_cast<uInt>(bytes.size());
    while (stream_.avail_out == bytes.size()) {
      if (stream_.avail_in == 0 && !Refill()) {
        if (member_ended_) return 0;
        throw ByteSourceError("the gzip data end early: the file is truncated");
      }
      if (member_ended_) {
        CHECK(inflateReset(&stream_) == Z_OK);
        member_ended_ = false;
      }
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        member_ended_ = true;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw ByteSourceError(std::string("damaged gzip data: ") +
                              (stream_.msg != nullptr ? stream_.msg : "unknown error"));
      }
    }
    return bytes.size() - stream_.avail_out;
  }

  std::unique_ptr<ByteSource> source_;
  std::array<char, 64 * 1024> input_{};
  std::size_t available_ = 0;  // bytes of the last fill
  z_stream stream_{};
  bool compressed_ = false;
  bool member_ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> OpenFileBytes(const std::string& path) {
  return std::make_unique<FileBytes>(path);
}

std::unique_ptr<ByteSource> MemoryBytes(std::string bytes) {
  return std::make_unique<StringBytes>(std::move(bytes));
}

std::unique_ptr<ByteSource> Decompress(std::unique_ptr<ByteSource> source) {
  return std::make_unique<GzipBytes>(std::move(source));
}

}  // namespace twin
