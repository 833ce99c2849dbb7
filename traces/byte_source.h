// Where the bytes of a trace come from: a file or memory, compressed or plain.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace twin {

// The bytes cannot be had: no such file, a read error, damaged or truncated compression. The reader
// on top adds the file and line.
class ByteSourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills a part of `bytes` and says how much; 0 = the end. Throws ByteSourceError.
  // REQUIRES: bytes is not empty.
  virtual std::size_t Read(std::span<char> bytes) = 0;
};

// A regular file as it is. Throws ByteSourceError.
std::unique_ptr<ByteSource> OpenFileBytes(const std::string& path);

// The given bytes.
std::unique_ptr<ByteSource> MemoryBytes(std::string bytes);

// `source`, uncompressed if it begins with gzip's magic bytes (1f 8b), else unchanged. Members of a
// concatenated gzip file follow each other; anything else behind a member is an error.
std::unique_ptr<ByteSource> Decompress(std::unique_ptr<ByteSource> source);

}  // namespace twin
