// tanada/device/detail/shmem/view.hpp: the job as kernels see it, and the state that kernels and
// the host share.
//
// The device memory that a PE gives to the job is one block: [control][heap]. An address of this PE
// plus a PE's distance is the same position in that PE's memory, in the heap and in the control
// memory.
#pragma once

#include "../base/status.hpp"
#include "../rpc/post_queue.hpp"

namespace tanada::shmem::device {

inline constexpr u32 view_pe_count = 64;  // PEs whose distances are part of the view
inline constexpr u32 team_count_max =
    66;  // SHMEM_DEVICE_TEAM_WORLD, _SHARED and device_team_slots more
inline constexpr u32 context_count = 256;
inline constexpr u32 first_team_count = 2;  // whose entries are part of the view
inline constexpr u64 team_first = 3,
                     context_first = 2;  // numbers that stand for the first team, the first context
inline constexpr u64 unreached =
    1;  // in place of a distance; distances are multiples of the page size

// The call that reports a fault: see fault_record. Their names are in device_side.cc.
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

// Requests from kernels to the host, for PEs whose memory is not mapped. `file` of the request: the
// PE, and a size in the upper byte. `extra` of a request in the ring: the ticket below which posted
// requests are performed first. `extra` of a posted request: the poster's block and thread.
enum class op : u32 {
  put = 1,     // words: target, source, size
  get,         // words: target, source, size
  get_word,    // words: source; unit: its bytes             -> words: the value
  iput,        // words: target, source, count, strides; unit: bytes of an element
  iget,        // the same
  update,      // words: target, operand, compare, kind; unit: its bytes   -> words: the old value
  put_signal,  // words: target, source, size, signal, value; unit: 1: the value is added
  quiet,
  fence,
};

// Flag in a request's op: the kernel's private data (a put's source or a get's target) are in the
// slot's text, at most rpc::text_size bytes. The word with their address is ignored, and rows are
// stored there without gaps.
inline constexpr u32 in_text = 0x80;

// Kinds of updates, in the order of seams::fabric_atomic.
enum class update_kind : u32 { add, bit_and, bit_or, bit_xor, swap, compare_swap, fetch };

struct fault_record {  // host memory
  u32 filled;          // written last
  int code;
  u32 call_site;  // a site
  u32 thread;
  u64 block;
  u64 words[2];  // an address and a PE, if any
};

// Device memory. Changes only while no kernel uses the team or the context.
struct team_entry {
  const int *world_pes;  // by member; null: the member's number is the PE's number
  int count;             // 0: no such team
  int me;
  u32 has_unmapped;  // a member's memory is not mapped
  u32 reserved;
};

struct context_entry {
  const int *world_pes;  // by number in the context's team; null: the number in the job
  int count;             // 0: no such context
  u32 reserved;
};

// Progress of one team in one PE, in that PE's device memory.
struct team_progress {
  u64 epoch;  // collectives that this PE has begun
  u64 safe;   // all members have ended every collective up to this one
};

// For one team in one PE: how many blocks of the kernel have finished their part of a collective. 0
// between kernels.
struct block_progress {
  u32 first, last;  // of the first phase, for which other members wait; of the whole collective
};

// Device memory; changes while kernels run.
struct live_state {
  u64 failed_pe;  // 1 + the number of a PE that has failed; written by the host
  u32 fault_claimed;
  u32 reserved;
  team_progress teams[team_count_max];
  block_progress blocks[team_count_max];
};

// Control memory of each PE, at its beginning: a word for each team and member, then the boxes.
//
// A box holds what a member sends to another in one collective: `box_size` bytes of message. Half
// of each word is message and half is epoch, so the box has twice as many bytes. There are
// box_parity boxes for each team and member.
inline constexpr u32 box_parity = 4;
struct control_shape {
  u32 count;     // number of PEs
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
  u32 has_unmapped;   // some PE's memory is not mapped
  u64 timeout_ns;     // of each wait; ~0: none
  u32 takes_private;  // calls for this PE accept memory outside of its heap
  u32 reserved;
  live_state *live;
  const team_entry *teams;
  const context_entry *contexts;
  const u64 *all_distances;  // by PE, all PEs
  fault_record *fault;
  rpc::ring_ref ring;
  rpc::post_queue_ref posts;
  team_entry first_teams[first_team_count];
  u64 distances[view_pe_count];  // by PE
};

}  // namespace tanada::shmem::device
