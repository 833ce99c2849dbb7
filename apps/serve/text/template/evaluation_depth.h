// Counts how deep an evaluation is, which bounds its stack.
#pragma once

#include <fmt/format.h>

#include "apps/serve/text/template/evaluator.h"

namespace twin::text::jinja {

class Evaluator::Depth {
 public:
  explicit Depth(Evaluator& evaluator) : evaluator_(evaluator) {
    if (evaluator_.depth_ == kEvaluationDepthMost) {
      Fail(fmt::format("the evaluation nests deeper than {} levels", kEvaluationDepthMost));
    }
    ++evaluator_.depth_;
  }
  ~Depth() { --evaluator_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Evaluator& evaluator_;
};

}  // namespace twin::text::jinja
