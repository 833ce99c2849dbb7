// The post-processors of a tokenizer.json: tokens around a text, and the extent of offsets.
#pragma once

#include <vector>

#include "apps/serve/text/json_part.h"
#include "apps/serve/text/tokenizer.h"

namespace twin::text {

// Immutable and thread-safe.
class PostProcessor {
 public:
  // Adds nothing.
  PostProcessor() = default;
  // Throws InputError (data) for kinds that are not supported.
  explicit PostProcessor(const JsonPart& part) { Read(part); }

  // Tokens before and after a text.
  [[nodiscard]] const std::vector<TokenId>& before() const { return before_; }
  [[nodiscard]] const std::vector<TokenId>& after() const { return after_; }

  // True if offsets leave out the spaces at the begin and at the end of a token.
  [[nodiscard]] bool trims_offsets() const { return trims_offsets_; }
  // True if a space at the begin of the text stays: the pre-tokenizer may have put it there.
  [[nodiscard]] bool keeps_first_space() const { return keeps_first_space_; }

 private:
  void Read(const JsonPart& part);
  void ReadTemplate(const JsonPart& part);

  std::vector<TokenId> before_;
  std::vector<TokenId> after_;
  bool trims_offsets_ = false;
  bool keeps_first_space_ = false;
};

}  // namespace twin::text
