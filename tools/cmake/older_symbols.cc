// Functions whose newest versions came with glibc 2.35 and GCC 12, bound to their first versions:
// the library of the Python package then loads on systems of 2021 (manylinux_2_34). Linked with
// --wrap.
#include <condition_variable>
#include <mutex>

// hypot of glibc 2.35 differs from the first one in error handling only.
extern "C" double twin_first_hypot(double x, double y);
__asm__(".symver twin_first_hypot,hypot@GLIBC_2.2.5");

// std::condition_variable::wait: the later version only promises not to throw.
extern "C" void twin_first_wait(std::condition_variable* self, std::unique_lock<std::mutex>& lock);
__asm__(
    ".symver twin_first_wait,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

extern "C" {

double __wrap_hypot(double x, double y) { return twin_first_hypot(x, y); }

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* self, std::unique_lock<std::mutex>& lock) {
  twin_first_wait(self, lock);
}
}
