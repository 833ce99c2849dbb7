// Finds and opens the shared libraries of CUDA (cuBLASLt, NCCL) at run time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

namespace twin::kernels::cuda {

// The existing folders that may contain CUDA libraries, in search order: $TWIN_CUDA_LIBRARIES (a
// list separated by ':'), the folders of $CUDA_HOME and $CUDA_PATH, CUDA toolkits in /usr/local,
// and the nvidia packages of every Python in $PATH.
std::vector<std::filesystem::path> CudaLibraryFolders();

// "13.1.0" for 130100: the version encoding of cuBLASLt, and of NCCL since 2.9.
inline std::string PackedVersionText(std::int64_t version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// A library that stays loaded until the process exits, because CUDA libraries start threads and
// register exit handlers. Its functions therefore never become invalid.
class CudaLibrary {
 public:
  // Searches $TWIN_CUDA_LIBRARIES first, then the paths of the dynamic loader, then the other
  // folders of CudaLibraryFolders().
  explicit CudaLibrary(const std::string& file_name);

  [[nodiscard]] bool open() const { return handle_ != nullptr; }
  // The path of the file, as the dynamic loader reports it; empty if the library is not open.
  [[nodiscard]] const std::string& path() const { return path_; }
  // The reason why the library is not open, in one line; empty if it is open.
  [[nodiscard]] const std::string& why() const { return why_; }

  // The function with this name; null if there is none. `Function` must be its type: this cannot
  // be checked.
  template <class Function>
  [[nodiscard]] Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(FindSymbol(name));
  }

  // Fills a table of function pointers: visit(table, body) must call body(pointer, name) for each
  // of them. Returns an empty string, or one line that names the first missing function.
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
