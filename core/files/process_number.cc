#include "core/files/process_number.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>

namespace twin {

std::optional<int> NumberBehind(std::string_view stem, std::string_view name) {
  if (!name.starts_with(stem)) return std::nullopt;
  int number = 0;
  const char* const end = name.data() + name.size();
  const auto [parsed, error] = std::from_chars(name.data() + stem.size(), end, number);
  if (error != std::errc{} || parsed != end || number < 1) return std::nullopt;
  return number;
}

bool ProcessExists(int number) { return kill(number, 0) == 0 || errno != ESRCH; }

}  // namespace twin
