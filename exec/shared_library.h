// A shared library that is opened at run time, so that the program also runs where it is missing.
#pragma once

#include <string>

namespace twin::exec {

// Owns the handle; functions found in it must not be called after its end.
class SharedLibrary {
 public:
  // If the library cannot be opened, open() is false and why() has the loader's message.
  explicit SharedLibrary(const char* file_name);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  [[nodiscard]] bool open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& why() const { return why_; }

  // The function of that name; null if there is none. The caller guarantees that `Function` is its
  // type.
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
