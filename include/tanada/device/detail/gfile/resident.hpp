// tanada/device/detail/gfile/resident.hpp: the short path of gread, for pages that are in the
// device tier.
//
// A reader takes no pin and no lock: it looks the page up, copies its bytes, and checks that the
// frame still holds the page in that version. If the page is not there, or was replaced meanwhile,
// the call takes the long path, which copies all its bytes again. So a hit has no atomic operation
// and waits four times: for the descriptor, the file's view, the page's set, and the check.
//
// Why the check suffices: whoever fills a frame first raises its version, then passes a fence in
// every thread (acquire_page()), and then stores strong words. A reader that loads one of these
// words, and then passes an acquire fence, sees the new version.
#pragma once

#include "../tier/lookup.hpp"
#include "doubt.hpp"

namespace tanada::gfile::device {

enum class direction : u32 { read, write };

TND_DEVICE inline u32 index_of(int fd) {
  return u32(fd) & (file_count_limit - 1);
}

// `flags`: those of gopen.
TND_DEVICE inline bool allows(u32 flags, direction dir) {
  return (flags & access_mask) != (dir == direction::read ? 1 : 0);
}

// What a read needs from the view of its file: the size word, then the key, what a miss is expected
// to be (see node::missing), and the node. A key of 0 means that the call needs the long path.
struct read_view {
  static constexpr u32 missing = 1u << 31, windowed = 1u << 30;
  simt::word_pair words{0, 0};

