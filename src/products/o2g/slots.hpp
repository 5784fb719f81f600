// products/o2g/slots.hpp: numbers that a peer hands back, for things that wait for its answer. An
// old or made-up number finds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace tanada::o2g {

template <class T>
class slots {
 public:
  explicit slots(uint32_t first_generation = 1) : first_generation_{first_generation} {}

  // 0: no memory.
  uint64_t add(T *what) noexcept {
    if (free_.empty() && !grow())
      return 0;
    uint32_t const index = free_.back();
    free_.pop_back();
    entries_[index].what = what;
    return uint64_t{entries_[index].generation} << 32 | index;
  }

  // Null: there is none.
  T *find(uint64_t number) const noexcept {
    uint32_t const index = uint32_t(number);
    if (index >= entries_.size() || entries_[index].generation != uint32_t(number >> 32))
      return nullptr;
    return entries_[index].what;
  }

  T *take(uint64_t number) noexcept {
    T *const found = find(number);
    if (found != nullptr)
      release(uint32_t(number));
    return found;
  }

  // Takes out all for which `is` holds, and hands each to `with`, which may add others.
  template <class Predicate, class Function>
  void take_if(Predicate is, Function with) {
    size_t const count = entries_.size();
    for (size_t index = 0; index < count; index++) {
      T *const what = entries_[index].what;
      if (what == nullptr || !is(*what))
        continue;
      release(uint32_t(index));
      with(what);
    }
  }

 private:
  struct entry {
    T *what = nullptr;
    uint32_t generation = 1;
  };
  // All free ones have room at any time, so that a release needs none.
  bool grow() noexcept try {
    free_.reserve(entries_.size() + 1 > free_.capacity() ? 2 * entries_.size() + 16 : 0);
    entries_.push_back({nullptr, first_generation_});
    free_.push_back(uint32_t(entries_.size() - 1));
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
  void release(uint32_t index) noexcept {
    entries_[index].what = nullptr;
    if (++entries_[index].generation == 0)
      entries_[index].generation = 1;  // 0 is no number
    free_.push_back(index);
  }
  uint32_t const first_generation_;
  std::vector<entry> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace tanada::o2g
