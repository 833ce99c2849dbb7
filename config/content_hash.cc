#include "config/content_hash.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "config/experiment.pb.h"
#include "config/profile_folder.h"
#include "core/hash.h"
#include "core/input_error.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = 1 << 16;

[[noreturn]] void RefuseFile(const InputFile& file, const fs::path& path) {
  throw InputError(InputError::Kind::kUsage, file.field,
                   fmt::format("{} cannot be read: {}", path.string(),
                               std::generic_category().message(errno == 0 ? EIO : errno)));
}

// Continues `hash` with the content of the file at `path`.
std::uint64_t HashBytes(const InputFile& file, const fs::path& path, std::uint64_t hash) {
  std::error_code unknown;
  const bool there = fs::exists(path, unknown);
  if (there && !fs::is_directory(path) && !fs::is_regular_file(path)) {
    throw InputError(InputError::Kind::kUsage, file.field,
                     fmt::format("{} is no regular file", path.string()));
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path)) RefuseFile(file, path);
  std::vector<char> chunk(kChunkBytes);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    hash = MixWords(hash, HashText({chunk.data(), static_cast<std::size_t>(in.gcount())}));
  }
  if (in.bad()) RefuseFile(file, path);
  return hash;
}

}  // namespace

std::vector<InputFile> InputsNamedIn(const proto::Experiment& message) {
  std::vector<InputFile> files = FilesNamedIn(message);
  for (InputFile& file : files) {
    const fs::path config = fs::path(file.path) / "config.json";
    if (fs::is_directory(file.path) && fs::exists(config)) file.path = config.string();
  }
  const std::string& profile = message.cost().profile().profile();
  if (!profile.empty() && fs::is_directory(profile))
    files.push_back({"cost.profile.profile", profile});
  return files;
}

std::uint64_t ContentHash(const InputFile& file) {
  std::uint64_t hash = HashText(file.field);
  if (!fs::is_directory(file.path)) return HashBytes(file, file.path, hash);
  for (const ProfilePart part : kAllProfileParts) {
    const fs::path path = fs::path(file.path) / FileName(part);
    if (fs::exists(path)) hash = HashBytes(file, path, MixWords(hash, HashText(FileName(part))));
  }
  return hash;
}

}  // namespace twin
