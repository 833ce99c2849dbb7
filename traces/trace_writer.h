// Writes requests in the CSV format of twinserve.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/traced_request.h"
#include "files/output_file.h"

namespace twin {

// Columns: arrival_ns, prompt_tokens, output_tokens, max_output_tokens, predicted_output_tokens,
// priority, tenant, session, prefix_chunk_tokens, prefix_chunks (separated by ;). Without
// arrivals the first is left out. Compressed if the path ends in ".gz".
class TraceWriter {
 public:
  // The file appears when it is complete (files/output_file.h). Throws InputError (usage) if it
  // cannot be created.
  TraceWriter(const std::string& path, bool has_arrivals);
  // Without Commit(), leaves nothing behind.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Throws InputError (data) if the file cannot be written, as Commit().
  void Write(const TracedRequest& request);

  // Flushes and gives the file its name, replacing what was there. No Write() after it.
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
