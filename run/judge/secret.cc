#include "run/judge/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <system_error>

#include "core/hash.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::run {
namespace {

constexpr std::size_t kDigits = 32;

// The number that all of `text` is in base `base`; false if it is none.
bool ReadNumber(std::string_view text, int base, std::uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && read == end;
}

}  // namespace

JudgeSecret JudgeSecret::Draw() {
  std::array<std::uint64_t, 2> words{};
  // A zero would read as a number; getrandom() fills requests of this size at once.
  while (words[1] == 0) {
    if (getrandom(words.data(), sizeof words, 0) == static_cast<ssize_t>(sizeof words)) continue;
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  JudgeSecret secret;
  secret.key_ = {words[0], words[1]};
  return secret;
}

JudgeSecret JudgeSecret::Parse(std::string_view text, const std::string& field) {
  JudgeSecret secret;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool is_drawn =
      text.size() == kDigits && ReadNumber(text.substr(0, kDigits / 2), 16, secret.key_.high) &&
      ReadNumber(text.substr(kDigits / 2), 16, secret.key_.low) && secret.key_.high != 0;
  if (is_drawn) return secret;
  std::uint64_t number = 0;
  const bool is_number = text.size() < kDigits && ReadNumber(text, 10, number) && number <= kMost;
  if (is_number) return JudgeSecret(number);
  throw InputError(InputError::Kind::kUsage, field,
                   fmt::format("is {}; allowed: 0 to {}, or the 32 hexadecimal digits of a verdict",
                               Printable(text), kMost));
}

std::string JudgeSecret::text() const {
  return is_number() ? std::to_string(number()) : HexText(key_.high) + HexText(key_.low);
}

RunSeeds JudgeSecret::OfRun(std::uint64_t submission, std::uint64_t cell,
                            std::uint64_t round) const {
  const auto draw = [&](const char* what) {
    return KeyedHash(key_, fmt::format("{} {} {} {}", what, submission, cell, round));
  };
  const HashKey keys{draw("keys"), draw("more keys")};
  if (is_number()) {
    const std::uint64_t campaign = MixWords(number(), submission);
    const std::uint64_t seed = MixWords(MixWords(campaign, cell + 1), round + 1) & 0x7FFFFFFF;
    return {.world = seed, .workload = seed, .keys = keys};
  }
  RunSeeds seeds{.world = draw("world"), .workload = {}, .keys = keys};
  seeds.workload.arrivals = draw("arrivals");
  seeds.workload.content = draw("content");
  seeds.workload.predictions = draw("predictions");
  return seeds;
}

std::uint64_t JudgeSecret::OfCells(std::uint64_t submission) const {
  return is_number() ? MixWords(number(), submission)
                     : KeyedHash(key_, fmt::format("cells {}", submission));
}

std::uint64_t JudgeSecret::OfHostileWorlds() const {
  return is_number() ? number() : KeyedHash(key_, "hostile worlds");
}

}  // namespace twin::run
