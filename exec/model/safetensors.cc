#include "exec/model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <system_error>
#include <utility>

#include "core/input_error.h"
#include "exec/model/safetensors_header.h"

namespace twin::exec {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderBytesMost = 100'000'000;  // the limit of the format's own library

[[noreturn]] void Refuse(const std::string& path, const std::string& what) {
  throw InputError(InputError::Kind::kData, path, what);
}

[[noreturn]] void RefuseErrno(const std::string& path, const char* what) {
  Refuse(path, std::string(what) + ": " + std::generic_category().message(errno));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      // O_NONBLOCK keeps a FIFO without a writer from holding up the call.
      : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (value_ < 0) RefuseErrno(path, "cannot be opened");
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()) {
  Map();
  try {
    ReadHeader();
  } catch (...) {
    ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (!mapped_.empty()) ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      mapped_(std::exchange(other.mapped_, {})),
      tensors_(std::move(other.tensors_)),
      by_name_(std::move(other.by_name_)) {}

void SafetensorsFile::Map() {
  const Descriptor file(path_);
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) RefuseErrno(path_, "cannot be read");
  if (!S_ISREG(status.st_mode)) Refuse(path_, "is not a file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kLengthBytes) {
    Refuse(path_, "the file of " + std::to_string(size) +
                      " bytes is too short for a safetensors header, which begins with " +
                      std::to_string(kLengthBytes) + " bytes of length");
  }
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (start == MAP_FAILED) RefuseErrno(path_, "cannot be mapped");
  ::madvise(start, size, MADV_SEQUENTIAL);
  mapped_ = {static_cast<const std::byte*>(start), size};
}

void SafetensorsFile::ReadHeader() {
  std::uint64_t length = 0;
  std::memcpy(&length, mapped_.data(), kLengthBytes);
  const std::uint64_t behind = mapped_.size() - kLengthBytes;
  if (length > behind) {
    Refuse(path_, "the safetensors header of " + std::to_string(length) +
                      " bytes reaches beyond the end of the file of " +
                      std::to_string(mapped_.size()) + " bytes");
  }
  if (length > kHeaderBytesMost) {
    Refuse(path_, "the safetensors header of " + std::to_string(length) +
                      " bytes is too large; allowed: up to " + std::to_string(kHeaderBytesMost));
  }
  const std::string_view text(reinterpret_cast<const char*>(mapped_.data()) + kLengthBytes, length);
  const auto data = mapped_.subspan(kLengthBytes + length);
  for (HeaderEntry& entry : ParseSafetensorsHeader(text, data.size(), path_)) {
    tensors_.push_back({std::move(entry.name), entry.type, std::move(entry.shape),
                        data.subspan(entry.begin, entry.end - entry.begin)});
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
}

const StoredTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::size_t i, std::string_view n) { return tensors_[i].name < n; });
  return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
}

}  // namespace twin::exec
