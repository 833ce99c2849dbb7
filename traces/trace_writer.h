// Writes requests in the CSV format of twinserve.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/traced_request.h"
#include "files/output_file.h"

namespace twin {

// Columns: arrival_ns, prompt_tokens, output_tokens, max_output_tokens, predicted_output_tokens,
// priority, tenant, session, prefix_chunk_tokens, prefix_chunks (separated by ;). Without arrivals,
// arrival_ns is omitted. The file is compressed if the path ends in ".gz".
class TraceWriter {
 public:
  // The file appears when it is complete (files/output_file.h). Throws InputError (usage) if it
  // cannot be created.
  TraceWriter(const std::string& path, bool has_arrivals);
  // Removes the file unless Commit() was called.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Throws InputError (data) if the file cannot be written; so does Commit().
  void Write(const TracedRequest& request);

  // Flushes the file and gives it its final name, replacing an existing file. Call it once, last.
  void Commit();

 private:
  class Output;
  void Flush();

  OutputFile file_;
  bool has_arrivals_;
  std::string buffer_;
  std::unique_ptr<Output> output_;  // null after Commit()
};

}  // namespace twin
