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

// Bytes that a reduction by the tree passes at a time: an area has one piece for each round, and
// one for the result.
constexpr size_t tree_piece(size_t area_size, int32_t members) noexcept {
  return area_size / size_t(round_count(members) + 1) / cache_line * cache_line;
}

enum class reduction_path : uint8_t {
  gathered,  // all get all elements by a gather
  tree,      // up a tree and down again
  slices,    // each gets its slice from all others and sends them the result
  fetched,   // each fetches its slice, after a sync, and sends the result
};

// What a group offers to a reduction.
struct reduction_memory {
  size_t area_size, slices_size;  // 0: the group has no such area
};

// The steps of the tree follow one another; otherwise each member sends a message to each other
// one. This many messages take about as long as a step.
inline constexpr size_t messages_per_step = 4;

constexpr bool fits_slices(size_t size, int32_t members, size_t slices_size) noexcept {
  // Slices differ in size by at most a cache line, or an element.
  return size + size_t(members) * 2 * cache_line <= slices_size;
}

constexpr bool can_gather(size_t size, int32_t members, size_t area_size) noexcept {
  return area_size != 0 && size <= area_size / size_t(members);
}

constexpr reduction_path path_of_reduction(size_t size,
                                           int32_t members,
                                           const reduction_memory &memory) noexcept {
  if (can_gather(size, members, memory.area_size))
    return reduction_path::gathered;
  if (fits_slices(size, members, memory.slices_size))
    return reduction_path::slices;
  size_t const piece = tree_piece(memory.area_size, members);
  if (piece == 0)
    return reduction_path::fetched;
  size_t const steps = (size + piece - 1) / piece * 2 * size_t(round_count(members));
  return steps * messages_per_step <= size_t(members) ? reduction_path::tree
                                                      : reduction_path::fetched;
}

// True if nodes whose members follow one another combine their elements before their leaders do.
// The order of operations then depends on the nodes, as it depends on the tree otherwise.
constexpr bool combines_by_nodes(size_t size,
                                 int32_t members,
                                 const reduction_memory &memory) noexcept {
  return size <= mapped_exchange_area::data_size_max &&
         path_of_reduction(size, members, memory) == reduction_path::tree;
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
