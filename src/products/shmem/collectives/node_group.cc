// Collective operations in two levels.
#include "products/shmem/collectives/node_group.hpp"

#include <cstring>

namespace tanada::shmem {

node_plan::node_plan(const onesided::job &job, const group &members)
    : node_of(members.pes.size()), place_of(members.pes.size()) {
  std::vector<int32_t> node_of_first_pe(size_t(job.count()), -1);
  for (int32_t member = 0; member < members.count(); member++) {
    int32_t &index = node_of_first_pe[size_t(job.first_pe_of_node(members.pe(member)))];
    if (index < 0) {
      index = node_count();
      nodes.emplace_back();
    }
    auto &node_members = nodes[size_t(index)].members;
    if (!node_members.empty() && node_members.back() != member - 1)
      is_contiguous = false;
    node_of[size_t(member)] = index;
    place_of[size_t(member)] = int32_t(node_members.size());
    node_members.push_back(member);
    member_count_max = std::max(member_count_max, int32_t(node_members.size()));
  }
}

node_group::node_group(channel_ref channel,
                       const group &members,
                       node_plan plan,
                       node_areas shared,
                       const fabric_signals &words)
    : channel_{channel},
      members_{members},
      plan_{std::move(plan)},
      shared_{words.slices_area},
      area_size_{words.area_size} {
  TND_ASSERT(plan_.has_levels() && shared_ != nullptr);
  int32_t const own_node = plan_.node_of[size_t(members.me)];
  for (int32_t const member : plan_.nodes[size_t(own_node)].members)
    local_members_.pes.push_back(members.pe(member));
  local_members_.me = plan_.place_of[size_t(members.me)];
  for (auto const &node : plan_.nodes)
    leader_members_.pes.push_back(members.pe(node.members.front()));
  leader_members_.me = own_node;
  if (local_members_.count() > 1)
    local_.emplace(
        channel, local_members_, std::move(shared.areas), shared.number, shared.is_oversubscribed);
  if (is_leader())
    leaders_.emplace(channel, leader_members_, words);
}

// The leader syncs with the other nodes while the members of its node wait.
status node_group::sync() {
  if (!local_)
    return leaders_->sync();
  return local_->sync_around([&] { return leaders_->sync(); });
}

// The root's node first: its leader passes on what it has received. Members read a large broadcast
// from the leader's source or target, so all name the same one.
status node_group::broadcast(
    void *target, const void *source, size_t size, int32_t root, bool to_itself) {
  int32_t const root_node = plan_.node_of[size_t(root)], root_place = plan_.place_of[size_t(root)];
  bool const is_root = members_.me == root, is_roots_node = leader_members_.me == root_node;
  if (is_roots_node && root_place != 0)
    TND_TRY(local_->broadcast(target, source, size, root_place, to_itself));
  if (leaders_)
    TND_TRY(leaders_->broadcast(target, is_root ? source : target, size, root_node, false));
  if (!local_ || (is_roots_node && root_place != 0))
    return is_root && !local_ && to_itself ? channel_.context->copy(target, source, size)
                                           : status::ok;
  return local_->broadcast(target, is_roots_node ? source : target, size, 0, is_root && to_itself);
}

bool node_group::can_gather(size_t size) const noexcept {
  return schedule::can_gather_by_nodes(
      size, {plan_.node_count(), plan_.member_count_max}, area_size_, control_layout::shared_size);
}

// Fills `gathered_` in all members. A node's blocks travel together.
status node_group::gather(const void *own_block, size_t size) {
  TND_ASSERT(can_gather(size));
  size_t const block = padded_block(size), total = block * size_t(plan_.node_count());
  node_block_.resize(block);
  gathered_.resize(total);
  if (local_)
    TND_TRY(local_->fcollect(node_block_.data(), own_block, size));
  else
    std::memcpy(node_block_.data(), own_block, size);
  if (leaders_) {
    TND_TRY(leaders_->gather(gathered_.data(), node_block_.data(), block));
    // Members that read the leader's memory need a symmetric address.
    if (local_ && total > mapped_exchange_area::data_size_max)
      std::memcpy(shared_, gathered_.data(), total);
  }
  if (!local_)
    return status::ok;
  bool const is_pulled = total > mapped_exchange_area::data_size_max;
  const void *const source = is_pulled ? shared_ : gathered_.data();
  return local_->broadcast(gathered_.data(), source, total, 0, false);
}

const std::byte *node_group::gathered_block(int32_t member, size_t size) const noexcept {
  size_t const node = size_t(plan_.node_of[size_t(member)]),
               place = size_t(plan_.place_of[size_t(member)]);
  return gathered_.data() + node * padded_block(size) + place * size;
}

status node_group::fcollect(void *target, const void *source, size_t size) {
  TND_TRY(gather(source, size));
  auto *const output = static_cast<std::byte *>(target);
  for (int32_t member = 0; member < members_.count(); member++)
    std::memcpy(output + size_t(member) * size, gathered_block(member, size), size);
  return status::ok;
}

status node_group::reduce(const reduction &op, void *target, const void *source, size_t count) {
  size_t const size = count * op.size;
  if (size > mapped_exchange_area::data_size_max)
    return reduce_in_place(op, target, source, count);
  if (!can_gather(size))
    return reduce_by_leaders(op, target, source, count);
  TND_TRY(gather(source, size));
  std::memcpy(target, gathered_block(0, size), size);
  for (int32_t member = 1; member < members_.count(); member++)
    op.combine(target, gathered_block(member, size), count);
  return status::ok;
}

bool node_group::can_reduce(size_t size) const noexcept {
  return can_gather(size) || plan_.is_contiguous;
}

status node_group::reduce_by_leaders(const reduction &op,
                                     void *target,
                                     const void *source,
                                     size_t count) {
  size_t const size = count * op.size;
  TND_ASSERT(plan_.is_contiguous && size <= mapped_exchange_area::data_size_max);
  node_block_.resize(size);
  if (local_)
    TND_TRY(local_->reduce(op, node_block_.data(), source, count));
  else
    std::memcpy(node_block_.data(), source, size);
  if (leaders_) {
    auto *const block = node_block_.data();
    TND_TRY(leaders_->reduce_by_areas(op, block, block, count));
  }
  if (local_)
    TND_TRY(local_->broadcast(node_block_.data(), node_block_.data(), size, 0, false));
  std::memcpy(target, node_block_.data(), size);
  return status::ok;
}

// All members of a node get its result in their targets. Then the leaders combine those of all
// nodes, and the others read from their leader.
status node_group::reduce_in_place(const reduction &op,
                                   void *target,
                                   const void *source,
                                   size_t count) {
  size_t const size = count * op.size;
  TND_ASSERT(plan_.is_contiguous);
  TND_TRY(local_ ? local_->reduce(op, target, source, count)
                 : channel_.context->copy(target, source, size));
  if (leaders_)
    TND_TRY(leaders_->reduce(op, target, target, count));
  return local_ ? local_->broadcast(target, target, size, 0, false) : status::ok;
}

}  // namespace tanada::shmem
