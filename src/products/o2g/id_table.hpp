// products/o2g/id_table.hpp: IDs for objects that wait for a peer's reply. The peer returns the ID
// in its reply; the lookup of a stale or invented ID fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::o2g {

template <class T>
class id_table {
 public:
  explicit id_table(uint32_t first_generation = 1) : first_generation_{first_generation} {}

  // Adds an object and returns its ID; 0: no memory.
  uint64_t add(T *object) noexcept {
    if (free_.empty() && !grow())
      return 0;
    uint32_t const index = free_.back();
    TND_ASSERT(object != nullptr && entries_[index].object == nullptr);
    TND_ASSERT(entries_[index].generation != 0);
    free_.pop_back();
    entries_[index].object = object;
    return uint64_t{entries_[index].generation} << 32 | index;
  }

  // Returns the object with this ID; null if there is no such object.
  T *find(uint64_t id) const noexcept {
    uint32_t const index = uint32_t(id);
    if (index >= entries_.size() || entries_[index].generation != uint32_t(id >> 32))
      return nullptr;
    return entries_[index].object;
  }

  T *remove(uint64_t id) noexcept {
    T *const object = find(id);
    if (object != nullptr)
      release(uint32_t(id));
    return object;
  }

  // Removes every object that satisfies `predicate`, and passes it to `function`, which may add
  // others.
  template <class Predicate, class Function>
  void remove_if(Predicate predicate, Function function) {
    size_t const count = entries_.size();
    for (size_t index = 0; index < count; index++) {
      T *const object = entries_[index].object;
      if (object == nullptr || !predicate(*object))
        continue;
      release(uint32_t(index));
      function(object);
    }
  }

 private:
  struct entry {
    T *object = nullptr;
    uint32_t generation = 1;
  };
  // Reserves memory for all entries in free_, so that release() allocates nothing.
  bool grow() noexcept try {
    free_.reserve(entries_.size() + 1 > free_.capacity() ? 2 * entries_.size() + 16 : 0);
    entries_.push_back({nullptr, first_generation_});
    free_.push_back(uint32_t(entries_.size() - 1));
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
  void release(uint32_t index) noexcept {
    TND_ASSERT(entries_[index].object != nullptr && free_.size() < free_.capacity());
    entries_[index].object = nullptr;
    if (++entries_[index].generation == 0)
      entries_[index].generation = 1;  // so that no ID is 0
    free_.push_back(index);
  }
  uint32_t const first_generation_;
  std::vector<entry> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace tanada::o2g
