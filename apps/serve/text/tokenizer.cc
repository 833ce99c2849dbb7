#include "apps/serve/text/tokenizer.h"

#include <array>
#include <fstream>

#include "apps/serve/text/hf_tokenizer.h"
#include "apps/serve/text/tokenizer_json.h"
#include "core/files/input_file.h"
#include "core/input_error.h"

namespace twin::text {

namespace {

std::string Detokenized(Detokenizer& detokenizer, std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  text += detokenizer.Finish();
  return text;
}

std::string ReadTokenizerFile(const std::filesystem::path& path) {
  RequireRegularFileIfThere(path);
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> part;
  // A file that is too long is not read to its end; the parser refuses it.
  while (file && text.size() <= kTokenizerJsonBytesMax) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() && !file) {
    throw InputError(InputError::Kind::kData, path.string(), "cannot be read");
  }
  return text;
}

}  // namespace

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  return Detokenized(
      *NewDetokenizer({.skip_special_tokens = skip_special_tokens, .after_prompt = false}), ids);
}

std::string Tokenizer::TokenText(TokenId id) const {
  return Detokenized(*NewDetokenizer({.skip_special_tokens = false, .after_prompt = true}),
                     {&id, 1});
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::filesystem::path& path) {
  const std::filesystem::path file =
      std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  return ParseTokenizer(ReadTokenizerFile(file), file.string());
}

std::unique_ptr<Tokenizer> ParseTokenizer(std::string_view json, const std::string& where) {
  return std::make_unique<HfTokenizer>(ReadTokenizerJson(json, where), where);
}

}  // namespace twin::text
