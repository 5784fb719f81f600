// shmem/device/calls/reach.hpp: where a symmetric address lies at a PE, and what becomes of errors. Not for direct inclusion.
#pragma once

#include "../../../simt/group.hpp"
#include "module.hpp"

namespace tanada::shmem::device {

// One thread. The first fault of this PE's kernels is kept for the host.
TND_DEVICE_CALL inline void record_fault(status code, site where, const void *addr, int pe) {
  view const &job = here();
  if (job.live == nullptr || simt::device_atomic<u32>(job.live->fault_claimed).exchange_relaxed(1) != 0) return;
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
  if (group.rank() == 0) record_fault(code, where, addr, pe);
  return code;
}

// A group.sync() that tells whether a thread of the group voted so.
TND_DEVICE inline bool sync_any(this_thread, bool vote) { return vote; }
TND_DEVICE inline bool sync_any(this_warp warp, bool vote) {
  warp.sync();
  return simt::ballot(warp.mask(), vote) != 0;
}
TND_DEVICE inline bool sync_any(this_block, bool vote) { return simt::block_any(vote); }

// The number in the job of a context's PE; -1: there is none.
TND_DEVICE inline int world_pe(u64 context, int pe) {
  if (context == context_first) return pe;
  if (context < context_first || context >= context_first + context_count) return -1;
  context_entry const entry = simt::constant(here().contexts[context - context_first]);
  if (u32(pe) >= u32(entry.count)) return -1;
  return entry.world_pes == nullptr ? pe : simt::constant(entry.world_pes[pe]);
}

TND_DEVICE inline u64 distance_to(int pe) {
  return u32(pe) < near_pe_count ? here().distances[pe] : simt::constant(here().far_distances[pe]);
}

struct place {
  u64 distance;  // to be added to the address; or unreached
  int pe;        // in the job

  bool TND_DEVICE is_far() const { return distance == unreached; }
  template <class T>
  TND_DEVICE T *of(T *addr) const {
    return reinterpret_cast<T *>(reinterpret_cast<u64>(addr) + distance);
  }
};

TND_DEVICE inline bool is_symmetric(const void *addr, u64 size) {
  u64 const offset = reinterpret_cast<u64>(addr) - reinterpret_cast<u64>(here().heap), heap_size = here().heap_size;
  return offset <= heap_size && size <= heap_size - offset;
}

// invalid: there is no such PE, or context; range: the bytes are not of the symmetric heap.
TND_DEVICE inline status find(u64 context, const void *addr, u64 size, int pe, place &found) {
  int const number = world_pe(context, pe);
  if (u32(number) >= u32(here().count)) return status::invalid;
  if (!is_symmetric(addr, size)) return status::range;
  found = {distance_to(number), number};
  return status::ok;
}

// As find(), of a word at a multiple of its size; fault: it is not at one.
template <class T>
TND_DEVICE inline status find_word(u64 context, const T *addr, int pe, place &found) {
  if (reinterpret_cast<u64>(addr) % sizeof(T) != 0) return status::fault;
  return find(context, addr, sizeof(T), pe, found);
}

}  // namespace tanada::shmem::device
