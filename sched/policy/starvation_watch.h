// Notices a policy that takes a prefill's memory away again and again, and nobody gets on.
#pragma once

#include <cstdint>

namespace twin {

// Two denials without a token emitted in between: the third would follow, and so on for ever.
class StarvationWatch {
 public:
  void TokensEmitted(std::int64_t tokens) { emitted_ += tokens; }

  // A request is about to be denied what it holds; true if that has happened since the latest
  // token.
  [[nodiscard]] bool DeniesAgain() {
    if (emitted_at_denial_ == emitted_) return true;
    emitted_at_denial_ = emitted_;
    return false;
  }

 private:
  std::int64_t emitted_ = 0;
  std::int64_t emitted_at_denial_ = -1;
};

}  // namespace twin
