// The pages of a second pool, for layers whose queries see a window of the latest tokens only.
//
// A server can keep the keys and values of such layers apart from those of the layers that see all
// tokens: then it forgets them behind the window, and keeps the others. Each block of the KvPool is
// taken with a page of this pool, and the page can be given back before the block is.
//
// Source: SGLang 0.5.23 (its two pools of token slots), decisions observed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// Pages are as large as blocks, and belong to a block or lie free.
// Deterministic: equal calls give equal pages. Nothing is allocated after construction.
class WindowPool {
 public:
  // `pages` of this pool beside `blocks` blocks.
  WindowPool(std::int32_t pages, std::int32_t blocks);

  [[nodiscard]] std::int32_t usable() const { return usable_; }
  [[nodiscard]] std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }

  // Whether the block has a page.
  [[nodiscard]] bool Has(BlockId block) const { return page_of_[Index(block)] != kNone; }
  // Gives the block a page. REQUIRES: it has none; one is free.
  void Give(BlockId block);
  // Frees the block's page. REQUIRES: it has one.
  void Take(BlockId block);
  // The page goes from one block to another. REQUIRES: only the first has one.
  void Move(BlockId from, BlockId to);

  // Recounts; false unless each page is free or has one block. Cost: all pages and blocks.
  [[nodiscard]] bool Audit() const;

 private:
  static constexpr std::int32_t kNone = -1;

  std::int32_t usable_;
  std::vector<std::int32_t> page_of_;  // by block
  std::vector<std::int32_t> free_;     // a stack; the lowest page is taken first at the start
};

}  // namespace twin
