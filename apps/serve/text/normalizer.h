// The normalizers of a tokenizer.json: NFC, Prepend, Replace, and sequences of them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "apps/serve/text/aligned_text.h"
#include "apps/serve/text/json_part.h"

namespace twin::text {

// Immutable and thread-safe.
class Normalizer {
 public:
  // Changes nothing.
  Normalizer() = default;
  // Throws InputError (data) for kinds and settings that are not supported.
  explicit Normalizer(const JsonPart& part) { Read(part); }

  [[nodiscard]] AlignedText Apply(AlignedText text) const;
  [[nodiscard]] bool empty() const { return steps_.empty(); }

 private:
  // Canonical composition with the tables of Unicode 9, as in Hugging Face tokenizers.
  struct Nfc {};
  struct Prepend {
    std::string text;
  };
  struct Replace {
    std::string pattern;  // matched literally
    std::string content;
  };
  using Step = std::variant<Nfc, Prepend, Replace>;

  void Read(const JsonPart& part);
  static AlignedText Applied(const Nfc& step, AlignedText text);
  static AlignedText Applied(const Prepend& step, AlignedText text);
  static AlignedText Applied(const Replace& step, AlignedText text);

  std::vector<Step> steps_;
};

}  // namespace twin::text
