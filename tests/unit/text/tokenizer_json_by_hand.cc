#include "tests/unit/text/tokenizer_json_by_hand.h"

#include "apps/serve/text/byte_alphabet.h"

namespace twin::text {

using nlohmann::json;

json ByteLevelJson() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(SpellingOfByte(static_cast<unsigned char>(byte)))] = byte;
  }
  vocab["ab"] = 256;
  vocab["bc"] = 257;
  vocab["abc"] = 258;
  vocab["Ġab"] = 259;
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  return {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 260}, {"content", "<end>"}, {"special", true}, {"normalized", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "b c", "ab c", "Ġ ab"}}}}};
}

json SentencePieceJson() {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    vocab[FallbackToken(static_cast<unsigned char>(byte))] = 3 + byte;
  }
  vocab["▁"] = 259;
  vocab["a"] = 260;
  vocab["b"] = 261;
  vocab["▁a"] = 262;
  vocab["ab"] = 263;
  json added = json::array();
  for (const auto& [id, content] : {std::pair(0, "<unk>"), {1, "<s>"}, {2, "</s>"}}) {
    added.push_back({{"id", id}, {"content", content}, {"special", true}, {"normalized", false}});
  }
  const json begin = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", json::array({begin, text})},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"▁ a", "a b"}}}}};
}

}  // namespace twin::text
