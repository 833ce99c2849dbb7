// A map from rising ids to values, for owners that know whether they get all ids or few of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "core/id_map.h"
#include "core/id_window.h"
#include "core/ids.h"

namespace twin {

// Share of all ids that a table gets.
enum class IdShare : std::uint8_t {
  kAll,  // nearly every id: an IdWindow, without hashing
  kFew,  // one in many: an IdMap, whose values lie close together
};

// An IdWindow or an IdMap, whose comments on their functions hold here.
template <class T>
class IdTable {
 public:
  explicit IdTable(IdShare share) {
    if (share == IdShare::kFew) table_.template emplace<IdMap<T>>();
  }

  T& Open(RequestId id) { return window() ? window()->Open(id) : map()->Open(id); }
  void Close(RequestId id) { window() ? window()->Close(id) : map()->Close(id); }
  [[nodiscard]] bool contains(RequestId id) const {
    return window() ? window()->contains(id) : map()->contains(id);
  }
  [[nodiscard]] T* Find(RequestId id) { return window() ? window()->Find(id) : map()->Find(id); }
  T& operator[](RequestId id) { return window() ? (*window())[id] : (*map())[id]; }

  [[nodiscard]] std::size_t size() const { return window() ? window()->size() : map()->size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }

  template <class Visit>
  void ForEach(Visit visit) const {
    window() ? window()->ForEach(visit) : map()->ForEach(visit);
  }

 private:
  [[nodiscard]] IdWindow<T>* window() { return std::get_if<IdWindow<T>>(&table_); }
  [[nodiscard]] const IdWindow<T>* window() const { return std::get_if<IdWindow<T>>(&table_); }
  [[nodiscard]] IdMap<T>* map() { return std::get_if<IdMap<T>>(&table_); }
  [[nodiscard]] const IdMap<T>* map() const { return std::get_if<IdMap<T>>(&table_); }

  std::variant<IdWindow<T>, IdMap<T>> table_;
};

}  // namespace twin
