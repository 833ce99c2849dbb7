#include "core/files/compressible_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>

#include "core/check.h"

namespace twin {
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

}  // namespace

// A zlib file, which can also write plain text (mode "T").
class CompressibleFile::Stream {
 public:
  // Takes ownership of the descriptor.
  Stream(int descriptor, bool compressed) : file_(gzdopen(descriptor, compressed ? "wb6" : "wbT")) {
    if (file_ == nullptr) close(descriptor);
  }
  ~Stream() { Close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  bool Write(const std::string& text) {
    return text.empty() || gzwrite(file_, text.data(), static_cast<unsigned>(text.size())) > 0;
  }
  bool Close() {
    if (file_ == nullptr) return true;
    const int status = gzclose(file_);
    file_ = nullptr;
    return status == Z_OK;
  }

 private:
  gzFile file_;
};

CompressibleFile::CompressibleFile(const std::filesystem::path& path) : file_(path) {
  const int descriptor = fcntl(file_.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) file_.Fail(errno);
  stream_ = std::make_unique<Stream>(descriptor, path.extension() == ".gz");
  if (!stream_->is_open()) file_.Fail(errno);
}

CompressibleFile::~CompressibleFile() = default;

void CompressibleFile::Write(std::string_view text) {
  CHECK(stream_ != nullptr);
  buffer_ += text;
  if (buffer_.size() >= kFlushBytes) Flush();
}

void CompressibleFile::Flush() {
  errno = 0;
  if (!stream_->Write(buffer_)) file_.Fail(errno);
  buffer_.clear();
}

void CompressibleFile::Commit() {
  CHECK(stream_ != nullptr);
  Flush();
  errno = 0;
  if (!stream_->Close()) file_.Fail(errno);
  stream_.reset();
  file_.Commit();
}

}  // namespace twin
