// A shared library of the CUDA family, opened at run time wherever its package put it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace twin::kernels::cuda {

// The folders where CUDA libraries may lie, in the order in which they are tried: those of
// $TWIN_CUDA_LIBRARIES (separated by ':'), of $CUDA_HOME and $CUDA_PATH, of CUDA toolkits in
// /usr/local, and of the nvidia packages of every Python in $PATH. Only folders that exist.
std::vector<std::filesystem::path> CudaLibraryFolders();

// Stays in the process once it is open: such libraries start threads, and register what runs at
// exit. Functions found in it are valid for ever.
class CudaLibrary {
 public:
  // $TWIN_CUDA_LIBRARIES first, then the loader's own search, then the other folders.
  explicit CudaLibrary(const std::string& file_name);

  [[nodiscard]] bool open() const { return handle_ != nullptr; }
  // Where it was found, as the loader knows it; empty if it is not open.
  [[nodiscard]] const std::string& path() const { return path_; }
  // Why it is not open, one line; empty if it is.
  [[nodiscard]] const std::string& why() const { return why_; }

  // The function of that name, null if there is none. `Function` is trusted to be its type.
  template <class Function>
  [[nodiscard]] Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(FindSymbol(name));
  }

 private:
  [[nodiscard]] void* FindSymbol(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
  std::string why_;
};

}  // namespace twin::kernels::cuda
