#include "traces/trace_writer.h"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <charconv>

#include "core/check.h"

namespace twin {
namespace {

template <class T>
void Append(std::string& text, T value) {
  char digits[24];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
  text.append(digits, end);
}

}  // namespace

// A zlib file, which can also write plain text (mode "T").
class TraceWriter::Output {
 public:
  // Takes ownership of the descriptor.
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
    : file_(path), has_arrivals_(has_arrivals) {
  output_ = std::make_unique<Output>(dup(file_.descriptor()), path.ends_with(".gz"));
  CHECK(output_->is_open());
  if (has_arrivals) buffer_ = "arrival_ns,";
  buffer_ +=
      "prompt_tokens,output_tokens,max_output_tokens,predicted_output_tokens,priority,tenant,"
      "session,prefix_chunk_tokens,prefix_chunks\n";
}

TraceWriter::~TraceWriter() = default;

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
  errno = 0;
  if (!output_->Write(buffer_)) file_.Fail(errno);
  buffer_.clear();
}

void TraceWriter::Commit() {
  CHECK(output_ != nullptr);
  Flush();
  errno = 0;
  if (!output_->Close()) file_.Fail(errno);
  output_.reset();
  file_.Commit();
}

}  // namespace twin
