// Text that fuzz tests change at random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/random.h"

namespace twin::serve::testing {

// Pieces of text that parsers of JSON and of requests stumble over.
inline const std::string kJsonPieces[] = {"[",
                                          "]",
                                          "{",
                                          "}",
                                          ",",
                                          ":",
                                          "\"",
                                          "null",
                                          "true",
                                          "-1",
                                          "1e308",
                                          "0.5",
                                          "1e999",
                                          "9999999999999999999999",
                                          "\\ud800",
                                          "\xFF",
                                          "\xEF\xBB\xBF",
                                          "\\u0000",
                                          "[[",
                                          "[1,\"a\"]",
                                          "257,",
                                          "\"prompt\":",
                                          "\"messages\":",
                                          "\"inputs\":7,",
                                          R"({"type":"text","text":"x"})"};

// TWIN_FUZZ_RUNS, or `otherwise` where it is not set.
inline std::int64_t FuzzRuns(std::int64_t otherwise) {
  const char* const runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs == nullptr ? otherwise : std::atoll(runs);
}

// 0 to `most`, both included.
inline std::size_t Upto(std::size_t most, Random& random) {
  return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(most)));
}

template <std::size_t kCount>
const std::string& Pick(const std::string (&choices)[kCount], Random& random) {
  return choices[Upto(kCount - 1, random)];
}

// `text` after `changes_min` to `changes_min` + 5 changes: bytes are erased, repeated or replaced,
// or one of `pieces` is inserted.
template <std::size_t kCount>
std::string Mutated(std::string text, const std::string (&pieces)[kCount], int changes_min,
                    Random& random) {
  const std::int64_t changes = random.UniformInt(changes_min, changes_min + 5);
  for (std::int64_t i = 0; i < changes; ++i) {
    const std::size_t at = Upto(text.size(), random);
    const std::size_t length = Upto(8, random);
    switch (random.UniformInt(0, 3)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, Pick(pieces, random));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random.UniformInt(0, 255));
        break;
      default:
        text.insert(at, text.substr(at, 4 * length));
    }
  }
  return text;
}

}  // namespace twin::serve::testing
