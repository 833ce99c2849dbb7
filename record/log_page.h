// What a ReplicaLog has taken down of a window of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/time.h"
#include "record/run_listener.h"

namespace twin {

// Instants in the order in which they were taken down: those of one replica after those of another.
struct LogPage {
  // What a listener was told. Of the life: in `lives`, of a request that arrived or ended.
  struct Call {
    enum class Kind : std::uint8_t { kArrived, kGaps, kEnded };
    Kind kind{};
    std::uint32_t life = 0;
    Duration gap{0};
    std::int64_t count = 0;
  };
  struct Entry {
    std::uint32_t first_word = 0;
    std::uint32_t words = 0;
    std::uint32_t first_call = 0;
    std::uint32_t event_calls = 0;
    std::uint32_t plan_calls = 0;
    std::uint32_t plans = 0;
    Load change = {};
  };
  // Sorts entries. Those of one replica at one time follow each other in rounds: a step without
  // duration is delivered at the time of its launch, behind the results and plans of all replicas.
  struct Place {
    TimePoint time;
    std::uint32_t rank = 0;  // 2 * round + 1 for arrivals, which come behind results
    std::uint32_t entry = 0;
    [[nodiscard]] std::uint32_t round() const { return rank / 2; }
    // Places of one time and round are in the order of their replicas, or of their arrivals.
    [[nodiscard]] static bool Earlier(const Place& a, const Place& b) {
      return a.time != b.time ? a.time < b.time : a.rank < b.rank;
    }
  };

  std::vector<Place> places;  // of the entries
  std::vector<Entry> entries;
  std::vector<std::uint64_t> words;  // encodings of plans, of which words_used are used
  std::size_t words_used = 0;
  std::vector<Call> calls;
  std::vector<RequestLife> lives;

  // Empties the page but keeps its memory.
  void Clear() {
    places.clear();
    entries.clear();
    words_used = 0;
    calls.clear();
    lives.clear();
  }
};

}  // namespace twin
