// The exception for invalid input: a config, a trace, weights, a request, or a flag.
#pragma once

#include <stdexcept>
#include <string>

namespace twin {

// The message is one line for the user: where (file, line or field), what is wrong, and what is
// allowed. Only apps/ catches it, prints it, and exits with `exit_code`.
class InputError : public std::runtime_error {
 public:
  // The exit code: 2 for usage and config errors, 1 for all other invalid input.
  enum class Kind { kUsage = 2, kData = 1 };

  InputError(Kind kind, const std::string& where, const std::string& what)
      : std::runtime_error(where.empty() ? what : where + ": " + what), kind_(kind) {}

  [[nodiscard]] int exit_code() const { return static_cast<int>(kind_); }

 private:
  Kind kind_;
};

}  // namespace twin
