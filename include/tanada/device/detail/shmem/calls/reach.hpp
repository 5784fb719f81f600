// tanada/device/detail/shmem/calls/reach.hpp: where a symmetric address lies at a PE, and what
// becomes of errors. Not for direct inclusion.
#pragma once

#include "../../simt/group.hpp"
#include "module.hpp"

namespace tanada::shmem::device {

// One thread. The first fault of this PE's kernels is kept for the host.
TND_DEVICE_CALL inline void record_fault(status code, site where, const void *addr, int pe) {
  view const &job = here();
  if (job.live == nullptr ||
      simt::device_atomic<u32>(job.live->fault_claimed).exchange_relaxed(1) != 0)
    return;
  fault_record &record = *job.fault;
  simt::system_atomic<int>(record.code).store_relaxed(int(code));
  simt::system_atomic<u32>(record.where).store_relaxed(u32(where));
  simt::system_atomic<u32>(record.thread).store_relaxed(simt::thread_rank_in_block());
  simt::system_atomic<u64>(record.block).store_relaxed(simt::block_rank());
  simt::system_atomic<u64>(record.words[0]).store_relaxed(reinterpret_cast<u64>(addr));
  simt::system_atomic<u64>(record.words[1]).store_relaxed(u64(pe));
  simt::system_atomic<u32>(record.filled).store_release(1);
}

template <class Group>
TND_DEVICE inline status failed(Group group, status code, site where, const void *addr, int pe) {
  if (group.rank() == 0)
    record_fault(code, where, addr, pe);
  return code;
}

// A group.sync() that tells whether a thread of the group voted so.
TND_DEVICE inline bool sync_any(this_thread, bool vote) {
  return vote;
}
TND_DEVICE inline bool sync_any(this_warp warp, bool vote) {
  warp.sync();
  return simt::ballot(warp.mask(), vote) != 0;
}
TND_DEVICE inline bool sync_any(this_block, bool vote) {
  return simt::block_any(vote);
}

// The number in the job of a context's PE; -1: there is none.
TND_DEVICE inline int world_pe(u64 context, int pe) {
  if (context == context_first)
    return pe;
  if (context < context_first || context >= context_first + context_count)
    return -1;
  context_entry const entry = simt::constant(here().contexts[context - context_first]);
  if (u32(pe) >= u32(entry.count))
    return -1;
  return entry.world_pes == nullptr ? pe : simt::constant(entry.world_pes[pe]);
}

TND_DEVICE inline u64 distance_to(int pe) {
  return u32(pe) < near_pe_count ? here().distances[pe] : simt::constant(here().far_distances[pe]);
}

struct place {
  u64 distance;  // to be added to the address; or unreached
  int pe;        // in the job

  bool TND_DEVICE is_far() const {
    return distance == unreached;
  }
  template <class T>
  TND_DEVICE T *of(T *addr) const {
    return reinterpret_cast<T *>(reinterpret_cast<u64>(addr) + distance);
  }
};

TND_DEVICE inline bool is_symmetric(const void *addr, u64 size) {
  u64 const offset = reinterpret_cast<u64>(addr) - reinterpret_cast<u64>(here().heap),
            heap_size = here().heap_size;
  return (offset <= heap_size) & (size <= heap_size - offset);
}

// What most calls take: the PE's distance is part of the view, and its memory is reached. One
// branch, and nothing before it waits for anything but the distance: what is in the way of a single
// store or atomic costs as much as a tenth of its time.
TND_DEVICE inline bool is_near(int number, u64 &distance) {
  distance = here().distances[u32(number) % near_pe_count];
  return (u32(number) < near_pe_count) & (distance != unreached);
}

struct found_place {
  status code;
  place at;
};

TND_DEVICE_CALL inline found_place find_elsewhere(int number, const void *addr, u64 size) {
  if (u32(number) >= u32(here().count))
    return {status::invalid, {}};
  if (!is_symmetric(addr, size))
    return {status::range, {}};
  return {status::ok, {distance_to(number), number}};
}

// invalid: there is no such PE, or context; range: the bytes are not of the symmetric heap.
TND_DEVICE inline status find(u64 context, const void *addr, u64 size, int pe, place &found) {
  int const number = world_pe(context, pe);
  u64 distance;
  if (__builtin_expect(int(is_near(number, distance)) & int(is_symmetric(addr, size)), 1)) {
    found = {distance, number};
    return status::ok;
  }
  found_place const slowly = find_elsewhere(number, addr, size);
  found = slowly.at;
  return slowly.code;
}

// A word at a multiple of its size. Where not: find_word() says why.
template <class T>
TND_DEVICE inline bool find_near_word(u64 context, const T *addr, int pe, u64 &distance) {
  u64 const offset = reinterpret_cast<u64>(addr) - reinterpret_cast<u64>(here().heap);
  bool const is_ours = (offset < here().heap_size) & (reinterpret_cast<u64>(addr) % sizeof(T) ==
                                                      0);  // the heap is of whole words
  return (int(is_near(world_pe(context, pe), distance)) & int(is_ours)) != 0;
}

// As find(), of a word at a multiple of its size; fault: it is not at one.
template <class T>
TND_DEVICE inline status find_word(u64 context, const T *addr, int pe, place &found) {
  if (reinterpret_cast<u64>(addr) % sizeof(T) != 0)
    return status::fault;
  return find(context, addr, sizeof(T), pe, found);
}

template <class T>
TND_DEVICE inline T *at_distance(T *addr, u64 distance) {
  return reinterpret_cast<T *>(reinterpret_cast<u64>(addr) + distance);
}

}  // namespace tanada::shmem::device
