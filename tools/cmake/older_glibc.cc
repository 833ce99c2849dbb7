// Functions that the compiler's static libraries take from glibc 2.35 and 2.36, so that the
// programs of a bundle start on older ones. Linked into those programs alone (TwinBundle.cmake).
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

// hypot of glibc 2.35 differs from the first one in error handling only.
extern "C" double twin_first_hypot(double x, double y);
__asm__(".symver twin_first_hypot,hypot@GLIBC_2.2.5");

namespace {

struct Object {
  std::uintptr_t address = 0;
  dl_find_object* found = nullptr;
};

// Fills in the object whose segments hold the address, as the loader's own function does.
int LookInto(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& object = *static_cast<Object*>(data);
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
  std::uintptr_t frames = 0;
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t first = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) frames = first;
    if (header.p_type != PT_LOAD) continue;
    begin = first < begin ? first : begin;
    end = first + header.p_memsz > end ? first + header.p_memsz : end;
    holds = holds || (object.address >= first && object.address < first + header.p_memsz);
  }
  if (!holds) return 0;
  *object.found = {};
  object.found->dlfo_map_start = reinterpret_cast<void*>(begin);
  object.found->dlfo_map_end = reinterpret_cast<void*>(end);
  object.found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return frames != 0 ? 1 : -1;
}

}  // namespace

extern "C" {

// The function hypot of these programs. It is hidden: exported, it would take the place of the
// first one too, and call itself. Its name here differs, because headers declare hypot as visible.
[[gnu::visibility("hidden")]] double twin_hypot(double x, double y) __asm__("hypot");
double twin_hypot(double x, double y) { return twin_first_hypot(x, y); }

// std::random_device: bytes from the system.
std::uint32_t arc4random() {
  std::uint32_t value = 0;
  if (getentropy(&value, sizeof(value)) != 0) std::abort();
  return value;
}

// The unwinder of exceptions: finds the tables of an address.
int _dl_find_object(void* address, dl_find_object* found) noexcept {
  Object object{reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(&LookInto, &object) == 1 ? 0 : -1;
}
}
