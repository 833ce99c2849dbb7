#include "traces/trace_writer.h"

#include <fmt/format.h>

#include <iterator>

namespace twin {

TraceWriter::TraceWriter(const std::string& path, bool has_arrivals)
    : file_(path), has_arrivals_(has_arrivals) {
  if (has_arrivals) file_.Write("arrival_ns,");
  file_.Write(
      "prompt_tokens,output_tokens,max_output_tokens,predicted_output_tokens,priority,tenant,"
      "session,prefix_chunk_tokens,prefix_chunks\n");
}

void TraceWriter::Write(const TracedRequest& request) {
  if (has_arrivals_) line_.Count(Nanoseconds(request.arrival));
  line_.Count(request.prompt_tokens)
      .Count(request.output_tokens)
      .Count(request.max_output_tokens)
      .Count(request.predicted_output_tokens)
      .Count(request.priority)
      .Count(request.tenant)
      .Count(request.session)
      .Count(request.prefix_chunk_tokens);
  chunks_.clear();
  fmt::format_to(std::back_inserter(chunks_), "{}", fmt::join(request.prefix_chunks, ";"));
  line_.Word(chunks_);
  row_.clear();
  line_.AppendTo(row_);
  file_.Write(row_);
}

}  // namespace twin
