// An output file of text that is compressed if its name ends in ".gz".
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/files/output_file.h"

namespace twin {

// The file appears when it is complete, and throws the errors of core/files/output_file.h.
class CompressibleFile {
 public:
  explicit CompressibleFile(const std::filesystem::path& path);
  // Removes what was written unless Commit() was called.
  ~CompressibleFile();
  CompressibleFile(const CompressibleFile&) = delete;
  CompressibleFile& operator=(const CompressibleFile&) = delete;

  // Appends text, which is buffered.
  void Write(std::string_view text);

  // Gives the file its final name, replacing an existing file. REQUIRES: called once, last.
  void Commit();

 private:
  class Stream;
  void Flush();

  OutputFile file_;
  std::string buffer_;
  std::unique_ptr<Stream> stream_;  // null after Commit()
};

}  // namespace twin
