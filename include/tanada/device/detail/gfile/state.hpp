// tanada/device/detail/gfile/state.hpp: state of a gfile instance that kernels and the host share:
// the layout of its device state, and the requests that cross the ring.
#pragma once

#include "../base/status.hpp"
#include "../rpc/ring.hpp"
#include "../tier/table.hpp"

namespace tanada::gfile {

// Requests from kernels to the host: `file` and words of the request -> value and words of the
// answer. Offsets and sizes are in bytes.
enum class op : u32 {
  open = 1,  // text url; words: flags, 0, closes -> node; words: epoch, file key, size, changes
  close,     // file; words: access              ->
  read,   // file; words: page, pages wanted  -> granted_frame(); words, for a window's frame: its
          // valid bytes
  write,  // file; words: page, begin, end    -> frame, granted; words: epoch, file key, size
  prefetch,   // file; words: page, pages         ->
  sync,       // file                             ->
  truncate,   // file; words: size                -> words: epoch, file key
  unlink,     // text url; words: 0, 0, closes    ->
  view,       // file                             -> words: epoch, file key, size, changes
  read_list,  // file; words: a bit for each position of the list, which has pages -> area; words: a
              // bit for each position whose page the area has
};

// Most pages of a list: a warp requests them together.
inline constexpr u32 list_page_count_max = 32;
static_assert(list_page_count_max * sizeof(u64) <= rpc::text_size);

// The value of the answer to a read: a frame, and whether it held the page when the request
// arrived.
inline constexpr u32 granted_at_once = 1u << 31;
TND_HD inline u32 granted_frame(u32 frame, bool at_once) {
  return frame | (at_once ? granted_at_once : 0);
}

// `changes` of an answer. Changes are truncates, unlinks and opens that truncate. `seen_count`:
// changes of all files that had reached the host. `is_pending`: the host has a change for this file
// that it has not finished.
TND_HD inline u64 changes_word(u32 seen_count, bool is_pending) {
  return u64(seen_count) << 1 | (is_pending ? 1 : 0);
}

// A view of a file: its size and its file key. The file key is the first part of its pages' keys,
// and changes when the cached pages become invalid. Views are numbered by the epoch of the host's
// record. A view is two words, which a kernel loads one after the other. The size word carries the
// low bits of its epoch, so that it is never taken for the size of another view. Otherwise a kernel
// could use a size beyond the page's valid bytes, and the rest of the frame holds bytes of other
// files.
inline constexpr u32 view_size_bits = 52;
inline constexpr u64 file_size_max = (u64{1} << view_size_bits) - 1;
TND_HD inline u64 view_word(u32 epoch, u32 file_key) {
  return u64(file_key) << 32 | epoch;
}
TND_HD inline u64 size_word(u32 epoch, u64 size) {
  return u64(epoch) << view_size_bits | (size < file_size_max ? size : file_size_max);
}
TND_HD inline u64 size_of_word(u64 word) {
  return word & file_size_max;
}
// Only the low bits of an epoch are compared.
TND_HD inline bool is_size_of(u64 word, u32 epoch) {
  return word >> view_size_bits == (u64(epoch) << view_size_bits) >> view_size_bits;
}

// What a miss of a file's page in the device tier is expected to be in the host tier.
enum class miss_expectation : u32 {
  hit = 0,
  miss = 1,      // as the last one: a miss then goes to the host without a lookup
  windowed = 2,  // the file's pages come by the direct window; they are not requested early
};

// An open file as the host numbers them: one node for each URL, whatever the number of descriptors.
struct alignas(64) node {
  u64 view;     // view_word(); the first descriptor of an epoch sets key and size
  u64 size;     // size_word(): bytes, including what this instance wrote
  u64 mapping;  // mapping_word(); valid only for the file key in it
  u64 doubt;    // see doubt.hpp
  u32 missing;  // miss_expectation
  u32 lock;     // taken by kernels to adopt an answer and to count an unsent close, never while
                // waiting
  u32 lists_refused;  // 1: the host reads no lists of this file's pages
  u32 reserved[3];
};
static_assert(sizeof(node) == 64);

// A mapped file; device memory. An entry changes only while no kernel runs that was launched when
// the entry was in use.
struct mapped_range {
  u64 addr;  // host memory, as kernels reach it; 0: none, the host executor uses the descriptor
  u64 size;  // bytes
  int descriptor;  // or -1
  u32 reserved;
};
inline constexpr u32 mapped_range_count = 64;

// In place of a slot: another process truncated the file or opened it for writing. Readers must
// refresh the view from the host first.
inline constexpr u32 mapping_lost = 0xffff;

// `slot` starts at 1 and denotes entry slot - 1 of the ranges.
TND_HD inline u64 mapping_word(u32 file_key, u32 slot) {
  return u64(file_key) << 32 | slot;
}

enum class descriptor_state : u32 { free = 0, opening = 1, open = 2, failed = 3, closing = 4 };

// word = generation:32 | unjoinable:1 | state:4 | references:24; every change is one
// compare-and-exchange.
struct descriptor {
  u64 word;
  u64 url_hash;
  u32 flags;
  u32 node;
  int code;       // why the open failed
  u32 next;       // next in its bucket's list: its number + 1, 0 for the last; changed under the
                  // bucket's lock
  u32 next_free;  // next in the list of free descriptors, in the same form
  u32 failures_seen;  // the file's failures of write-back that this descriptor need not return
  char url[rpc::text_size];
};

// Free descriptors that were used before: count of changes:32 | number + 1 of the first, or 0.
// There are several lists: thousands of warps that exchange one word at the same time would mostly
// fail.
struct alignas(64) free_list {
  u64 head;
};
inline constexpr u32 free_list_count = 32;

// Descriptors in use are found by their URL's hash. The lists are also followed without the lock. A
// descriptor may then lead into another list, so a search that finds nothing is repeated with the
// lock.
struct descriptor_bucket {
  u32 lock;   // held to change the list, never while waiting
  u32 first;  // a descriptor's number + 1; 0: none
};

inline constexpr u32 descriptor_index_bits = 14;
inline constexpr u32 file_count_limit = 1u << descriptor_index_bits;

struct fault_record {  // host memory
  u32 filled;          // written last
  int code;
  u32 site;
  u32 thread;
  u64 block;
  u64 words[2];
  char url[rpc::text_size];  // empty: the call named no open file
};

// Host memory, one for each file: how many closes of its writers found no request slot, and are
// left for the host to take. Kernels increment the count under the lock of the file's node.
struct unsent_closes {
  u32 writer_count;
};

// Closes of read-only descriptors, which kernels post without waiting. Host memory, a circular
// list.
//
// A close has a ticket, counted in device memory. Its entry is turn:32 | node:32, with the turn
// ticket / close_list_size + 1. An open or unlink carries the number of tickets issued before it,
// and the host serves it after those closes.
//
// The list cannot overflow: each close that the host has not taken belongs to a descriptor that was
// open when the host last took closes, or that was opened through a request slot since then.
inline constexpr u32 close_list_size = 2 * file_count_limit;
static_assert(close_list_size > file_count_limit + 2 * rpc::slot_count);
struct close_list {
  u64 entries[close_list_size];
};

TND_HD inline u64 close_entry(u64 ticket, u32 node) {
  return (ticket / close_list_size + 1) << 32 | node;
}

inline constexpr u32 counter_stripes = 8, latency_stripes = 16, latency_buckets = 32;

struct alignas(128) counters {  // device memory, counter_stripes for each file; pages, sizes in
                                // bytes
  u64 device_hits, host_hits, mapped_copies, direct_copies, misses, uncached_transfers,
      device_evictions;
  u64 read_size, write_size;
};
static_assert(sizeof(counters) == 128);

struct alignas(128) latencies {  // device memory, one for each stripe
  u64 buckets[latency_buckets];  // [i]: from 2^i to 2^(i+1) ns
};

// Device memory. Constant while kernels run, except the memory that the pointers address and the
// last part.
struct device_state {
  u32 page_size;
  u32 page_shift;
  tier::table_ref<simt::scope::device> device_table;
  tier::table_ref<simt::scope::system> host_table;  // kernels only peek
  u8 *device_frames;
  u32 *gmap_counts;  // for each frame of the device tier: how many of its pins belong to gmap
  u8 *host_frames;
  u8 *window_frames;  // device memory; their frame numbers start at host_table.shape.frame_count()
  mapped_range *mapped_ranges;
  rpc::ring_ref ring;
  descriptor *descriptors;
  descriptor_bucket *buckets;  // file_count entries
  alignas(16) node *nodes;     // loaded together with the next
  u32 file_count;
  u32 list_page_count;  // most pages of a list; 0: lists are not read
  u8 *list_areas;       // host memory, list_page_count pages for each area
  fault_record *fault;
  unsent_closes *unsent;
  close_list *closes;
  counters *counts;
  latencies *waits;  // of misses

  free_list free_descriptors[free_list_count];
  alignas(64) u32 used_count;  // descriptors that were ever used: numbers below this one
  u32 fault_claimed;
  u32 changes_posted;  // how many changes have been posted to the host
  u64 names_doubt;     // see doubt.hpp
  u64 closes_posted;   // tickets of the close list that were issued
};

}  // namespace tanada::gfile
