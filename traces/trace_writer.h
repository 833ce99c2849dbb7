// Writes requests as our own CSV, so that a file is there whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/traced_request.h"

namespace twin {

// Columns: arrival_ns, prompt_tokens, output_tokens, max_output_tokens, predicted_output_tokens,
// priority, tenant, session, prefix_chunk_tokens, prefix_chunks (separated by ;). Without
// arrivals the first is left out. Compressed if the path ends in ".gz".
class TraceWriter {
 public:
  // Writes to a temporary file beside `path`, on the same file system. Throws InputError if it
  // cannot be created.
  TraceWriter(const std::string& path, bool has_arrivals);
  // Without Commit(), leaves nothing behind.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Throws InputError if the disk is full or fails, as Commit().
  void Write(const TracedRequest& request);

  // Flushes and gives the file its name, replacing what was there. No Write() after it.
  void Commit();

 private:
  class Output;
  void Flush();
  void Fail(const std::string& what) const;

  std::string path_;
  std::string temporary_path_;
  bool has_arrivals_;
  std::string buffer_;
  std::unique_ptr<Output> output_;
};

}  // namespace twin
