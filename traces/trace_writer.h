// Writes requests in the CSV format of twinserve.
#pragma once

#include <string>

#include "core/csv.h"
#include "core/files/compressible_file.h"
#include "core/traced_request.h"

namespace twin {

// Columns: arrival_ns, prompt_tokens, output_tokens, max_output_tokens, predicted_output_tokens,
// priority, tenant, session, prefix_chunk_tokens, prefix_chunks (separated by ;). Without arrivals,
// arrival_ns is omitted. The file is compressed if the path ends in ".gz".
class TraceWriter {
 public:
  // The file appears with Commit() (core/files/compressible_file.h). Throws InputError (data) if it
  // cannot be created.
  TraceWriter(const std::string& path, bool has_arrivals);

  // Throws InputError (data) if the file cannot be written; so does Commit().
  void Write(const TracedRequest& request);

  // Flushes the file and gives it its final name, replacing an existing file. Call it once, last.
  void Commit() { file_.Commit(); }

 private:
  CompressibleFile file_;
  bool has_arrivals_;
  CsvLine line_;
  std::string chunks_;
  std::string row_;
};

}  // namespace twin
