#include "core/files/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

namespace twin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFirstPartBytes = std::size_t{16} << 10;

}  // namespace

void RequireRegularFile(const fs::path& path, InputError::Kind kind) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw InputError(kind, path.string(), "does not exist");
  }
  if (!fs::is_regular_file(status)) throw InputError(kind, path.string(), "is no regular file");
}

void RequireRegularFileIfThere(const fs::path& path, InputError::Kind kind) {
  std::error_code unknown;
  if (fs::exists(path, unknown)) RequireRegularFile(path, kind);
}

std::string ReadFile(const fs::path& path, std::size_t bytes_max, InputError::Kind kind) {
  RequireRegularFile(path, kind);
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // Reads in parts, each as long as all before it: the size of files of /proc and of files that
  // grow is not the size they report.
  while (file && text.size() <= bytes_max) {
    const std::size_t before = text.size();
    text.resize(before + std::min(std::max(kFirstPartBytes, before), bytes_max + 1 - before));
    file.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || (!file && !file.eof())) {
    throw InputError(kind, path.string(), "cannot be read");
  }
  if (text.size() > bytes_max) {
    throw InputError(kind, path.string(),
                     fmt::format("is larger than {} bytes; allowed: at most that", bytes_max));
  }
  return text;
}

}  // namespace twin
