// Encodes and decodes for compare_tokenizers.py: reads one JSON value per line, writes one per
// line.
//
//   "text"      -> {"ids", "special_ids", "offsets", "text", "all_text", "stream"}
//   [ids, ...]  -> {"text", "all_text", "stream"}
//
// "text" is decoded without special tokens and "all_text" with them; "stream" is true if the pieces
// of a detokenizer are "text". Usage: encode_strings TOKENIZER_JSON < INPUT > OUTPUT
//        encode_strings --time TOKENIZER_JSON TEXT_FILE: prints speeds, in time of the processor.

#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/text/tokenizer.h"
#include "core/input_error.h"

namespace twin::text {
namespace {

using nlohmann::json;

// A piece must be complete characters, which JSON would refuse otherwise.
std::string Streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  const auto detokenizer =
      tokenizer.NewDetokenizer({.skip_special_tokens = true, .after_prompt = false});
  std::string text;
  for (const TokenId id : ids) text += json::parse(json(detokenizer->Push(id)).dump());
  return text + detokenizer->Finish();
}

json Decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  const std::string text = tokenizer.Decode(ids, /*skip_special_tokens=*/true);
  return {{"text", text},
          {"all_text", tokenizer.Decode(ids, /*skip_special_tokens=*/false)},
          {"stream", Streamed(tokenizer, ids) == text}};
}

json Encoded(const Tokenizer& tokenizer, const std::string& text) {
  const Encoding encoding = tokenizer.EncodeWithOffsets(text, /*add_special_tokens=*/false);
  const std::vector<TokenId> ids = tokenizer.Encode(text, /*add_special_tokens=*/false);
  json offsets = json::array();
  for (const Span& span : encoding.characters) offsets.push_back({span.begin, span.end});
  json result = Decoded(tokenizer, ids);
  result["ids"] = ids;
  result["special_ids"] = tokenizer.Encode(text, /*add_special_tokens=*/true);
  result["offsets"] = encoding.ids == ids ? offsets : json("other ids with offsets");
  return result;
}

int Run(const char* path) {
  const auto tokenizer = LoadTokenizer(path);
  std::string line;
  while (std::getline(std::cin, line)) {
    const json value = json::parse(line);
    const json result = value.is_string() ? Encoded(*tokenizer, value.get<std::string>())
                                          : Decoded(*tokenizer, value.get<std::vector<TokenId>>());
    std::cout << result.dump() << '\n';
  }
  return 0;
}

// Processor time, so that other programs do not count.
double SecondsSince(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

int Time(const char* path, const char* text_path) {
  auto begin = std::clock();
  const auto tokenizer = LoadTokenizer(path);
  fmt::print("load {:.3f} s\n", SecondsSince(begin));
  std::ifstream file(text_path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (int round = 0; round < 3; ++round) {
    begin = std::clock();
    const auto ids = tokenizer->Encode(text, /*add_special_tokens=*/false);
    const double encode = SecondsSince(begin);
    begin = std::clock();
    const auto decoded = tokenizer->Decode(ids, /*skip_special_tokens=*/true);
    const double decode = SecondsSince(begin);
    fmt::print("encode {:.1f} MB/s, {:.2f} M tokens/s; decode {:.2f} M tokens/s; {} tokens, {}\n",
               static_cast<double>(text.size()) / encode / 1e6,
               static_cast<double>(ids.size()) / encode / 1e6,
               static_cast<double>(ids.size()) / decode / 1e6, ids.size(),
               decoded == text ? "same text" : "other text");
  }
  return 0;
}

}  // namespace
}  // namespace twin::text

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    if (argc == 2) return twin::text::Run(argv[1]);
    if (argc == 4 && std::string_view(argv[1]) == "--time") {
      return twin::text::Time(argv[2], argv[3]);
    }
  } catch (const twin::InputError& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
  std::cerr << "usage: encode_strings TOKENIZER_JSON < INPUT, or --time TOKENIZER_JSON TEXT_FILE\n";
  return 2;
}
