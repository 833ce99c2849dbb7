// Damaged case lines: each is decided, or refused by one line that says why. Nothing else happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/commands.h"
#include "apps/schedule/schedule_case.h"
#include "core/input_error.h"
#include "core/random.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::apps {
namespace {

// Pieces that make a mutation likely to be half right.
const std::vector<std::string> kPieces = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ":",
                                          ",",
                                          "\"",
                                          "\\n",
                                          "\\u0007",
                                          "-",
                                          "0",
                                          "1",
                                          "9",
                                          "7777",
                                          "1e9",
                                          "0.5",
                                          "2147483647",
                                          "4294967296",
                                          "9223372036854775807",
                                          "18446744073709551615",
                                          "null",
                                          "true",
                                          "\"it\":",
                                          "\"tokens\":[1,2],",
                                          "\"truncated\":true,",
                                          "\"cpu_blocks\":3,",
                                          "\"priority\":2,",
                                          "\"n_workers\":3,",
                                          "[0,\"D\",1],",
                                          "\xff",
                                          "\n"};

std::string Mutated(std::string text, Random& random) {
  const auto below = [&random](std::size_t n) {
    return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(n) - 1));
  };
  for (std::int64_t n = random.UniformInt(1, 3); n > 0 && !text.empty(); --n) {
    const std::size_t at = below(text.size());
    switch (random.UniformInt(0, 5)) {
      case 0:
        text.erase(at, 1 + below(8));
        break;
      case 1:
        text[at] = static_cast<char>(random.UniformInt(32, 126));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), 1 + below(30)));
        break;
      case 3:
        text.resize(std::max(at, text.size() / 2));
        break;
      default:  // a number or a name is replaced, or something inserted
        std::size_t end = at;
        while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
        text.replace(at, end - at, kPieces[below(kPieces.size())]);
    }
  }
  return text;
}

// A mutation that only asks for very many steps is no damage, and no test.
bool AsksForManySteps(const std::string& line) {
  try {
    std::int64_t tokens = 0;
    for (const run::ScheduleRequest& r : run::ParseScheduleCase(line, "").requests)
      tokens += r.output_tokens;
    return tokens > 2'000;
  } catch (const InputError&) {
    return false;
  }
}

enum class Fate { kDecided, kRefused };

// What is printed of a case that is refused is one line: it says where, and holds no control
// character.
Fate FateOf(const std::string& line, const std::string& file, bool check) {
  // A new file each time: file systems write a shortened one to the disk at once.
  std::filesystem::remove(file);
  std::ofstream(file, std::ios::binary) << line << '\n';
  CLI::App app;
  CommandContext context;
  AddScheduleCommand(CommandParser(app), context);
  std::ostringstream out;
  std::ostringstream err;
  std::streambuf* const stdout_buffer = std::cout.rdbuf(out.rdbuf());
  std::streambuf* const stderr_buffer = std::cerr.rdbuf(err.rdbuf());
  try {
    app.parse("schedule --cases " + file + (check ? " --check" : ""));
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << line;
  }
  std::cout.rdbuf(stdout_buffer);
  std::cerr.rdbuf(stderr_buffer);
  std::istringstream messages(err.str());
  for (std::string message; std::getline(messages, message);) {
    EXPECT_EQ(message.find("twinserve: " + file), 0u) << message << "\n" << line;
    EXPECT_TRUE(
        std::none_of(message.begin(), message.end(), [](char c) { return c >= 0 && c < 32; }))
        << message << "\n"
        << line;
  }
  return err.str().empty() ? Fate::kDecided : Fate::kRefused;
}

// Variants of the recorded decisions (tests/golden/cases/), so that every policy is among them.
class ScheduleFuzzTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The shortest case of the variant: most of what is damaged is not its steps.
  static std::string ShortestCase() {
    std::ifstream in(std::string(TWIN_SOURCE_DIR "/tests/golden/cases/") + GetParam() + ".ndjson");
    std::string shortest;
    for (std::string line; std::getline(in, line);) {
      if (shortest.empty() || line.size() < shortest.size()) shortest = line;
    }
    return shortest;
  }
};

// A violated invariant would be neither: what a case asks of a policy is checked before.
TEST_P(ScheduleFuzzTest, DamagedLinesAreDecidedOrRefused) {
  const ScratchDirectory scratch(std::string("schedule_fuzz_") + GetParam());
  const std::string file = scratch.File("cases.ndjson");
  const std::string sound = ShortestCase();
  ASSERT_EQ(FateOf(sound, file, true), Fate::kDecided);
  Random random(11, GetParam());
  int counts[2] = {};
  for (int i = 0; i < 1'500; ++i) {
    const std::string line = Mutated(sound, random);
    if (AsksForManySteps(line)) continue;
    ++counts[static_cast<int>(FateOf(line, file, i % 2 == 0))];
    ASSERT_FALSE(HasFailure()) << "mutation " << i;
  }
  EXPECT_GT(counts[static_cast<int>(Fate::kDecided)], 50);
  EXPECT_GT(counts[static_cast<int>(Fate::kRefused)], 500);
}

INSTANTIATE_TEST_SUITE_P(Cases, ScheduleFuzzTest,
                         ::testing::Values("static_padded", "orca", "vllm_v0", "vllm_v0_swap",
                                           "vllm_v1", "vllm_v1_033", "sarathi", "sarathi_dynamic",
                                           "mii_splitfuse"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace twin::apps
