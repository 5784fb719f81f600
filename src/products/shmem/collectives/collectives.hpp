// products/shmem/collectives/collectives.hpp: what the members of a team do together.
#pragma once

#include "products/shmem/teams.hpp"

namespace tanada::shmem {

// Operations on a team, of one call: a view. Each is called by all members, in the same order, with
// equal sizes (but collect's), roots and reductions. Targets and sources are symmetric; they do not
// overlap, but in reductions and scans they may be equal.
//
// Memory order: what a member has stored in its own memory before it is seen by those who know by
// it that the member has come; of operations of contexts, which it does not complete, nothing is
// said.
//
// Returns, all: ok; invalid for a root that is no member; range for an address that is not
// symmetric, where the operation looked; peer_lost, timed_out, access, after which the team is of
// no more use.
class collective {
 public:
  explicit collective(team &of) : of_{of} {}

  // Nobody leaves before all have come.
  status sync();

  // `source` of the root, a number in the team, becomes `target` of all others, and the root's own
  // if it says so.
  status broadcast(void *target, const void *source, size_t size, int32_t root,
                   bool to_itself = true);

  // Blocks of `size` bytes: the source's i-th becomes the one of this member's number in member i's
  // target.
  status alltoall(void *target, const void *source, size_t size);
  status alltoall_strided(void *target, const void *source, const far_group::strides &shape);

  // `size` bytes of each, in the order of the members: the same size in all, or each member's own.
  status fcollect(void *target, const void *source, size_t size);
  status collect(void *target, const void *source, size_t size);

  // Elements of all, combined in the order of the members: all get the same bits. scan: those of
  // the members up to this one, or before it (zeros in the first).
  status reduce(const reduction &what, void *target, const void *source, size_t count);
  status scan(const reduction &what, scan_kind kind, void *target, const void *source,
              size_t count);

  // One element, at addresses that need not be symmetric. Of 16 bytes at most.
  status agree(const reduction &what, void *target, const void *source);

 private:
  bool is_near(const void *target, const void *source) const noexcept;
  status copy(void *target, const void *source, size_t size);

  team &of_;
};

}  // namespace tanada::shmem
