#include "proto/partial_file.h"

#include <fcntl.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace twin {

namespace {

namespace io = google::protobuf::io;

[[noreturn]] void ThrowErrno(int error, const std::filesystem::path& path) {
  throw std::system_error(error, std::generic_category(), path.string() + ": cannot be written");
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path path, Compression compression)
    : path_(std::move(path)), partial_(path_) {
  partial_ += ".partial";
  const int descriptor = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) ThrowErrno(errno, partial_);
  file_ = std::make_unique<io::FileOutputStream>(descriptor);
  file_->SetCloseOnDelete(true);
  if (compression == Compression::kNone) return;
  io::GzipOutputStream::Options options;
  options.compression_level = 3;  // beyond it, time doubles for a few percent
  gzip_ = std::make_unique<io::GzipOutputStream>(file_.get(), options);
}

PartialFile::~PartialFile() {
  gzip_.reset();
  file_.reset();
  std::error_code ignored;
  if (!committed_) std::filesystem::remove(partial_, ignored);
}

io::ZeroCopyOutputStream& PartialFile::stream() {
  if (gzip_) return *gzip_;
  return *file_;
}

void PartialFile::Fail() const { ThrowErrno(file_->GetErrno(), partial_); }

void PartialFile::Commit() {
  const bool compressed = !gzip_ || gzip_->Close();
  file_->SetCloseOnDelete(false);  // Close() may be called once only
  if (!compressed || !file_->Close()) Fail();
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) throw std::system_error(error, path_.string() + ": cannot be written");
  committed_ = true;
}

}  // namespace twin
