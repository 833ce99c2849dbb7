// Random damage to valid tokenizer.json files: the reader takes the result or refuses it with a
// line, and a tokenizer that it takes encodes and decodes without a crash. Runs under the
// sanitizers of the build; TWIN_FUZZ_RUNS sets the mutations per sample.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "apps/serve/text/tokenizer.h"
#include "core/input_error.h"
#include "core/random.h"

namespace twin::text {
namespace {

std::int64_t RunsPerSample() {
  const char* runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs == nullptr ? 150 : std::atoll(runs);
}

constexpr std::string_view kInsertions[] = {"null",
                                            "-1",
                                            "1e999",
                                            "99999999999999999999",
                                            "16777215",
                                            "\"\"",
                                            "{",
                                            "}",
                                            "[[[",
                                            "]",
                                            ",",
                                            ":",
                                            "true",
                                            "\"Split\"",
                                            "\"Regex\"",
                                            "\"(\"",
                                            "\\p{L}",
                                            "\\u0000",
                                            "\\ud800",
                                            "\xff",
                                            "+",
                                            "*",
                                            "(?",
                                            "{1,",
                                            "\"ByteLevel\"",
                                            "\"Sequence\"",
                                            "\"Metaspace\"",
                                            "\"Fuse\"",
                                            "\"type\"",
                                            "▁",
                                            "Ġ"};

std::size_t Within(Random& random, std::size_t size) {
  return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(size)));
}

// Most damage goes to the parts around the vocabulary, which are a small share of a file.
std::string Damaged(std::string text, Random& random) {
  const std::size_t vocab = text.find("\"vocab\"");
  const std::size_t size =
      random.UniformInt(0, 3) > 0 && vocab != std::string::npos ? vocab : text.size() - 1;
  for (std::int64_t k = random.UniformInt(1, 3); k > 0; --k) {
    const std::size_t at = std::min(Within(random, size), text.size() - 1);
    switch (random.UniformInt(0, 3)) {
      case 0:
        text[at] = static_cast<char>(random.UniformInt(0, 255));
        break;
      case 1:
        text.insert(at, kInsertions[Within(random, std::size(kInsertions) - 1)]);
        break;
      case 2:
        text.erase(at, Within(random, 20));
        break;
      default:
        text.insert(at, text.substr(Within(random, size), Within(random, 40)));
        break;
    }
    if (text.empty()) return text;
  }
  return text;
}

TEST(TokenizerFuzz, DamagedFilesAreTakenOrRefused) {
  const auto folder = std::filesystem::path(TWIN_SOURCE_DIR) / "tests/unit/text/samples";
  int taken = 0;
  int refused = 0;
  for (const char* name : {"llama3", "odd_bytes", "mistral", "gemma", "odd_unknown"}) {
    std::ifstream file(folder / (std::string(name) + ".json"));
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    ASSERT_FALSE(text.empty());
    Random random(1, name);
    for (std::int64_t run = 0; run < RunsPerSample(); ++run) {
      try {
        const auto tokenizer = ParseTokenizer(Damaged(text, random), "damaged.json");
        const Encoding encoding =
            tokenizer->EncodeWithOffsets("Hello <s> wörld 12\n  日本 <end>\U0001F600", true);
        EXPECT_EQ(encoding.ids.size(), encoding.characters.size());
        static_cast<void>(tokenizer->Decode(encoding.ids, false));
        ++taken;
      } catch (const InputError& error) {
        const std::string line = error.what();
        EXPECT_EQ(line.find('\n'), std::string::npos) << line;
        EXPECT_LE(line.size(), 400u) << line;
        ++refused;
      }
    }
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace twin::text
