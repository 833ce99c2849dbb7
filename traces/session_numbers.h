// Numbers for the conversations of a file, which names them by texts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace twin {

class SessionNumbers {
 public:
  // The number of the conversation, from 1 on. `starts`: with its first turn, so that an earlier
  // conversation of that name has ended.
  std::uint64_t Of(const std::string& name, bool starts) {
    std::uint64_t& number = numbers_[name];
    if (number == 0 || starts) number = ++last_;
    return number;
  }

 private:
  std::map<std::string, std::uint64_t> numbers_;
  std::uint64_t last_ = 0;
};

}  // namespace twin
