// A shared library of the CUDA family, opened at run time wherever its package put it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

namespace twin::kernels::cuda {

// The folders where CUDA libraries may lie, in the order in which they are tried: those of
// $TWIN_CUDA_LIBRARIES (separated by ':'), of $CUDA_HOME and $CUDA_PATH, of CUDA toolkits in
// /usr/local, and of the nvidia packages of every Python in $PATH. Only folders that exist.
std::vector<std::filesystem::path> CudaLibraryFolders();

// "13.1.0" for 130100: how cuBLASLt, cuDNN 9 and NCCL from 2.9 on count their versions.
inline std::string PackedVersionText(std::int64_t version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

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

  // Fills a table of function pointers, of which visit(table, body) gives each with its name to
  // body. Empty, or one line that names the first function that is missing.
  template <class Table, class Visit>
  [[nodiscard]] std::string FillTable(Table& table, const Visit& visit) const {
    std::string why;
    visit(table, [&]<class Function>(Function& function, const char* name) {
      function = Find<std::remove_pointer_t<Function>>(name);
      if (function == nullptr && why.empty()) why = path() + " lacks " + name;
    });
    return why;
  }

 private:
  [[nodiscard]] void* FindSymbol(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
  std::string why_;
};

}  // namespace twin::kernels::cuda
