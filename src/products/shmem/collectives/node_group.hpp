// products/shmem/collectives/node_group.hpp: collective operations in two levels, for members on
// several nodes: among the members of a node by loads and stores, and between nodes by contexts.
#pragma once

#include <optional>

#include "products/shmem/collectives/mapped_group.hpp"

namespace tanada::shmem {

// How the members of a group lie on nodes. Nodes are in the order of their first members.
struct node_plan {
  struct node {
    std::vector<int32_t> members;  // in the group's order; the first one is the node's leader
  };
  std::vector<node> nodes;
  std::vector<int32_t> node_of;   // by member
  std::vector<int32_t> place_of;  // by member: its place among the members of its node
  int32_t member_count_max = 0;   // of a node
  bool is_contiguous = true;      // members of a node follow one another

  node_plan(const onesided::job &job, const group &members);

  int32_t node_count() const noexcept {
    return int32_t(nodes.size());
  }
  // Two levels are of use only where some members share a node and not all do.
  bool has_levels() const noexcept {
    return nodes.size() > 1 && nodes.size() < node_of.size();
  }
};

// As fabric_group, which has the contracts, for host memory. `areas`: the exchange areas of this
// node's members. `words`: for the leaders, apart from those of a fabric_group of all members.
class node_group {
 public:
  struct node_areas {
    std::vector<mapped_exchange_area *> areas;
    uint64_t number;  // as for mapped_group
    bool is_oversubscribed;
  };
  node_group(channel_ref channel,
             const group &members,
             node_plan plan,
             node_areas shared,
             const fabric_signals &words);
  node_group(const node_group &) = delete;

  status sync();
  status broadcast(void *target, const void *source, size_t size, int32_t root, bool to_itself);

  // Whether blocks of that size can be gathered by gather(), fcollect() and, in all, reduce().
  bool can_gather(size_t size) const noexcept;
  status fcollect(void *target, const void *source, size_t size);
  // Elements are combined in the order of the members, as by the other groups. Addresses are
  // symmetric if the elements cannot be handed over.
  bool can_reduce(size_t size) const noexcept;
  status reduce(const reduction &op, void *target, const void *source, size_t count);
  // The same for any number of members, if those of a node follow one another: combines the
  // elements of each node first. Requires blocks that can be handed over.
  status reduce_by_leaders(const reduction &op, void *target, const void *source, size_t count);

  uint64_t number() const noexcept {
    return local_ ? local_->number() : 0;
  }

 private:
  bool is_leader() const noexcept {
    return local_members_.me == 0;
  }
  size_t padded_block(size_t size) const noexcept {
    return size * size_t(plan_.member_count_max);
  }
  status gather(const void *own_block, size_t size);
  status reduce_in_place(const reduction &op, void *target, const void *source, size_t count);
  const std::byte *gathered_block(int32_t member, size_t size) const noexcept;

  channel_ref channel_;
  group const &members_;
  node_plan plan_;
  group local_members_, leader_members_;
  std::byte *shared_;                // symmetric memory of control_layout::shared_size bytes
  size_t area_size_;                 // bytes that leaders can gather
  std::vector<std::byte> gathered_;  // by node, then by place
  std::vector<std::byte> node_block_;
  std::optional<mapped_group> local_;    // null: no other member is on this node
  std::optional<fabric_group> leaders_;  // null: this member is no leader
};

}  // namespace tanada::shmem
