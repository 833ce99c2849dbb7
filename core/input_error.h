// What is thrown for input that cannot be used: a config, a trace, weights, a request, a flag.
#pragma once

#include <stdexcept>
#include <string>

namespace twin {

// One line for the user: where (file, line or field), what is wrong, what is allowed. Caught by
// apps/ alone, which prints it and exits with `exit_code`.
class InputError : public std::runtime_error {
 public:
  // Usage and config errors end with 2, all other bad input with 1.
  enum class Kind { kUsage = 2, kData = 1 };

  InputError(Kind kind, const std::string& where, const std::string& what)
      : std::runtime_error(where.empty() ? what : where + ": " + what), kind_(kind) {}

  [[nodiscard]] int exit_code() const { return static_cast<int>(kind_); }

 private:
  Kind kind_;
};

}  // namespace twin
