// tanada/device/detail/shmem/view.hpp: the job as kernels see it, and what kernels and the host
// share of it.
//
// The memory of a device that a PE gives to the job is one piece: [control][heap]. So an address of
// this PE's, and what is to be added to it for a PE, is the address of the same place there, in the
// heap and in the control memory.
#pragma once

#include "../base/status.hpp"
#include "../rpc/ring.hpp"

namespace tanada::shmem::device {

inline constexpr u32 near_pe_count = 64;  // PEs whose distances are part of the view
inline constexpr u32 team_count_max =
    66;  // SHMEM_DEVICE_TEAM_WORLD, _SHARED and device_team_slots more
inline constexpr u32 context_count = 256;
inline constexpr u32 first_team_count = 2;  // whose entries are part of the view
inline constexpr u64 team_first = 3,
                     context_first = 2;  // numbers that stand for the first team, the first context
inline constexpr u64 unreached =
    1;  // in place of a distance, which is a multiple of the machine's pages

// Who said what went wrong: see fault_record. Their names: device_side.cc.
enum class site : u32 {
  put = 1,
  get,
  p,
  g,
  atomic,
  put_signal,
  signal,
  wait,
  test,
  fence,
  quiet,
  sync,
  barrier,
  iput,
  iget,
  broadcast,
  reduce,
  fcollect,
  alltoall,
  count
};

// What a kernel asks of the host where a PE is not reached. `file` of the request: the PE, and in
// the upper byte a size.
enum class op : u32 {
  put = 1,   // words: target, source, size
  get,       // words: target, source, size
  get_word,  // words: source; unit: bytes of it             -> words: the value
  iput,      // words: target, source, count, strides; unit: bytes of an element
  iget,      // the same
  update,    // words: target, operand, compare, kind; unit: bytes of it   -> words: what was there
  put_signal,  // words: target, source, size, signal, value; unit: 1: the value is added
  quiet,
  fence,
};

// With a request's op: what is the kernel's own, a put's source or a get's target, is the slot's
// text, of rpc::text_size at most. Its word is not looked at, and rows lie there without gaps.
inline constexpr u32 in_text = 0x80;

// Kinds of updates, in the order of port::fabric_atomic.
enum class update_kind : u32 { add, bit_and, bit_or, bit_xor, swap, compare_swap, fetch };

struct fault_record {  // host memory
  u32 filled;          // written last
  int code;
  u32 where;  // a site
  u32 thread;
  u64 block;
  u64 words[2];  // an address and a PE, where there are
};

// Device memory. Changes only while no kernel uses the team, or the context.
struct team_entry {
  const int *world_pes;  // by member; null: the PE's number is the member's
  int count;             // 0: there is none
  int me;
  u32 has_far;  // a member's memory is not reached
  u32 reserved;
};

struct context_entry {
  const int *world_pes;  // by number in the context's team; null: as in the job
  int count;             // 0: there is none
  u32 reserved;
};

// Of one team in one PE; device memory, its own.
struct team_progress {
  u64 epoch;  // collectives that this PE has begun
  u64 safe;   // all members have ended the collectives up to this one
};

// Of one team in one PE: blocks of the kernel that have done their parts of a collective; 0 between
// kernels.
struct block_progress {
  u32 first, last;  // of what others wait for in its midst, and of all
};

// Device memory; changes while kernels run.
struct live_state {
  u64 lost;  // a PE has died, 1 + its number; written by the host
  u32 fault_claimed;
  u32 reserved;
  team_progress teams[team_count_max];
  block_progress blocks[team_count_max];
};

// Control memory of each PE, at its beginning: a word a team and member, then the boxes.
//
// A box is for what a member sends to another in one collective: `box_size` bytes of message in
// words of which each carries half message and half epoch, so twice as many. box_parity boxes a
// team and member.
inline constexpr u32 box_parity = 4;
struct control_shape {
  u32 count;     // of PEs
  u32 box_size;  // bytes of message, a power of 2

  TND_HD static u32 box_size_for(u32 count) {
    u32 size = 4096;
    while (size > 64 && u64(size) * count > 32768)
      size /= 2;
    return size;
  }
  TND_HD u64 arrivals(u32 team) const {
    return u64(team) * count * 8;
  }
  TND_HD u64 boxes() const {
    return (u64(team_count_max) * count * 8 + 255) / 256 * 256;
  }
  TND_HD u64 box(u32 team, u32 parity, u32 member) const {
    return boxes() + ((u64(team) * box_parity + parity) * count + member) * box_size * 2;
  }
  TND_HD u64 size() const {
    return box(team_count_max, 0, 0);
  }
};

// Constant while kernels run.
struct view {
  u8 *heap;  // of this PE
  u64 heap_size;
  int me, count;
  u8 *control;  // of this PE
  u32 box_size;
  u32 has_far;     // memory of a PE is not reached
  u64 timeout_ns;  // of each wait; ~0: none
  live_state *live;
  const team_entry *teams;
  const context_entry *contexts;
  const u64 *far_distances;  // by PE, all of them
  fault_record *fault;
  rpc::ring_ref ring;
  team_entry first_teams[first_team_count];
  u64 distances[near_pe_count];  // by PE
};

}  // namespace tanada::shmem::device
