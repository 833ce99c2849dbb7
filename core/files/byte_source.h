// Sources of a file's bytes: files or memory, plain or gzip.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace twin {

// Thrown if a file is missing, reading fails, or gzip data are damaged or truncated. The caller
// (LineReader) adds the file and line.
class ByteSourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads up to bytes.size() bytes and returns their number; 0 at the end. Throws ByteSourceError.
  // REQUIRES: bytes is not empty.
  virtual std::size_t Read(std::span<char> bytes) = 0;
};

// The bytes of a file, not decompressed. Throws ByteSourceError.
std::unique_ptr<ByteSource> OpenFileBytes(const std::string& path);

// Bytes in memory.
std::unique_ptr<ByteSource> MemoryBytes(std::string bytes);

// Decompresses `source` if it begins with gzip's magic bytes (1f 8b); otherwise returns it
// unchanged. Concatenated gzip members are read in order; other data after a member are an error.
std::unique_ptr<ByteSource> Decompress(std::unique_ptr<ByteSource> source);

}  // namespace twin
