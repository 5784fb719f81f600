// products/shmem/collectives/schedule.hpp: the steps of collective operations: which member sends
// how much to which other member, and which algorithm a size takes. Pure functions, which the
// operations follow. A model of their cost takes its messages from them (bench/shmem/scale.cc).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "products/shmem/collectives/control.hpp"

namespace tanada::shmem::schedule {

// Rounds of an algorithm that doubles its reach in each round.
constexpr int32_t round_count(int32_t members) noexcept {
  return std::bit_width(uint32_t(members - 1));
}

// Dissemination: in each round a member signals the one this far after it, and waits for the one as
// far before it. A tree forwards from member to member over the same distances.
constexpr int32_t distance(int32_t round) noexcept {
  return 1 << round;
}

// A round of a gather: the first `block_count` blocks that a member has go to the member `distance`
// before it, which has `distance` blocks.
struct gather_step {
  int32_t distance, block_count;
};
constexpr gather_step gather_round(int32_t round, int32_t members) noexcept {
  return {distance(round), std::min(distance(round), members - distance(round))};
}

// The place of a member in the tree of a reduction, whose root is member 0. A member combines what
// it gets from the members 1, 2, 4, … after it, in this order, and sends the result to the member
// distance(round) before it. So each combines the elements of members that follow one another.
struct tree_place {
  int32_t child_count;
  int32_t round;  // -1: this is the root
};
constexpr tree_place place_in_tree(int32_t member, int32_t members) noexcept {
  int32_t const round = member == 0 ? -1 : std::countr_zero(uint32_t(member));
  int32_t const round_end = member == 0 ? round_count(members) : round;
  int32_t children = 0;
  while (children < round_end && member + distance(children) < members)
    children++;
  return {children, round};
}

// The place of a member in a reduction by recursive doubling. In each round, pairs of positions
// exchange what they have combined so far: the elements of members that follow one another. If
// there are more members than the highest power of two, some of them have no position: each of
// these sends its elements to the member before it, and receives the result from there.
struct doubling_place {
  int32_t rounds;
  int32_t position;   // -1: none
  int32_t companion;  // the member with, or without, a position that shares this one's; -1: none
};
constexpr doubling_place place_in_doubling(int32_t member, int32_t members) noexcept {
  int32_t const rounds = std::bit_width(uint32_t(members)) - 1;
  int32_t const extra = members - distance(rounds);  // members without a position
  if (member >= 2 * extra)
    return {rounds, member - extra, -1};
  return {rounds, member % 2 == 0 ? member / 2 : -1, member ^ 1};
}
// The member whose position is paired with this one in a round.
constexpr int32_t doubling_partner(int32_t position, int32_t round, int32_t members) noexcept {
  int32_t const extra = members - distance(std::bit_width(uint32_t(members)) - 1);
  int32_t const partner = position ^ distance(round);
  return partner < extra ? 2 * partner : partner + extra;
}

// Bytes that a reduction by the tree or by doubling passes at a time: an area has one piece for
// each round, and one for the result of a tree.
constexpr size_t area_piece(size_t area_size, int32_t members) noexcept {
  return area_size / size_t(round_count(members) + 1) / cache_line * cache_line;
}

enum class reduction_path : uint8_t {
  gathered,  // all get all elements by a gather
  doubling,  // pairs exchange what they have combined, over doubling distances
  tree,      // up a tree and down again
  slices,    // each gets its slice from all others and sends them the result
  fetched,   // each fetches its slice, after a sync, and sends the result
};

// What a group offers to a reduction.
struct reduction_memory {
  size_t area_size, slices_size;  // 0: the group has no such area
};

// Whether each PE has a processor, which decides between fewer steps and fewer messages.
enum class crowding : uint8_t { dedicated, oversubscribed };

// The steps of doubling follow one another; slices take two steps, in which each member sends a
// message to each other one. This many messages take about as long as a step.
inline constexpr size_t messages_per_step = 4;
// Bytes of all members up to which a gather is as fast as doubling.
inline constexpr size_t gathered_size_max = 4096;
// Fewest members of which a tree spares processors enough messages.
inline constexpr int32_t tree_members_min = 8;

constexpr bool fits_slices(size_t size, int32_t members, size_t slices_size) noexcept {
  // Slices differ in size by at most a cache line, or an element.
  return size + size_t(members) * 2 * cache_line <= slices_size;
}

constexpr bool can_gather(size_t size, int32_t members, size_t area_size) noexcept {
  return area_size != 0 && size <= area_size / size_t(members);
}

// A gather keeps the exact order of operations. If the number of members is no power of two, it
// also has a step less than doubling.
constexpr bool prefers_gather(size_t size, int32_t members, size_t area_size) noexcept {
  if (!can_gather(size, members, area_size))
    return false;
  return !std::has_single_bit(uint32_t(members)) || size * size_t(members) <= gathered_size_max ||
         size > area_piece(area_size, members);
}

// Whether a sync takes the tree of a reduction: it has 2 (members - 1) messages, which spare
// processors that PEs share. Dissemination has fewer steps.
constexpr bool syncs_by_tree(int32_t members, size_t area_size, crowding load) noexcept {
  return load == crowding::oversubscribed && members >= tree_members_min && area_size != 0;
}

// The path of elements that fit into the areas of a group, in one or more pieces.
constexpr reduction_path path_by_areas(size_t size,
                                       int32_t members,
                                       size_t area_size,
                                       crowding load) noexcept {
  if (load == crowding::oversubscribed && members >= tree_members_min &&
      area_piece(area_size, members) != 0)
    return reduction_path::tree;
  return prefers_gather(size, members, area_size) ? reduction_path::gathered
                                                  : reduction_path::doubling;
}

constexpr reduction_path path_of_reduction(size_t size,
                                           int32_t members,
                                           const reduction_memory &memory,
                                           crowding load = crowding::dedicated) noexcept {
  auto const path = path_by_areas(size, members, memory.area_size, load);
  if (path == reduction_path::gathered)
    return path;
  bool const has_slices = fits_slices(size, members, memory.slices_size);
  if (size_t const piece = area_piece(memory.area_size, members); piece != 0) {
    size_t const pieces = (size + piece - 1) / piece, peers = size_t(members) - 1;
    auto const place = place_in_doubling(0, members);
    size_t const steps = size_t(place.rounds) + (place.companion < 0 ? 0 : 2);
    bool const is_cheap =
        path == reduction_path::tree
            ? pieces * messages_per_step <= size_t(members)
            : pieces * steps * messages_per_step <= 2 * (peers + messages_per_step);
    if (is_cheap)
      return path;
  }
  return has_slices ? reduction_path::slices : reduction_path::fetched;
}

// How many nodes the members of a group are on, and how many are on the fullest one.
struct node_counts {
  int32_t nodes, members_max;
};

// True if leaders can pass blocks of all members of their nodes to one another, and the result to
// their nodes.
constexpr bool can_gather_by_nodes(size_t size,
                                   const node_counts &counts,
                                   size_t area_size,
                                   size_t shared_size) noexcept {
  size_t const block = size * size_t(counts.members_max);
  return size <= mapped_exchange_area::data_size_max && block <= area_size / size_t(counts.nodes) &&
         block * size_t(counts.nodes) <= shared_size;
}

}  // namespace tanada::shmem::schedule
