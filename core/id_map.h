// A map from rising ids to values, for maps that get only some of the ids.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/ids.h"

namespace twin {

// Maps live RequestIds to values like IdWindow, but takes memory in proportion to the largest
// number of live ids, however far apart they are: an engine that is one of a thousand replicas
// sees one id in a thousand.
//
// Ids are opened in rising order (gaps allowed), unless the caller says otherwise, and closed in
// any order. Values lie in a dense array and keep their place while they live. An open-addressed
// table with linear probing, at most half full, finds the place from the id; Fibonacci hashing
// (Knuth, TAOCP 3, 6.4) spreads ids at equal distances evenly.
//
// References stay valid until an id is opened while OpeningMoves().
// Open() may return the value of a closed id, so the caller must assign every field. Closed values
// are kept until then so that the containers inside keep their capacity.
template <class T>
class IdMap {
 public:
  IdMap() { Rehash(kInitialBits); }

  // REQUIRES: id is larger than every id opened before.
  T& Open(RequestId id) {
    CHECK(Index(id) >= end_);
    end_ = std::uint64_t{Index(id)} + 1;
    return OpenInAnyOrder(id);
  }

  // REQUIRES: !contains(id).
  T& OpenInAnyOrder(RequestId id) {
    if (2 * (live_ + 1) > entries_.size()) Rehash(bits_ + 1);
    ++live_;
    std::uint32_t place = 0;
    if (free_.empty()) {
      place = static_cast<std::uint32_t>(values_.size());
      values_.emplace_back();
    } else {
      place = free_.back();
      free_.pop_back();
    }
    Insert({Index(id), place});
    return values_[place];
  }

  // REQUIRES: contains(id).
  void Close(RequestId id) {
    std::size_t hole = Position(Index(id));
    CHECK(entries_[hole].place != kNone);
    free_.push_back(entries_[hole].place);
    --live_;
    // Entries after the hole move up, unless that would put them before their home.
    for (std::size_t i = Next(hole); entries_[i].place != kNone; i = Next(i)) {
      if (((i - Home(entries_[i].id)) & mask_) < ((i - hole) & mask_)) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole].place = kNone;
  }

  [[nodiscard]] bool contains(RequestId id) const {
    return entries_[Position(Index(id))].place != kNone;
  }

  // nullptr if the id is not alive.
  [[nodiscard]] T* Find(RequestId id) {
    const std::uint32_t place = entries_[Position(Index(id))].place;
    return place == kNone ? nullptr : &values_[place];
  }

  // REQUIRES: contains(id).
  T& operator[](RequestId id) {
    const std::uint32_t place = entries_[Position(Index(id))].place;
    CHECK(place != kNone);
    return values_[place];
  }
  const T& operator[](RequestId id) const {
    const std::uint32_t place = entries_[Position(Index(id))].place;
    CHECK(place != kNone);
    return values_[place];
  }

  // Whether opening an id moves the values, which makes references to them invalid.
  [[nodiscard]] bool OpeningMoves() const {
    return free_.empty() && values_.size() == values_.capacity();
  }

  [[nodiscard]] std::size_t size() const { return live_; }
  [[nodiscard]] bool empty() const { return live_ == 0; }

  // Calls visit(id, value) for every live entry in rising order of id. Allocates and sorts.
  template <class Visit>
  void ForEach(Visit visit) const {
    std::vector<Entry> live;
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(live),
                 [](const Entry& entry) { return entry.place != kNone; });
    std::sort(live.begin(), live.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
    for (const Entry& entry : live) visit(RequestId{entry.id}, values_[entry.place]);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr int kInitialBits = 5;
  struct Entry {
    std::uint32_t id = 0;
    std::uint32_t place = kNone;  // in values_; kNone: the entry is free
  };

  [[nodiscard]] std::size_t Home(std::uint32_t id) const {
    return static_cast<std::uint32_t>(id * 0x9E3779B9u) >> (32 - bits_);
  }
  [[nodiscard]] std::size_t Next(std::size_t i) const { return (i + 1) & mask_; }

  // Position of the id's entry, or of the free entry at which the search for the id ends.
  [[nodiscard]] std::size_t Position(std::uint32_t id) const {
    std::size_t i = Home(id);
    while (entries_[i].place != kNone && entries_[i].id != id) i = Next(i);
    return i;
  }

  void Insert(Entry entry) { entries_[Position(entry.id)] = entry; }

  void Rehash(int bits) {
    std::vector<Entry> old(std::size_t{1} << bits);
    old.swap(entries_);
    bits_ = bits;
    mask_ = entries_.size() - 1;
    for (const Entry& entry : old) {
      if (entry.place != kNone) Insert(entry);
    }
  }

  std::vector<Entry> entries_;
  std::vector<T> values_;
  std::vector<std::uint32_t> free_;  // places in values_
  int bits_ = 0;
  std::size_t mask_ = 0;
  std::uint64_t end_ = 0;  // one past the largest id ever opened
  std::size_t live_ = 0;
};

}  // namespace twin
