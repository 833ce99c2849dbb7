#include "apps/serve/text/merge_symbols.h"

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

namespace twin::text {

namespace {

// The merges of all neighbours are kept beside the symbols; each merge renews the two beside it.
void MergeByScanning(const PairTable& merges, std::size_t first, std::vector<WordToken>& symbols) {
  WordToken* const word = symbols.data() + first;
  std::size_t size = symbols.size() - first;
  std::array<PairTable::Merge, kScannedSymbols> pairs;
  for (std::size_t k = 0; k + 1 < size; ++k) pairs[k] = merges.Find(word[k].id, word[k + 1].id);
  while (size > 1) {
    const auto* end = pairs.begin() + size - 1;
    const auto* best = std::min_element(
        pairs.cbegin(), end, [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == PairTable::kNoMerge) break;
    const auto at = static_cast<std::size_t>(best - pairs.cbegin());
    word[at] = {best->merged, word[at].bytes + word[at + 1].bytes};
    std::copy(word + at + 2, word + size, word + at + 1);
    --size;
    // pairs[at] is the merge that was made; the pair behind it moves to its place.
    if (at + 1 < size) {
      std::copy(pairs.begin() + at + 2, pairs.begin() + size, pairs.begin() + at + 1);
      pairs[at] = merges.Find(word[at].id, word[at + 1].id);
    }
    if (at > 0) pairs[at - 1] = merges.Find(word[at - 1].id, word[at].id);
  }
  symbols.resize(first + size);
}

// A merge that was possible when it was queued. Symbols that have changed since make it stale.
struct QueuedMerge {
  std::uint32_t rank;
  std::uint32_t left;  // index of its left symbol
  TokenId merged;

  bool operator>(const QueuedMerge& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

struct LinkedSymbol {
  WordToken token;
  std::uint32_t previous;
  std::uint32_t next;
};

constexpr std::uint32_t kNoSymbol = UINT32_MAX;

class QueuedMerging {
 public:
  QueuedMerging(const PairTable& merges, const WordToken* word, std::size_t size)
      : merges_(merges) {
    symbols_.reserve(size);
    for (std::uint32_t k = 0; k < size; ++k) {
      symbols_.push_back({word[k], k == 0 ? kNoSymbol : k - 1, k + 1 < size ? k + 1 : kNoSymbol});
    }
    for (std::uint32_t k = 0; k + 1 < size; ++k) Queue(k);
  }

  // Writes the tokens to `word` and returns their number.
  std::size_t Run(WordToken* word) {
    while (!queue_.empty()) {
      const QueuedMerge top = queue_.top();
      queue_.pop();
      if (!IsStale(top)) Apply(top);
    }
    std::size_t size = 0;
    for (std::uint32_t k = 0; k != kNoSymbol; k = symbols_[k].next)
      word[size++] = symbols_[k].token;
    return size;
  }

 private:
  void Queue(std::uint32_t left) {
    const LinkedSymbol& symbol = symbols_[left];
    const auto merge = merges_.Find(symbol.token.id, symbols_[symbol.next].token.id);
    if (merge.rank != PairTable::kNoMerge) queue_.push({merge.rank, left, merge.merged});
  }

  [[nodiscard]] bool IsStale(const QueuedMerge& queued) const {
    const LinkedSymbol& left = symbols_[queued.left];
    if (left.token.id < 0 || left.next == kNoSymbol) return true;
    return merges_.Find(left.token.id, symbols_[left.next].token.id).merged != queued.merged;
  }

  void Apply(const QueuedMerge& merge) {
    LinkedSymbol& left = symbols_[merge.left];
    LinkedSymbol& right = symbols_[left.next];
    left.token = {merge.merged, left.token.bytes + right.token.bytes};
    right.token.id = -1;
    left.next = right.next;
    if (left.next != kNoSymbol) {
      symbols_[left.next].previous = merge.left;
      Queue(merge.left);
    }
    if (left.previous != kNoSymbol) Queue(left.previous);
  }

  const PairTable& merges_;
  std::vector<LinkedSymbol> symbols_;
  std::priority_queue<QueuedMerge, std::vector<QueuedMerge>, std::greater<>> queue_;
};

}  // namespace

void MergeSymbols(const PairTable& merges, std::size_t first, std::vector<WordToken>& symbols) {
  const std::size_t size = symbols.size() - first;
  if (size < 2) return;
  if (size <= kScannedSymbols) {
    MergeByScanning(merges, first, symbols);
    return;
  }
  WordToken* const word = symbols.data() + first;
  symbols.resize(first + QueuedMerging(merges, word, size).Run(word));
}

}  // namespace twin::text
