// A shared library opened at run time, so that a program runs where it is missing.
#pragma once

#include <string>

namespace twin::exec {

// Owns the handle; functions found in it must not be called after its end.
class SharedLibrary {
 public:
  // Not open() if there is no such library; why() then says what the loader said.
  explicit SharedLibrary(const char* file_name);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  [[nodiscard]] bool open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& why() const { return why_; }

  // The function of that name, null if there is none. `Function` is trusted to be its type.
  template <class Function>
  [[nodiscard]] Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(FindSymbol(name));
  }

 private:
  [[nodiscard]] void* FindSymbol(const char* name) const;

  void* handle_;
  std::string why_;
};

}  // namespace twin::exec
