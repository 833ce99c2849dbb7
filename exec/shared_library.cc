#include "exec/shared_library.h"

#include <dlfcn.h>

namespace twin::exec {

SharedLibrary::SharedLibrary(const char* file_name)
    : handle_(dlopen(file_name, RTLD_LAZY | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* const error = dlerror();
  why_ = error != nullptr ? error : std::string(file_name) + " cannot be opened";
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::FindSymbol(const char* name) const {
  return handle_ != nullptr ? dlsym(handle_, name) : nullptr;
}

}  // namespace twin::exec
