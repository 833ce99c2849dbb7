#include "kernels/cuda/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace twin::kernels::cuda {
namespace {

namespace fs = std::filesystem;

// Splits a variable that is a list like $PATH; empty if the variable is not set.
std::vector<fs::path> ListedFolders(const char* variable) {
  std::vector<fs::path> folders;
  const char* const value = std::getenv(variable);
  std::string rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  return folders;
}

// Sorted by name in descending order, so that newer versions come first.
std::vector<fs::path> SubfoldersStartingWith(const fs::path& folder, const std::string& start) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(start)) found.push_back(entry->path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void AddFolder(const fs::path& folder, std::vector<fs::path>& folders) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
}

void AddToolkit(const fs::path& toolkit, std::vector<fs::path>& folders) {
  AddFolder(toolkit / "lib64", folders);
  AddFolder(toolkit / "lib", folders);
  AddFolder(toolkit / "targets/x86_64-linux/lib", folders);
}

// Adds the libraries that pip installed for the Python in `bin`: .../site-packages/nvidia/*/lib.
void AddPythonPackages(const fs::path& bin, std::vector<fs::path>& folders) {
  for (const char* const lib : {"lib", "lib64"}) {
    for (const fs::path& python : SubfoldersStartingWith(bin.parent_path() / lib, "python3")) {
      for (const char* const packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : SubfoldersStartingWith(python / packages / "nvidia", "")) {
          AddFolder(package / "lib", folders);
        }
      }
    }
  }
}

// The path of an open library; `name` if the dynamic loader does not report it.
std::string PathOf(void* handle, const std::string& name) {
  const link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0';
  return known ? map->l_name : name;
}

}  // namespace

std::vector<fs::path> CudaLibraryFolders() {
  std::vector<fs::path> folders;
  for (const fs::path& folder : ListedFolders("TWIN_CUDA_LIBRARIES")) AddFolder(folder, folders);
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* const toolkit = std::getenv(variable);
    if (toolkit != nullptr && *toolkit != '\0') AddToolkit(toolkit, folders);
  }
  for (const fs::path& toolkit : SubfoldersStartingWith("/usr/local", "cuda")) {
    AddToolkit(toolkit, folders);
  }
  for (const fs::path& folder : ListedFolders("PATH")) {
    std::error_code error;
    const fs::path python = folder / "python3";
    if (!fs::exists(python, error)) continue;
    AddPythonPackages(folder, folders);
    const fs::path real = fs::canonical(python, error);
    if (!error) AddPythonPackages(real.parent_path(), folders);
  }
  return folders;
}

CudaLibrary::CudaLibrary(const std::string& file_name) {
  const auto try_file = [&](const std::string& file) {
    handle_ = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (handle_ != nullptr) {
      path_ = PathOf(handle_, file);
      why_.clear();
    } else if (why_.empty()) {
      const char* const error = dlerror();
      why_ = error != nullptr ? error : file + " cannot be opened";
    }
    return handle_ != nullptr;
  };
  for (const fs::path& folder : ListedFolders("TWIN_CUDA_LIBRARIES")) {
    std::error_code error;
    if (fs::exists(folder / file_name, error) && try_file(folder / file_name)) return;
  }
  if (try_file(file_name)) return;
  for (const fs::path& folder : CudaLibraryFolders()) {
    std::error_code error;
    if (fs::exists(folder / file_name, error) && try_file(folder / file_name)) return;
  }
}

void* CudaLibrary::FindSymbol(const char* name) const {
  return handle_ != nullptr ? dlsym(handle_, name) : nullptr;
}

}  // namespace twin::kernels::cuda
