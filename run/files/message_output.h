// A file of protobuf messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/files/output_file.h"

namespace google::protobuf::io {
class ZeroCopyOutputStream;
class FileOutputStream;
class GzipOutputStream;
}  // namespace google::protobuf::io

namespace twin {

enum class Compression : std::uint8_t { kNone, kGzip };

// Protobuf's output stream over an OutputFile, whose errors it throws.
class MessageOutput {
 public:
  MessageOutput(const std::filesystem::path& path, Compression compression,
                OutputFile::Appearance appearance = OutputFile::Appearance::kWhenComplete);
  ~MessageOutput();
  MessageOutput(const MessageOutput&) = delete;
  MessageOutput& operator=(const MessageOutput&) = delete;

  // Owned by this object; invalid after Commit().
  [[nodiscard]] google::protobuf::io::ZeroCopyOutputStream& stream();

  // To be called when the stream refused data: throws InputError (data) with the reason.
  [[noreturn]] void Fail() const;

  // Hands everything written so far to the operating system. Throws as Fail().
  void Flush();

  // As OutputFile::Commit().
  void Commit();

 private:
  OutputFile file_;
  std::unique_ptr<google::protobuf::io::FileOutputStream> stream_;
  std::unique_ptr<google::protobuf::io::GzipOutputStream> gzip_;  // null: not compressed
};

}  // namespace twin
