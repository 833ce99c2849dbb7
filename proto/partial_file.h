// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

namespace google::protobuf::io {
class ZeroCopyOutputStream;
class FileOutputStream;
class GzipOutputStream;
}  // namespace google::protobuf::io

namespace twin {

enum class Compression : std::uint8_t { kNone, kGzip };

// Writes to PATH.partial, which Commit() renames to PATH, replacing what is there, and which is
// removed otherwise. Throws std::system_error naming the file when it cannot be written.
class PartialFile {
 public:
  PartialFile(std::filesystem::path path, Compression compression);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // Lives until Commit().
  [[nodiscard]] google::protobuf::io::ZeroCopyOutputStream& stream();

  // To be called when the stream refused data: throws with the reason.
  [[noreturn]] void Fail() const;

  void Commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<google::protobuf::io::FileOutputStream> file_;
  std::unique_ptr<google::protobuf::io::GzipOutputStream> gzip_;  // null: not compressed
  bool committed_ = false;
};

}  // namespace twin
