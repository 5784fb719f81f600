// products/shmem/collectives/mapped_group.hpp: collective operations of members that all map one
// another's memory, by loads and stores.
#pragma once

#include "products/shmem/collectives/control.hpp"
#include "products/shmem/collectives/fabric_group.hpp"
#include "products/shmem/collectives/group.hpp"
#include "products/shmem/collectives/reduction.hpp"

namespace tanada::shmem {

// As fabric_group, which has the contracts. `areas`: the members' exchange areas, in their order.
// `number`: an upper bound of the words in the areas, equal in all members; operations are numbered
// from there.
//
// There are three algorithms. Entries: each member puts its data, or none, and the operation's
// number into its next entry, and reads the entries of the others: one step. Push: each member
// stores into all targets, then all sync. Slices: all sync, each member combines its part of all
// sources and stores it into all targets, and all sync again.
//
// With more PEs than processors, waiting members sleep: the last member to enter a sync wakes all
// others, and none is woken before. Otherwise each member polls the words that it waits for.
class mapped_group {
 public:
  mapped_group(channel_ref channel,
               const group &members,
               std::vector<mapped_exchange_area *> areas,
               uint64_t number,
               bool is_oversubscribed)
      : channel_{channel},
        members_{members},
        areas_{std::move(areas)},
        own_area_{areas_[size_t(members.me)]},
        is_oversubscribed_{is_oversubscribed},
        syncs_{number},
        number_{number},
        finished_{number} {
    TND_ASSERT(areas_.size() == members.pes.size());
    TND_ASSERT(own_area_ != nullptr);
  }

  status sync();
  // A sync of which member 0 does `work` when all have entered, before any of them returns.
  template <class Work>
  status sync_around(Work &&work) {
    if (members_.me != 0)
      return arrive();
    TND_TRY(await_arrivals());
    TND_TRY(work());
    release_all();
    return status::ok;
  }
  status broadcast(void *target, const void *source, size_t size, int32_t root, bool to_itself);
  status alltoall(void *target, const void *source, size_t size);
  status alltoall_strided(void *target, const void *source, const fabric_group::strides &shape);
  status fcollect(void *target, const void *source, size_t size);
  status collect(void *target, const void *source, size_t size);
  status reduce(const reduction &op, void *target, const void *source, size_t count);
  status scan(const reduction &op, scan_kind kind, void *target, const void *source, size_t count);

  // Returns the highest number that a word of an area may hold.
  uint64_t number() const noexcept {
    return std::max(syncs_, number_);
  }

 private:
  using entry = mapped_exchange_area::entry;

  status arrive();
  status await_arrivals();
  void release_all() noexcept;
  status sync_by_rounds();
  status sync_by_count();
  // Every wait of this class is for an exchange area, of any member. A member that changes an area
  // wakes those that may wait for it.
  status wait_for(const uint64_t &word, uint64_t number) const;
  void wake_member(int32_t member) const noexcept {
    channel_.job->wake(members_.pe(member), own_area_, sizeof *own_area_);
  }
  void wake_all() const noexcept;

  // Returns this PE's entry for the next operation, free to be written. All members are at this
  // operation or will reach it.
  result<entry *> next_entry();
  // publish() lets others read this PE's entry of this operation. After exchange_entries(), which
  // all members call, all entries may be read.
  void publish();
  status exchange_entries();
  // Returns a member's entry of this operation, after it has been published.
  result<const entry *> entry_of(int32_t member);
  void note_all_entered() noexcept {
    finished_ = number_ - 1;
  }

  // Returns where symmetric memory of a member is mapped in this process; null if it is not
  // symmetric.
  std::byte *mapped_address(const void *addr, size_t size, int32_t member) const noexcept {
    return channel_.job->map().locate(addr, size, members_.pe(member)).mapped;
  }
  status alltoall_by_entries(std::byte *target, const void *source, size_t size);
  status push_block(void *target, const void *source, size_t size);
  status finish_reading(int32_t root);
  status broadcast_pulled(
      void *target, const void *source, size_t size, int32_t root, bool to_itself);
  status reduce_slice(const reduction &op, void *target, const void *source, part own_part);
  status scan_slice(
      const reduction &op, scan_kind kind, void *target, const void *source, part own_part);
  status scan_piece(const reduction &op,
                    scan_kind kind,
                    std::byte *target,
                    const std::byte *source,
                    size_t count);

  channel_ref channel_;
  const group &members_;
  std::vector<mapped_exchange_area *> areas_;
  mapped_exchange_area *own_area_;
  bool is_oversubscribed_;
  uint64_t syncs_;     // number of the last sync
  uint64_t number_;    // number of the last operation with entries
  uint64_t finished_;  // the last operation that all members are known to have finished
};

}  // namespace tanada::shmem
