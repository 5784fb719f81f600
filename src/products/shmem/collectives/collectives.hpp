// products/shmem/collectives/collectives.hpp: the collective operations of a team.
#pragma once

#include "products/shmem/teams.hpp"

namespace tanada::shmem {

// A view of a team for one collective call. All members call each operation in the same order, with
// equal sizes (except in collect), roots and reductions. Targets and sources are symmetric. They do
// not overlap, except that they may be equal in reductions and scans.
//
// Memory order: what a member stored in its own memory before the call is visible to members that
// know by the operation that it has entered. Operations of contexts are neither completed nor
// ordered.
//
// Returns, all: ok; invalid: the root is not a member; range: an address that the operation
// resolved is not symmetric; peer_lost, timed_out, access: after these the team is unusable.
class collective {
 public:
  explicit collective(team &team_ref) : team_{team_ref} {}

  // No member returns before all have entered.
  status sync();

  // Copies the root's `source` to `target` of all other members, and to the root's own if
  // `to_itself`. `root` is a member number.
  status broadcast(
      void *target, const void *source, size_t size, int32_t root, bool to_itself = true);

  // Exchanges blocks of `size` bytes: block i of this member's source becomes block me() of member
  // i's target.
  status alltoall(void *target, const void *source, size_t size);
  status alltoall_strided(void *target, const void *source, const fabric_group::strides &shape);

  // Concatenates the members' blocks in the order of the members. fcollect: `size` is equal in all
  // members. collect: `size` is this member's own.
  status fcollect(void *target, const void *source, size_t size);
  status collect(void *target, const void *source, size_t size);

  // Combines the elements of all members in the order of the members: all get the same bits. scan:
  // only the elements of the members up to this one, or before it (zeros in the first).
  status reduce(const reduction &op, void *target, const void *source, size_t count);
  status scan(const reduction &op, scan_kind kind, void *target, const void *source, size_t count);

  // Reduces one element of at most 16 bytes, at addresses that need not be symmetric.
  status agree(const reduction &op, void *target, const void *source);

 private:
  bool is_mapped(const void *target, const void *source) const noexcept;
  bool has_levels(const void *target, const void *source) const noexcept;
  status copy(void *target, const void *source, size_t size);

  team &team_;
};

}  // namespace tanada::shmem
