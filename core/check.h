// CHECK(condition): aborts the process on a programming error, in every build type, and prints the
// source location and the condition. It is a macro because clang-tidy 14 cannot parse libstdc++
// 12's <source_location>.
#pragma once

namespace twin {

// Prints "file:line: check failed: condition" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace twin

#define CHECK(condition)                                   \
  do {                                                     \
    if (!(condition)) [[unlikely]] {                       \
      ::twin::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                      \
  } while (false)
