// tanada/device/detail/simt/group.hpp: a set of threads that call a function together. The calling
// group is a type, so that there is one function for a thread, a warp and a block.
#pragma once

#include "lane.hpp"

namespace tanada {

/// One thread.
struct this_thread {
  TND_DEVICE u32 rank() const {
    return 0;
  }
  TND_DEVICE u32 size() const {
    return 1;
  }
  TND_DEVICE void sync() const {}
  template <class T>
  TND_DEVICE T broadcast(T value) const {
    return value;
  }
  TND_DEVICE simt::word_pair broadcast_pair(simt::word_pair pair) const {
    return pair;
  }
};

namespace simt {

// As this_warp, where the block has no partial warp. For a mask that it does not know, the compiler
// adds instructions to each collective that take longer than the collective.
struct whole_warp {
  TND_DEVICE static bool is_possible() {
    return block_thread_count() % warp_size == 0;
  }
  TND_DEVICE u32 rank() const {
    return lane_register();
  }
  TND_DEVICE u32 size() const {
    return warp_size;
  }
  TND_DEVICE u32 mask() const {
    expect_whole_warp();
    return full_mask;
  }
  TND_DEVICE void sync() const {
    warp_barrier(mask());
  }
  template <class T>
  TND_DEVICE T broadcast(T value) const {
    return shuffle(mask(), value, 0);
  }
  TND_DEVICE word_pair broadcast_pair(word_pair pair) const {
    return {shuffle(mask(), pair.first, 0), shuffle(mask(), pair.second, 0)};
  }
};

}  // namespace simt

/// The 32 lanes of a warp (fewer in a block's last warp). All of them call, in converged control
/// flow.
struct this_warp {
  TND_DEVICE u32 rank() const {
    return simt::lane_index();
  }
  TND_DEVICE u32 size() const {
    u32 const first = simt::thread_rank_in_block() / simt::warp_size * simt::warp_size;
    u32 const rest = simt::block_thread_count() - first;
    return rest < simt::warp_size ? rest : simt::warp_size;
  }
  TND_DEVICE u32 mask() const {
    simt::expect_whole_warp();
    return simt::full_mask >> (simt::warp_size - size());
  }
  TND_DEVICE void sync() const {
    if (simt::whole_warp::is_possible())
      simt::whole_warp{}.sync();
    else
      simt::warp_barrier(mask());
  }
  /// The value of rank 0, in every lane.
  template <class T>
  TND_DEVICE T broadcast(T value) const {
    if (simt::whole_warp::is_possible())
      return simt::whole_warp{}.broadcast(value);
    return simt::shuffle(mask(), value, 0);
  }
  TND_DEVICE simt::word_pair broadcast_pair(simt::word_pair pair) const {
    if (simt::whole_warp::is_possible())
      return simt::whole_warp{}.broadcast_pair(pair);
    u32 const lanes = mask();
    return {simt::shuffle(lanes, pair.first, 0), simt::shuffle(lanes, pair.second, 0)};
  }
};

/// Every thread of a block. All of them call, in converged control flow. broadcast and
/// broadcast_pair use 24 bytes of shared memory.
struct this_block {
  TND_DEVICE u32 rank() const {
    return simt::thread_rank_in_block();
  }
  TND_DEVICE u32 size() const {
    return simt::block_thread_count();
  }
  TND_DEVICE void sync() const {
    simt::block_group_barrier();
  }
  template <class T>
  TND_DEVICE T broadcast(T value) const {
    return simt::from_word<T>(broadcast_word(simt::to_word<u64>(value)));
  }
  TND_DEVICE simt::word_pair broadcast_pair(simt::word_pair pair) const {
    TND_SHARED(simt::word_pair, box);
    if (rank() == 0)
      box = pair;
    sync();
    simt::word_pair const result = box;
    sync();
    return result;
  }

 private:
  TND_DEVICE u64 broadcast_word(u64 word) const {
    TND_SHARED(u64, box);
    if (rank() == 0)
      box = word;
    sync();
    u64 const result = box;
    sync();
    return result;
  }
};

}  // namespace tanada
