// tanada/device/detail/gfile/resident.hpp: the short path of gread, for pages that are in the
// device tier.
//
// A reader takes no pin and no lock: it looks the page up, copies its bytes, and checks that the
// frame still holds the page in that version. If the page is not there, or was replaced meanwhile,
// the call takes the long path, which copies all its bytes again. So a hit has no atomic operation
// and waits six times: for constants of the instance, the descriptor, the file's view, the page's
// set, the bytes and the check.
//
// Why the check suffices: whoever fills a frame first raises its version, then passes a fence in
// every thread (plan_copy()), and then stores strong words. A reader that loads one of these
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

// The constant fields of the state that lead to a file's view. They are loaded together, so that a
// call waits for them once.
struct file_tables {
  descriptor *descriptors;
  node *nodes;
  u32 file_count;
};
TND_DEVICE inline file_tables tables_of(device_state &state) {
  file_tables tables{simt::constant_now(state.descriptors), nullptr, 0};
  simt::load_neighbors(state.nodes, state.file_count, tables.nodes, tables.file_count);
  return tables;
}

// Leader only. As check_range() for a read of a file that is not mapped, with a view that is not in
// doubt; any other file needs the long path.
TND_DEVICE inline read_view view_of(const file_tables &tables, int fd) {
  u32 const index = index_of(fd);
  // Without a branch before the load, which would wait for each of the tables by itself.
  bool const is_number = fd >= 0 && index < tables.file_count;
  descriptor &file = tables.descriptors[is_number ? index : 0];
  u64 const word = load_relaxed(file.word);
  u32 const flags = load_relaxed(file.flags);
  u32 const number = load_relaxed(file.node);
  if (!is_number || !is_open_as(word, fd) || !allows(flags, direction::read))
    return {};
  node &file_node = tables.nodes[number];
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

// Which part of a range a group of lanes copies: the whole of it. Positions are relative to the
// range's begin.
struct whole_range {
  TND_DEVICE u32 begin(const read_target &) const {
    return 0;
  }
  // The end of the bytes at `position` that are copied at once, and what is copied after them.
  TND_DEVICE u32 end_of_piece(const read_target &, u32, u32 page_end) const {
    return page_end;
  }
  TND_DEVICE u32 next(u32 piece_end) const {
    return piece_end;
  }
};

// Each warp of a block takes pieces that are aligned in the file in turn. It looks its pages up
// itself, so that warps wait for nothing but their loads.
struct part_of_block {
  static constexpr u32 piece_size = 4096;  // at most that of a page
  u32 index, count;                        // of warps

  TND_DEVICE u32 begin(const read_target &target) const {
    return index == 0 ? 0 : index * piece_size - u32(target.begin) % piece_size;
  }
  TND_DEVICE u32 end_of_piece(const read_target &target, u32 position, u32 page_end) const {
    u32 const end = position + piece_size - (u32(target.begin) + position) % piece_size;
    return end < page_end ? end : page_end;
  }
  // Only the last piece of the range ends elsewhere than at a multiple of the size.
  TND_DEVICE u32 next(u32 piece_end) const {
    return piece_end + (count - 1) * piece_size;
  }
};

// Larger ranges take the long path, so that positions take one register.
inline constexpr u64 resident_size_max = u64{1} << 31;

// The constant fields of the state that a hit needs, loaded together.
struct resident_tier {
  tier::table_ref<simt::scope::device> table;
  u8 *frames;
  u32 page_shift;
};
TND_DEVICE inline resident_tier resident_tier_of(device_state &state) {
  return {simt::constant_now(state.device_table),
          simt::constant_now(state.device_frames),
          simt::constant_now(state.page_shift)};
}

// A page that was found without a pin. The lane that found it checks its entry again after the
// copy.
struct resident_page {
  u32 frame;  // no_frame: absent
  u32 version;
  tier::page_entry *entry;
  bool is_finder;
};

using resident_table = tier::table_ref<simt::scope::device>;

TND_DEVICE inline resident_page look_up(this_thread, const resident_table &table, u32, u64 key) {
  tier::peek_result const result = table.peek(key);
  return {result.frame, result.version, table.entries + result.frame, true};
}
TND_DEVICE inline resident_page look_up(simt::whole_warp warp,
                                        const resident_table &table,
                                        u32 set,
                                        u64 key) {
  static_assert(tier::ways_max <= simt::warp_size);
  u32 const first = set * table.shape.ways, lane = warp.rank();
  tier::page_entry *const entry = table.entries + first + lane;
  u32 version = 0;
  bool const is_match = lane < table.shape.ways && table.is_match(*entry, key, version);
  u32 const matches = simt::ballot(warp.mask(), is_match);
  u32 const finder = simt::first_bit(matches);
  return {matches == 0 ? tier::no_frame : first + finder, version, entry, lane == finder};
}

template <class Lanes>
TND_DEVICE inline resident_page find_resident(Lanes lanes, const resident_table &table, u64 key) {
  u32 const set = table.set_of(key);
  u32 const stamp = table.stamp_of(set);  // loaded together with the set
  resident_page const page = look_up(lanes, table, set, key);
  if (page.frame == tier::no_frame)
    return page;
  // Acquire: the lane that found the page sees its bytes, and after the barrier all lanes do.
  simt::fence_device_loads();
  lanes.sync();
  if (page.is_finder)
    table.mark(page.frame, stamp);
  return page;
}

TND_DEVICE inline bool any_of(this_thread, bool vote) {
  return vote;
}
TND_DEVICE inline bool any_of(simt::whole_warp warp, bool vote) {
  return simt::ballot(warp.mask(), vote) != 0;
}

// The result is equal in all lanes. Their stores to the target are visible to each other.
template <class Lanes>
TND_DEVICE inline bool is_still_resident(Lanes lanes, const resident_page &page, u64 key) {
  // Acquire: if a lane has copied a word of another page, the entry that is loaded next has another
  // version.
  simt::fence_device_loads();
  lanes.sync();
  u32 version = 0;
  bool const is_unchanged = page.is_finder && resident_table::is_match(*page.entry, key, version) &&
                            version == page.version;
  return any_of(lanes, is_unchanged);
}

// Both sides and the size are multiples of 16.
struct aligned_copy {
  // What the copy leaves as it is.
  template <class T>
  TND_DEVICE static T &keep(T &object) {
    return object;
  }
  template <class Lanes>
  TND_DEVICE static void run(Lanes lanes, u8 *target, const u8 *source, u32 size) {
    simt::copy_lines(lanes, target, source, size);
  }
};
struct ragged_copy {
  template <class T>
  TND_DEVICE static T &keep(T &object) {
    return simt::in_memory(object);
  }
  template <class Lanes>
  TND_DEVICE static void run(Lanes lanes, u8 *target, const u8 *source, u32 size) {
    simt::copy_ragged(lanes, target, source, size);
  }
};

// `is_copied`: false if a page is not in the device tier, or was replaced during the copy; the
// target's bytes are then void. The rest is for count_resident().
struct resident_result {
  bool is_copied;
  counters *counts;
  u32 page_shift;
};

// Copy the part's bytes of the page at `position`, which the frame holds. Returns where the part
// goes on.
template <class Copy, class Lanes, class Part>
TND_DEVICE inline u32 copy_pieces(Lanes lanes,
                                  const resident_tier &tier,
                                  const read_target &target,
                                  const Part &part,
                                  u32 position,
                                  u32 frame) {
  u32 const size = u32(target.end - target.begin);
  u64 const page_index = (target.begin + position) >> tier.page_shift;
  u64 const next_page = ((page_index + 1) << tier.page_shift) - target.begin;
  u32 const page_end = next_page < size ? u32(next_page) : size;
  // Where the range's first byte would be.
  u64 const start = reinterpret_cast<u64>(tier.frames) + target.begin +
                    ((u64(frame) - page_index) << tier.page_shift);
  do {
    u32 const end = part.end_of_piece(target, position, page_end);
    Copy::run(lanes,
              target.buffer + position,
              reinterpret_cast<const u8 *>(start + position),
              end - position);
    position = part.next(end);
  } while (position < page_end);
  return position;
}

// Copy one group's part of the range.
template <class Copy, class Lanes, class Part>
TND_DEVICE inline resident_result copy_resident(Lanes lanes,
                                                device_state &state,
                                                resident_tier tier,
                                                const read_target &target,
                                                const Part &part) {
  u32 const size = u32(target.end - target.begin);
  u32 position = part.begin(target);
  if (position >= size)
    return {true, nullptr, 0};
  for (;;) {
    u64 const key = tier::page_key(target.file_key, (target.begin + position) >> tier.page_shift);
    resident_page candidate = find_resident(lanes, tier.table, key);
    resident_page &page = Copy::keep(candidate);
    if (page.frame == tier::no_frame)
      return {false, nullptr, 0};
    position = copy_pieces<Copy>(lanes, tier, target, part, position, page.frame);
    if (position >= size) {
      // Loaded while the entry is.
      counters *const counts = simt::constant_now(state.counts);
      u32 const page_shift = simt::constant_now(state.page_shift);
      return {is_still_resident(lanes, page, key), counts, page_shift};
    }
    // These would take many registers during a copy, so they are loaded for each page.
    tier = resident_tier_of(state);
    if (!is_still_resident(lanes, page, key))
      return {false, nullptr, 0};
  }
}

// Ranges of any alignment are copied out of line: that takes much code, and registers.
template <class Lanes, class Part>
TND_DEVICE_CALL resident_result
copy_resident_ragged(Lanes lanes, device_state &state, read_target target, Part part) {
  return copy_resident<ragged_copy>(
      lanes, state, resident_tier_of(state), simt::in_memory(target), simt::in_memory(part));
}

template <class Lanes, class Part>
TND_DEVICE inline resident_result copy_resident_part(Lanes lanes,
                                                     device_state &state,
                                                     const resident_tier &tier,
                                                     const read_target &target,
                                                     Part part) {
  if (target.end - target.begin >= resident_size_max)
    return {false, nullptr, 0};
  u64 const mixed = reinterpret_cast<u64>(target.buffer) | target.begin | target.end;
  if ((mixed & 15) != 0)
    return copy_resident_ragged(lanes, state, target, part);
  return copy_resident<aligned_copy>(lanes, state, tier, target, part);
}

// The groups that take this path: blocks with a partial warp do not.
TND_DEVICE inline bool can_hit(this_thread) {
  return true;
}
template <class Group>
TND_DEVICE inline bool can_hit(Group) {
  return simt::whole_warp::is_possible();
}

// Whether this thread is the leader of a group for which can_hit() holds. The rank of a lane takes
// fewer registers than that of a thread in its block.
TND_DEVICE inline bool leads(this_warp) {
  return simt::whole_warp{}.rank() == 0;
}
template <class Group>
TND_DEVICE inline bool leads(Group group) {
  return group.rank() == 0;
}

TND_DEVICE inline resident_result read_resident(this_thread thread,
                                                device_state &state,
                                                const resident_tier &tier,
                                                const read_target &target) {
  return copy_resident_part(thread, state, tier, target, whole_range{});
}

TND_DEVICE inline resident_result read_resident(this_warp,
                                                device_state &state,
                                                const resident_tier &tier,
                                                const read_target &target) {
  return copy_resident_part(simt::whole_warp{}, state, tier, target, whole_range{});
}

TND_DEVICE inline resident_result read_resident(this_block block,
                                                device_state &state,
                                                const resident_tier &tier,
                                                const read_target &target) {
  part_of_block const part{block.rank() / simt::warp_size, block.size() / simt::warp_size};
  resident_result result = copy_resident_part(simt::whole_warp{}, state, tier, target, part);
  result.is_copied = !simt::block_any(!result.is_copied);
  return result;
}

template <class Group>
TND_DEVICE inline resident_result read_resident(Group group,
                                                device_state &state,
                                                const read_target &target) {
  if (!can_hit(group))
    return {false, nullptr, 0};
  return read_resident(group, state, resident_tier_of(state), target);
}
// Only for reads past the tier, on the host executor.
TND_DEVICE inline bool is_resident_copied(any_group group,
                                          device_state &state,
                                          const read_target &target) {
  if (group.kind() == simt::group_kind::block)
    return read_resident(this_block{}, state, target).is_copied;
  return group.kind() == simt::group_kind::thread
             ? read_resident(this_thread{}, state, target).is_copied
             : read_resident(this_warp{}, state, target).is_copied;
}

// The view of the leader, in all threads.
TND_DEVICE inline read_view share_view(this_thread, read_view view) {
  return view;
}
TND_DEVICE inline read_view share_view(this_warp, read_view view) {
  return {simt::whole_warp{}.broadcast_pair(view.words)};
}
TND_DEVICE inline read_view share_view(this_block block, read_view view) {
  return {block.broadcast_pair(view.words)};
}

// Leader only.
TND_DEVICE inline void count_resident(const resident_result &result,
                                      u32 node,
                                      const read_target &target) {
  u64 const first = target.begin >> result.page_shift;
  u64 const pages = ((target.end - 1) >> result.page_shift) - first + 1;
  counters &sums = counters_of(result.counts, node);
  (void)simt::device_word<u64>(sums.device_hits).fetch_add_relaxed(pages);
  (void)simt::device_word<u64>(sums.read_size).fetch_add_relaxed(target.end - target.begin);
}

}  // namespace tanada::gfile::device
