#include "run/files/message_output.h"

#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

namespace twin {

namespace io = google::protobuf::io;

MessageOutput::MessageOutput(const std::filesystem::path& path, Compression compression,
                             OutputFile::Appearance appearance)
    : file_(path, appearance), stream_(std::make_unique<io::FileOutputStream>(file_.descriptor())) {
  if (compression == Compression::kNone) return;
  io::GzipOutputStream::Options options;
  options.compression_level = 3;  // higher levels double the time for a few percent
  gzip_ = std::make_unique<io::GzipOutputStream>(stream_.get(), options);
}

MessageOutput::~MessageOutput() = default;

io::ZeroCopyOutputStream& MessageOutput::stream() {
  if (gzip_) return *gzip_;
  return *stream_;
}

void MessageOutput::Fail() const { file_.Fail(stream_->GetErrno()); }

void MessageOutput::Flush() {
  if (gzip_ && !gzip_->Flush()) Fail();
  if (!stream_->Flush()) Fail();
}

void MessageOutput::Commit() {
  if (gzip_ && !gzip_->Close()) Fail();
  if (!stream_->Flush()) Fail();
  file_.Commit();
}

}  // namespace twin
