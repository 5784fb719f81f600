// tanada/device/detail/shmem/calls/address.hpp: the address of symmetric memory at another PE, and
// fault reporting. Not for direct inclusion.
#pragma once

#include "../../simt/group.hpp"
#include "job_view.hpp"

namespace tanada::shmem::device {

// One thread. Keep the first fault of this PE's kernels for the host.
TND_DEVICE_CALL inline void record_fault(status code, site call_site, const void *addr, int pe) {
  view const &job = job_view();
  if (job.live == nullptr ||
      simt::device_atomic<u32>(job.live->fault_claimed).exchange_relaxed(1) != 0)
    return;
  fault_record &record = *job.fault;
  simt::system_atomic<int>(record.code).store_relaxed(int(code));
  simt::system_atomic<u32>(record.call_site).store_relaxed(u32(call_site));
  simt::system_atomic<u32>(record.thread).store_relaxed(simt::thread_rank_in_block());
  simt::system_atomic<u64>(record.block).store_relaxed(simt::block_rank());
  simt::system_atomic<u64>(record.words[0]).store_relaxed(reinterpret_cast<u64>(addr));
  simt::system_atomic<u64>(record.words[1]).store_relaxed(u64(pe));
  simt::system_atomic<u32>(record.filled).store_release(1);
}

template <class Group>
TND_DEVICE inline status failed(
    Group group, status code, site call_site, const void *addr, int pe) {
  if (group.rank() == 0)
    record_fault(code, call_site, addr, pe);
  return code;
}

// A group.sync() that returns whether any thread of the group voted true.
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

// The number in the job of a context's PE, or -1 if there is no such PE.
TND_DEVICE inline int world_pe(u64 context, int pe) {
  if (context == context_first)
    return pe;
  if (context < context_first || context >= context_first + context_count)
    return -1;
  context_entry const entry = simt::constant(job_view().contexts[context - context_first]);
  if (u32(pe) >= u32(entry.count))
    return -1;
  return entry.world_pes == nullptr ? pe : simt::constant(entry.world_pes[pe]);
}

TND_DEVICE inline u64 distance_to(int pe) {
  return u32(pe) < view_pe_count ? job_view().distances[pe]
                                 : simt::constant(job_view().all_distances[pe]);
}

struct pe_address {
  u64 distance;  // to be added to the address; or `unreached`
  int pe;        // in the job

  bool TND_DEVICE is_unmapped() const {
    return distance == unreached;
  }
  template <class T>
  TND_DEVICE T *translate(T *addr) const {
    return reinterpret_cast<T *>(reinterpret_cast<u64>(addr) + distance);
  }
};

TND_DEVICE inline bool is_symmetric(const void *addr, u64 size) {
  u64 const offset = reinterpret_cast<u64>(addr) - reinterpret_cast<u64>(job_view().heap),
            heap_size = job_view().heap_size;
  return (offset <= heap_size) & (size <= heap_size - offset);
}

// As is_symmetric(). No bytes are symmetric wherever they are: a part may be empty.
TND_DEVICE inline bool is_symmetric_part(const void *addr, u64 size) {
  return size == 0 || is_symmetric(addr, size);
}

// Whether a call may access these bytes at a PE.
TND_DEVICE inline bool is_accessible(const void *addr, u64 size, int number) {
  return is_symmetric_part(addr, size) ||
         (number == job_view().me && job_view().takes_private != 0);
}

// The fast path of most calls: the PE's distance is part of the view, and its memory is mapped.
// There is one branch, and nothing before it waits, except for the distance. Each further
// instruction before a single store or atomic would cost up to a tenth of its time.
TND_DEVICE inline bool is_mapped(int number, u64 &distance) {
  distance = job_view().distances[u32(number) % view_pe_count];
  return (u32(number) < view_pe_count) & (distance != unreached);
}

struct find_result {
  status code;
  pe_address address;
};

TND_DEVICE_CALL inline find_result find_slow(int number, const void *addr, u64 size) {
  if (u32(number) >= u32(job_view().count))
    return {status::invalid, {}};
  if (!is_accessible(addr, size, number))
    return {status::range, {}};
  return {status::ok, {distance_to(number), number}};
}

// invalid: no such PE or context. range: the bytes are not in the symmetric heap.
TND_DEVICE inline status find(u64 context, const void *addr, u64 size, int pe, pe_address &result) {
  int const number = world_pe(context, pe);
  u64 distance;
  if (__builtin_expect(int(is_mapped(number, distance)) & int(is_symmetric(addr, size)), 1)) {
    result = {distance, number};
    return status::ok;
  }
  find_result const slow_result = find_slow(number, addr, size);
  result = slow_result.address;
  return slow_result.code;
}

// Find a word that is aligned to its size. If this returns false, find_word() returns the reason.
template <class T>
TND_DEVICE inline bool find_mapped_word(u64 context, const T *addr, int pe, u64 &distance) {
  u64 const offset = reinterpret_cast<u64>(addr) - reinterpret_cast<u64>(job_view().heap);
  bool const is_ours = (offset < job_view().heap_size) & (reinterpret_cast<u64>(addr) % sizeof(T) ==
                                                          0);  // the heap consists of whole words
  return (int(is_mapped(world_pe(context, pe), distance)) & int(is_ours)) != 0;
}

// As find(), for a word aligned to its size. fault: it is not aligned.
template <class T>
TND_DEVICE inline status find_word(u64 context, const T *addr, int pe, pe_address &result) {
  if (reinterpret_cast<u64>(addr) % sizeof(T) != 0)
    return status::fault;
  return find(context, addr, sizeof(T), pe, result);
}

template <class T>
TND_DEVICE inline T *at_distance(T *addr, u64 distance) {
  return reinterpret_cast<T *>(reinterpret_cast<u64>(addr) + distance);
}

}  // namespace tanada::shmem::device