  TND_DEVICE bool is_known() const {
    return words.second != 0;
  }
  TND_DEVICE u64 file_size() const {
    return size_of_word(words.first);
  }
  TND_DEVICE u32 epoch() const {
    return u32(words.first >> view_size_bits);
  }
  TND_DEVICE u32 file_key() const {
    return u32(words.second >> 32);
  }
  TND_DEVICE u32 node() const {
    return u32(words.second) & ~(missing | windowed);
  }
  TND_DEVICE bool expects_miss() const {
    return (u32(words.second) & missing) != 0;
  }
  TND_DEVICE bool is_windowed() const {
    return (u32(words.second) & windowed) != 0;
  }
};

template <class T>
TND_DEVICE inline T load_relaxed(T &object) {
  return simt::device_word<T>(object).load_relaxed();
}

// Leader only. As check_range() for a read of a file that is not mapped, with a view that is not in
// doubt; any other file needs the long path.
TND_DEVICE inline read_view view_of(device_state &state, int fd) {
  u32 const index = index_of(fd);
  if (fd < 0 || index >= simt::constant(state.file_count))
    return {};
  descriptor &file = simt::constant(state.descriptors)[index];
  u64 const word = load_relaxed(file.word);
  u32 const flags = load_relaxed(file.flags);
  u32 const number = load_relaxed(file.node);
  if (!is_open_as(word, fd) || !allows(flags, direction::read))
    return {};
  node &file_node = simt::constant(state.nodes)[number];
  u64 const mapping = load_relaxed(file_node.mapping);
  u64 const doubt = load_relaxed(file_node.doubt);
  u64 const size = load_relaxed(file_node.size);
  u64 const view = load_relaxed(file_node.view);
  u32 const expected = load_relaxed(file_node.missing);
  u32 const missing = expected == u32(miss_expectation::miss)       ? read_view::missing
                      : expected == u32(miss_expectation::windowed) ? read_view::windowed
                                                                    : 0;
  bool const is_mapped = mapping >> 32 == view >> 32 && u32(mapping) != 0;
  if (!is_size_of(size, u32(view)) || in_doubt(doubt) || is_mapped)
    return {};
  return {{size, (view >> 32) << 32 | missing | number}};
}

// Bytes of a file, and the memory for them.
struct read_target {
  u32 file_key;
  u8 *buffer;
  u64 begin, end;  // positions in the file
};

// How several warps divide a range: each takes every `count`-th piece, aligned in the file.
struct division {
  u32 piece_shift;  // at most that of a page
  u32 index, count;
};

// The bytes of a piece that are in the range: positions in the file. Past the range, begin >= end.
struct piece_range {
  u64 begin, end;
};
TND_DEVICE inline piece_range piece_of(const read_target &target, u64 piece, u32 piece_shift) {
  u64 const start = piece << piece_shift, next = (piece + 1) << piece_shift;
  return {start < target.begin ? target.begin : start, next < target.end ? next : target.end};
}

template <class Lanes>
TND_DEVICE inline tier::peek_result find_resident(Lanes lanes,
                                                  const tier::table_ref<simt::scope::device> &table,
                                                  u64 key) {
  tier::group_lookup<Lanes, simt::scope::device> lookup;
  u32 const stamp = table.stamp_of(table.set_of(key));  // loaded together with the set
  lookup.begin(lanes, table, key);
  tier::peek_result const result = lookup.finish(lanes, table, key);
  if (result.frame == tier::no_frame)
    return result;
  // Acquire: the lane that found the page sees its bytes, and after the barrier all lanes do.
  simt::fence_device_loads();
  lanes.sync();
  if (lanes.rank() == 0)
    table.mark(result.frame, stamp);
  return result;
}

// The result is equal in all lanes. Their stores to the target are visible to each other.
template <class Lanes>
TND_DEVICE inline bool is_still_resident(Lanes lanes,
                                         const tier::table_ref<simt::scope::device> &table,
                                         const tier::peek_result &page,
                                         u64 key) {
  // Acquire: if a lane has copied a word of another page, the entry that is loaded next has another
  // version.
  simt::fence_device_loads();
  lanes.sync();
  bool is_unchanged = false;
  if (lanes.rank() == 0)
    is_unchanged = table.is_unchanged(page.frame, key, page.version);
  return lanes.broadcast(u32(is_unchanged ? 1 : 0)) != 0;
}

// Copy the pieces of one group of lanes. Returns false if a page is not in the device tier, or was
// replaced during the copy; the target's bytes are then void.
template <class Lanes>
TND_DEVICE inline bool copy_resident(Lanes lanes,
                                     device_state &state,
                                     const read_target &target,
                                     const division &pieces) {
  auto const table = simt::constant(state.device_table);
  u32 const page_shift = simt::constant(state.page_shift);
  u64 const page_mask = simt::constant(state.page_size) - 1;
  tier::peek_result page{tier::no_frame, 0};
  u64 current = 0;  // key of `page`
  for (u64 piece = (target.begin >> pieces.piece_shift) + pieces.index;; piece += pieces.count) {
    auto const [begin, end] = piece_of(target, piece, pieces.piece_shift);
    u64 const key = begin < end ? tier::page_key(target.file_key, begin >> page_shift) : 0;
    if (key != current) {
      if (current != 0 && !is_still_resident(lanes, table, page, current))
        return false;
      if (key != 0)
        page = find_resident(lanes, table, key);
      if (page.frame == tier::no_frame)
        return false;
      current = key;
    }
    if (key == 0)
      return true;
    const u8 *const bytes = simt::constant(state.device_frames) + (u64(page.frame) << page_shift);
    simt::copy_at_once(
        lanes, target.buffer + (begin - target.begin), bytes + (begin & page_mask), end - begin);
  }
}

TND_DEVICE inline bool read_resident(this_thread thread,
                                     device_state &state,
                                     const read_target &target) {
  return copy_resident(thread, state, target, {simt::constant(state.page_shift), 0, 1});
}

// Blocks with a partial warp take the long path.
TND_DEVICE inline bool read_resident(this_warp, device_state &state, const read_target &target) {
  return simt::whole_warp::is_possible() &&
         copy_resident(simt::whole_warp{}, state, target, {simt::constant(state.page_shift), 0, 1});
}

// Each warp of a block looks its pages up itself, so that warps wait for nothing but their loads.
inline constexpr u32 warp_piece_shift = 12;

TND_DEVICE inline bool read_resident(this_block block,
                                     device_state &state,
                                     const read_target &target) {
  if (!simt::whole_warp::is_possible())
    return false;
  u32 const warp_count = block.size() / simt::warp_size;
  bool const is_copied =
      copy_resident(simt::whole_warp{},
                    state,
                    target,
                    {warp_piece_shift, block.rank() / simt::warp_size, warp_count});
  return !simt::block_any(!is_copied);
}

// Leader only.
TND_DEVICE inline void count_resident(device_state &state, u32 node, const read_target &target) {
  u32 const page_shift = simt::constant(state.page_shift);
  u64 const pages = ((target.end - 1) >> page_shift) - (target.begin >> page_shift) + 1;
  counters &sums = counters_of(state, node);
  (void)simt::device_word<u64>(sums.device_hits).fetch_add_relaxed(pages);
  (void)simt::device_word<u64>(sums.read_size).fetch_add_relaxed(target.end - target.begin);
}

}  // namespace tanada::gfile::device
