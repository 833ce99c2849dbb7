#include "traces/trace_writer.h"

#include <charconv>
#include <string>

namespace twin {
namespace {

template <class T>
void Append(std::string& text, T value) {
  char digits[24];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
  text.append(digits, end);
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path, bool has_arrivals)
    : file_(path), has_arrivals_(has_arrivals) {
  if (has_arrivals) file_.Write("arrival_ns,");
  file_.Write(
      "prompt_tokens,output_tokens,max_output_tokens,predicted_output_tokens,priority,tenant,"
      "session,prefix_chunk_tokens,prefix_chunks\n");
}

void TraceWriter::Write(const TracedRequest& request) {
  row_.clear();
  if (has_arrivals_) {
    Append(row_, Nanoseconds(request.arrival));
    row_ += ',';
  }
  for (const std::int64_t value :
       {std::int64_t{request.prompt_tokens}, std::int64_t{request.output_tokens},
        std::int64_t{request.max_output_tokens}, std::int64_t{request.predicted_output_tokens},
        std::int64_t{request.priority}, std::int64_t{request.tenant}}) {
    Append(row_, value);
    row_ += ',';
  }
  Append(row_, request.session);
  row_ += ',';
  Append(row_, request.prefix_chunk_tokens);
  char separator = ',';
  if (request.prefix_chunks.empty()) row_ += separator;
  for (const std::uint64_t chunk : request.prefix_chunks) {
    row_ += separator;
    Append(row_, chunk);
    separator = ';';
  }
  row_ += '\n';
  file_.Write(row_);
}

}  // namespace twin
