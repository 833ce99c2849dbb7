#include "core/printable.h"

namespace twin {

std::string Printable(std::string_view text, std::size_t length_max) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string printable;
  for (const char c : text.substr(0, length_max)) {
    if (c >= ' ' && c <= '~') {
      printable += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      printable += "\\x";
      printable += kDigits[byte >> 4];
      printable += kDigits[byte & 15];
    }
  }
  if (text.size() > length_max) printable += "...";
  return printable;
}

}  // namespace twin
