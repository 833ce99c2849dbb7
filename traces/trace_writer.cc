#include "traces/trace_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "core/input_error.h"

namespace twin {
namespace {

template <class T>
void Append(std::string& text, T value) {
  char digits[24];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
  text.append(digits, end);
}

}  // namespace

// zlib's file, which writes plain text ("T") just as well.
class TraceWriter::Output {
 public:
  // Takes the descriptor.
  Output(int descriptor, bool compressed) : file_(gzdopen(descriptor, compressed ? "wb6" : "wbT")) {
    if (file_ == nullptr) close(descriptor);
  }
  ~Output() { Close(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

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

TraceWriter::TraceWriter(const std::string& path, bool has_arrivals)
    : path_(path),
      temporary_path_(path + ".part-" + std::to_string(getpid())),
      has_arrivals_(has_arrivals) {
  constexpr int kMode = 0666;  // before the umask
  const int descriptor =
      open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (descriptor < 0) Fail(std::string("cannot be created: ") + std::strerror(errno));
  output_ = std::make_unique<Output>(descriptor, path.ends_with(".gz"));
  CHECK(output_->is_open());
  if (has_arrivals) buffer_ = "arrival_ns,";
  buffer_ +=
      "prompt_tokens,output_tokens,max_output_tokens,predicted_output_tokens,priority,tenant,"
      "session,prefix_chunk_tokens,prefix_chunks\n";
}

TraceWriter::~TraceWriter() {
  if (output_ == nullptr) return;
  output_->Close();
  std::error_code ignored;
  std::filesystem::remove(temporary_path_, ignored);
}

void TraceWriter::Write(const TracedRequest& request) {
  CHECK(output_ != nullptr);
  if (has_arrivals_) {
    Append(buffer_, Nanoseconds(request.arrival));
    buffer_ += ',';
  }
  for (const std::int64_t value :
       {std::int64_t{request.prompt_tokens}, std::int64_t{request.output_tokens},
        std::int64_t{request.max_output_tokens}, std::int64_t{request.predicted_output_tokens},
        std::int64_t{request.priority}, std::int64_t{request.tenant}}) {
    Append(buffer_, value);
    buffer_ += ',';
  }
  Append(buffer_, request.session);
  buffer_ += ',';
  Append(buffer_, request.prefix_chunk_tokens);
  char separator = ',';
  if (request.prefix_chunks.empty()) buffer_ += separator;
  for (const std::uint64_t chunk : request.prefix_chunks) {
    buffer_ += separator;
    Append(buffer_, chunk);
    separator = ';';
  }
  buffer_ += '\n';
  constexpr std::size_t kFlushBytes = 1 << 16;
  if (buffer_.size() >= kFlushBytes) Flush();
}

void TraceWriter::Flush() {
  if (!output_->Write(buffer_)) Fail("cannot be written: is the disk full?");
  buffer_.clear();
}

void TraceWriter::Commit() {
  CHECK(output_ != nullptr);
  Flush();
  if (!output_->Close()) Fail("cannot be written: is the disk full?");
  std::error_code error;
  std::filesystem::rename(temporary_path_, path_, error);
  if (error) Fail("cannot be replaced: " + error.message());
  output_.reset();
}

void TraceWriter::Fail(const std::string& what) const {
  throw InputError(InputError::Kind::kData, path_, what);
}

}  // namespace twin
