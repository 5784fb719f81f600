// tanada/device/detail/simt/any_group.hpp: a group whose kind is a value. Long code that takes it
// exists once in a kernel, instead of once for each kind of group.
#pragma once

#include "group.hpp"

namespace tanada::simt {

// As a number: the bits of a thread's number in its block that are its rank in the group.
enum class group_kind : u32 { thread = 0, warp = warp_size - 1, block = ~0u };

TND_DEVICE inline group_kind kind_of(this_thread) {
  return group_kind::thread;
}
TND_DEVICE inline group_kind kind_of(this_warp) {
  return group_kind::warp;
}
TND_DEVICE inline group_kind kind_of(this_block) {
  return group_kind::block;
}

class any_group {
 public:
  TND_DEVICE explicit any_group(group_kind kind) : kind_{kind} {
    u32 const mask = u32(kind), thread = thread_rank_in_block();
    u32 const rest = block_thread_count() - (thread & ~mask);
    rank_ = thread & mask;
    size_ = rest <= mask ? rest : mask + 1;
  }

  TND_DEVICE group_kind kind() const {
    return kind_;
  }
  TND_DEVICE u32 rank() const {
    return rank_;
  }
  TND_DEVICE u32 size() const {
    return size_;
  }
  TND_DEVICE void sync() const {
    wait(kind_);
  }
  template <class T>
  TND_DEVICE T broadcast(T value) const {
    return from_word<T>(broadcast_word(kind_, to_word<u64>(value)));
  }

 private:
  TND_DEVICE_CALL static void wait(group_kind kind) {
    if (kind == group_kind::block)
      this_block{}.sync();
    else if (kind == group_kind::warp)
      this_warp{}.sync();
  }
  TND_DEVICE_CALL static u64 broadcast_word(group_kind kind, u64 word) {
    if (kind == group_kind::block)
      return this_block{}.broadcast(word);
    return kind == group_kind::warp ? this_warp{}.broadcast(word) : word;
  }

  group_kind kind_;
  u32 rank_, size_;
};

}  // namespace tanada::simt
