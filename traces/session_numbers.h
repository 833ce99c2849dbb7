// Numbers for the conversations of a file, which names them by texts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace twin {

// Columns and keys that name the conversation of a request, in any format; of several, the first
// one counts.
inline constexpr std::string_view kSessionNames[] = {"conversation_id", "session_id", "session"};

class SessionNumbers {
 public:
  // The number of a conversation without a name.
  std::uint64_t New() { return ++last_; }

  // The number of the conversation, from 1 on. `starts`: with its first turn, so that an earlier
  // conversation of that name has ended.
  std::uint64_t Of(const std::string& name, bool starts) {
    std::uint64_t& number = numbers_[name];
    if (number == 0 || starts) number = ++last_;
    return number;
  }

  // The number of the conversation in which `request` answers `before`; without `before` it begins
  // one. Requests have unique names. An answer to a request that the file lacks is in a
  // conversation with all other answers to it.
  std::uint64_t OfAnswer(const std::string& request, const std::string* before) {
    if (before == nullptr) return Of(request, false);
    const std::uint64_t number = Of(*before, false);
    numbers_.try_emplace(request, number);
    return number;
  }

 private:
  std::map<std::string, std::uint64_t> numbers_;
  std::uint64_t last_ = 0;
};

}  // namespace twin
