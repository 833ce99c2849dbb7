// Detects that a policy preempts the same prefill again and again without any progress.
#pragma once

#include <cstdint>

namespace twin {

// Two denials without a token emitted in between would be followed by a third, and so on for ever.
class StarvationWatch {
 public:
  void TokensEmitted(std::int64_t tokens) { emitted_ += tokens; }

  // Call before a request is preempted in favour of nobody; true if that has already happened since
  // the latest token.
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
