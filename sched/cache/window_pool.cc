#include "sched/cache/window_pool.h"

#include "core/check.h"

namespace twin {

WindowPool::WindowPool(std::int32_t pages, std::int32_t blocks)
    : usable_(pages), page_of_(static_cast<std::size_t>(blocks), kNone) {
  CHECK(pages >= 0);
  free_.reserve(static_cast<std::size_t>(pages));
  for (std::int32_t page = pages; page-- > 0;) free_.push_back(page);
}

void WindowPool::Give(BlockId block) {
  CHECK(!Has(block) && !free_.empty());
  page_of_[Index(block)] = free_.back();
  free_.pop_back();
}

void WindowPool::Take(BlockId block) {
  CHECK(Has(block));
  free_.push_back(page_of_[Index(block)]);
  page_of_[Index(block)] = kNone;
}

void WindowPool::Move(BlockId from, BlockId to) {
  CHECK(Has(from) && !Has(to));
  page_of_[Index(to)] = page_of_[Index(from)];
  page_of_[Index(from)] = kNone;
}

bool WindowPool::Audit() const {
  std::vector<bool> seen(static_cast<std::size_t>(usable_));
  std::size_t count = 0;
  const auto is_new = [&](std::int32_t page) {
    if (page < 0 || page >= usable_ || seen[static_cast<std::size_t>(page)]) return false;
    seen[static_cast<std::size_t>(page)] = true;
    ++count;
    return true;
  };
  for (const std::int32_t page : free_) {
    if (!is_new(page)) return false;
  }
  for (const std::int32_t page : page_of_) {
    if (page != kNone && !is_new(page)) return false;
  }
  return count == seen.size();
}

}  // namespace twin
