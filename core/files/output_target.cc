#include "core/files/output_target.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace twin {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as many as Linux follows

// The open file that a path under /dev or /proc stands for.
std::optional<int> DescriptorNamed(const std::string& path) {
  if (path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  constexpr std::array<std::string_view, 2> kFolders = {"/dev/fd/", "/proc/self/fd/"};
  for (const std::string_view folder : kFolders) {
    if (!path.starts_with(folder)) continue;
    const char* const begin = path.data() + folder.size();
    const char* const end = path.data() + path.size();
    int number = -1;
    const auto [parsed, error] = std::from_chars(begin, end, number);
    if (error == std::errc{} && parsed == end && number >= 0) return number;
  }
  return std::nullopt;
}

}  // namespace

OutputTarget FindOutputTarget(const fs::path& path) {
  OutputTarget target;
  target.path = path;
  for (int links = 0; links < kLinksMax; ++links) {
    const fs::path absolute = fs::absolute(target.path).lexically_normal();
    if (const std::optional<int> descriptor = DescriptorNamed(absolute.string())) {
      target.kind = OutputTarget::Kind::kDescriptor;
      target.descriptor = *descriptor;
      return target;
    }
    std::error_code error;
    const fs::file_status status = fs::symlink_status(target.path, error);
    if (fs::is_symlink(status)) {
      target.path = target.path.parent_path() / fs::read_symlink(target.path);
      continue;
    }
    if (fs::is_directory(status)) {
      target.kind = OutputTarget::Kind::kDirectory;
    } else if (fs::exists(status) && !fs::is_regular_file(status)) {
      target.kind = OutputTarget::Kind::kStream;
    }
    return target;
  }
  throw std::system_error(std::make_error_code(std::errc::too_many_symbolic_link_levels),
                          path.string());
}

std::optional<int> NumberAfter(std::string_view stem, std::string_view name) {
  if (!name.starts_with(stem)) return std::nullopt;
  int number = 0;
  const char* const end = name.data() + name.size();
  const auto [parsed, error] = std::from_chars(name.data() + stem.size(), end, number);
  if (error != std::errc{} || parsed != end || number < 1) return std::nullopt;
  return number;
}

bool ProcessExists(int number) { return kill(number, 0) == 0 || errno != ESRCH; }

}  // namespace twin
