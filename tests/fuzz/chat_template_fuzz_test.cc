// Damaged templates with damaged variables: each is rendered within the limits or refused by
// InputError. TWIN_FUZZ_RUNS sets the number of mutations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/template.h"
#include "core/input_error.h"
#include "core/random.h"

namespace twin::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

int Runs() {
  const char* const runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs != nullptr ? std::atoi(runs) : 5'000;
}

// Pieces that make a mutation likely to be half right.
const std::vector<std::string> kPieces = {"{{ ",
                                          " }}",
                                          "{% ",
                                          " %}",
                                          "{%- ",
                                          " -%}",
                                          "{#",
                                          "#}",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          ", ",
                                          "|",
                                          ".",
                                          ":",
                                          " ~ ",
                                          " + ",
                                          " * ",
                                          " % ",
                                          " - ",
                                          "=",
                                          " == ",
                                          " < ",
                                          "9223372036854775807",
                                          "-1",
                                          "1e999",
                                          "0.5",
                                          "''",
                                          "'\\u00e9\\U0010ffff'",
                                          "\"",
                                          "'",
                                          "\\",
                                          "none",
                                          "x",
                                          "loop",
                                          "messages",
                                          "namespace()",
                                          "range(9999)",
                                          "caller()",
                                          "m()",
                                          "ns",
                                          "not ",
                                          " in ",
                                          " is ",
                                          " if ",
                                          " else ",
                                          "{% for i in messages %}",
                                          "{% endfor %}",
                                          "{% macro m(a, b=m) %}",
                                          "{% endmacro %}",
                                          "{% set ns.x = [ns.x, ns] %}",
                                          "{% set x = x ~ x %}",
                                          "{% call m() %}",
                                          "{% endcall %}",
                                          "{% filter trim %}",
                                          "{% endfilter %}",
                                          "|tojson(indent=9)",
                                          "|sort",
                                          "|map('upper')",
                                          "|selectattr('role', 'equalto', 'user')",
                                          "|list",
                                          "|join(messages)",
                                          "|items",
                                          "|dictsort",
                                          "|default(x, true)",
                                          "|indent(99)",
                                          "|safe",
                                          "|int",
                                          "|unique",
                                          "|min",
                                          "[::-1]",
                                          "[-1:9:2]",
                                          ".split('')",
                                          ".strip('x')",
                                          ".format(1)",
                                          ".get(x)",
                                          ".items()",
                                          ".replace('', 'xx')",
                                          "strftime_now('%Y')",
                                          "\xf0\x9f\x8c\x8d",
                                          "\xe2\x80\xa8",
                                          "\xc3",
                                          "\r\n",
                                          "\n",
                                          "\t",
                                          " "};

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto& file : fs::directory_iterator(fs::path(TWIN_SOURCE_DIR) / "tests" /
                                                 "chat_templates" / "templates")) {
    std::ifstream stream(file.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return seeds;
}

std::size_t Below(Random& random, std::size_t bound) {
  return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(bound) - 1));
}

// A slice of a seed, so that the first damage does not hide all that follows, with some pieces put
// in, some bytes left out and some repeated.
std::string Mutated(Random& random, const std::vector<std::string>& seeds) {
  const std::string& seed = seeds[Below(random, seeds.size())];
  std::size_t begin = 0;
  if (random.UnitReal() < 0.7) begin = seed.find("\n", Below(random, seed.size()));
  if (begin == std::string::npos) begin = 0;
  std::string text = seed.substr(begin, 20 + Below(random, 600));
  for (std::size_t i = Below(random, 4); i > 0; --i) {
    const std::size_t at = Below(random, text.size() + 1);
    const std::size_t length = 1 + Below(random, 6);
    const double kind = random.UnitReal();
    if (kind < 0.6) {
      text.insert(at, kPieces[Below(random, kPieces.size())]);
    } else if (kind < 0.9) {
      text.erase(at, length);
    } else {
      text.insert(at, text.substr(Below(random, text.size() + 1), 8 * length));
    }
  }
  return text;
}

TEST(ChatTemplateFuzzTest, RendersWithinItsLimitsOrRefuses) {
  const std::vector<std::string> seeds = Seeds();
  ASSERT_GE(seeds.size(), 7);
  const ordered_json variables = ordered_json::parse(R"({"x": "text \u00e9", "bos_token": "<s>",
      "messages": [{"role": "user", "content": "Hi", "n": [1, 2.5, null, true]},
                   {"role": "assistant", "content": null, "o": {"b": {}, "a": []}}],
      "tools": []})");
  Random random(7, "templates");
  int loaded = 0;
  int rendered = 0;
  for (int run = 0; run < Runs(); ++run) {
    const std::string source = Mutated(random, seeds);
    SCOPED_TRACE(source);
    try {
      const Template made(source, "t");
      ++loaded;
      const std::string text = made.Render(variables, [] { return std::tm{}; });
      ++rendered;
      EXPECT_LE(text.size(), jinja::kTextBytesMost);
    } catch (const InputError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
  // The mutations reach the evaluator, not only the parser.
  EXPECT_GT(loaded, Runs() / 10);
  EXPECT_GT(rendered, Runs() / 20);
}

}  // namespace
}  // namespace twin::text
