#include "run/judge/file_view.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <pwd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <system_error>

namespace twin::run {
namespace {

namespace fs = std::filesystem;

// Names in the root of the view while it is filled.
constexpr const char* kOutside = "/.outside";
constexpr const char* kNothing = "/.nothing";  // an empty folder

constexpr std::array kDevices = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};

// Whether `path` is `folder` or lies in it.
bool IsWithin(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string RealPath(const std::string& path) {
  std::array<char, PATH_MAX> real{};
  return realpath(path.c_str(), real.data()) == nullptr ? "" : real.data();
}

std::string Home() {
  const char* const given = std::getenv("HOME");
  if (given != nullptr && *given == '/') return RealPath(given);
  const passwd* const user = getpwuid(getuid());
  return user == nullptr ? "" : RealPath(user->pw_dir);
}

// `folder`: without links.
bool IsPrivate(const std::string& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0 || (found.st_mode & S_IWOTH) != 0) return true;
  return folder == "/" || IsWithin(Home(), folder);
}

// The path and what its last component links to, one after the other.
std::vector<std::string> Links(const std::string& path) {
  constexpr int kLinksMax = 40;
  std::vector<std::string> links{path};
  std::error_code error;
  for (int i = 0; i < kLinksMax && fs::is_symlink(links.back(), error); ++i) {
    const fs::path at = links.back();
    const fs::path to = fs::read_symlink(at, error);
    if (error) break;
    links.push_back((at.parent_path() / to).lexically_normal().string());
  }
  return links;
}

bool MakeFolders(const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    if (mkdir(path.substr(0, end).c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

bool MakePlace(const std::string& place, bool is_folder) {
  if (!MakeFolders(place)) return false;
  if (is_folder) return mkdir(place.c_str(), 0755) == 0 || errno == EEXIST;
  const int file = open(place.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (file >= 0) close(file);
  return file >= 0;
}

bool SetReadOnly(const std::string& place, std::uint64_t further) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | further;
  return syscall(SYS_mount_setattr, -1, place.c_str(), AT_RECURSIVE, &attributes,
                 sizeof attributes) == 0;
}

// A folder as the lower half of an overlay: its pipes are others than those outside.
bool Overlay(const std::string& source, const std::string& place) {
  if (source.find_first_of(":,\\") != std::string::npos) return false;
  const std::string options = "lowerdir=" + source + ":" + kNothing;
  return mount("overlay", place.c_str(), "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
               options.c_str()) == 0;
}

const char* MountDevices() {
  for (const char* const device : kDevices) {
    if (!MakePlace(device, false)) return "open(/dev)";
    if (mount((kOutside + std::string(device)).c_str(), device, nullptr, MS_BIND, nullptr) != 0) {
      return "mount(/dev)";
    }
  }
  return nullptr;
}

// /proc shows a process itself, and nothing of the machine. Must be mounted while the one outside
// is there. Opens kProcessNumbers.
const char* MountProcesses() {
  if (!MakePlace("/proc", true)) return "mkdir(/proc)";
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount("proc", "/proc", "proc", kFlags, nullptr) == 0) {
    const int numbers = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (numbers >= 0 && numbers != kProcessNumbers) {
      dup2(numbers, kProcessNumbers);
      close(numbers);
    }
    umount2("/proc", MNT_DETACH);
  }
  for (const char* const options : {"subset=pid,hidepid=ptraceable", ""}) {
    if (mount("proc", "/proc", "proc", kFlags, options) == 0) return nullptr;
  }
#if defined(__SANITIZE_ADDRESS__)
  return "mount(/proc)";  // the sanitizer finds its stacks there
#else
  return nullptr;  // an empty folder does, too
#endif
}

}  // namespace

bool FileView::Holds(const std::string& place) const {
  return std::ranges::any_of(binds_, [&](const Bind& bind) { return IsWithin(place, bind.to); });
}

void FileView::Add(const std::string& path, bool overlays) {
  struct stat found {};
  const std::string real = RealPath(path);
  if (real.empty() || stat(real.c_str(), &found) != 0) return;
  const bool is_folder = S_ISDIR(found.st_mode);
  if (!is_folder && !S_ISREG(found.st_mode)) return;
  std::vector<std::string> places = Links(path);
  places.push_back(real);
  for (const std::string& place : places) {
    if (Holds(place)) continue;
    std::erase_if(binds_, [&](const Bind& bind) { return IsWithin(bind.to, place); });
    binds_.push_back({real, place, is_folder, is_folder && overlays});
  }
}

void FileView::Show(const std::string& path) {
  if (path.empty()) return;
  const std::string absolute = fs::absolute(path).lexically_normal().string();
  const std::string place = absolute.size() > 1 && absolute.ends_with('/')
                                ? absolute.substr(0, absolute.size() - 1)
                                : absolute;
  const std::string real = RealPath(place);
  std::error_code error;
  if (!real.empty() && fs::is_directory(real, error) && IsPrivate(real)) return;
  Add(place, false);
}

void FileView::ShowList(std::string_view paths) {
  while (!paths.empty()) {
    const std::size_t end = std::min(paths.find(':'), paths.size());
    Show(std::string(paths.substr(0, end)));
    paths.remove_prefix(std::min(end + 1, paths.size()));
  }
}

void FileView::ShowSystem() {
  for (const char* const path : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
                                 "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"}) {
    Add(path, false);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && !line.ends_with(" (deleted)")) Show(line.substr(path));
  }
}

void FileView::ShowWithFolder(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const std::string real = RealPath(folder);
  if (!real.empty() && !IsPrivate(real)) Add(folder, true);
  Add(path, false);
}

const char* FileView::Mount(const Bind& bind, const std::string& source, const std::string& place) {
  if (!MakePlace(place, bind.is_folder)) return "mkdir";
  if (bind.overlays && Overlay(source, place)) return nullptr;
  if (mount(source.c_str(), place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return "mount(bind)";
  }
  return SetReadOnly(place, MOUNT_ATTR_NODEV) ? nullptr : "mount_setattr";
}

const char* FileView::Enter() const {
  const char* const failed = Fill();
  // The root is again the one outside.
  if (failed != nullptr && chdir(kOutside) == 0) (void)!chroot(".");
  (void)!chdir("/");
  return failed;
}

const char* FileView::Fill() const {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "mount(private)";
  // Any folder does: it becomes the root.
  constexpr const char* kBase = "/usr";
  if (mount("tmpfs", kBase, "tmpfs", MS_NOSUID, "mode=755") != 0) return "mount(tmpfs)";
  const std::string outside = kBase + std::string(kOutside);
  if (mkdir(outside.c_str(), 0755) != 0) return "mkdir";
  if (syscall(SYS_pivot_root, kBase, outside.c_str()) != 0) {
    umount2(kBase, MNT_DETACH);
    return "pivot_root";
  }
  if (chdir("/") != 0 || mkdir(kNothing, 0755) != 0) return "mkdir";
  for (const Bind& bind : binds_) {
    if (const char* const failed = Mount(bind, kOutside + bind.from, bind.to)) return failed;
  }
  if (const char* const failed = MountDevices()) return failed;
  if (const char* const failed = MountProcesses()) return failed;
  if (umount2(kOutside, MNT_DETACH) != 0) return "umount2";
  (void)rmdir(kOutside);
  constexpr unsigned long kReadOnly = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
  return mount(nullptr, "/", nullptr, kReadOnly, nullptr) == 0 ? nullptr : "mount(read only)";
}

}  // namespace twin::run
