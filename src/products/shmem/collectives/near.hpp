// products/shmem/collectives/near.hpp: collective operations of members that all map one another's
// memory, by loads and stores.
#pragma once

#include "products/shmem/collectives/control.hpp"
#include "products/shmem/collectives/far.hpp"
#include "products/shmem/collectives/group.hpp"
#include "products/shmem/collectives/reduction.hpp"

namespace tanada::shmem {

// As far_group (there: contracts). `boards`: of the members, in their order. `number`: what the
// boards' words have reached at most, the same in all members; operations go on from there.
//
// Three ways. Hand over: each puts its data, or nothing, with the number of the operation into its
// next entry, and reads the entries of others: one step. Push: each stores into the targets, then
// all meet. Slices: all meet, each works on its part of all sources and stores it into all targets,
// all meet.
//
// Where there are more PEs than processors, members that wait are asleep: who comes last to a
// meeting wakes all others, and nobody is woken before. Elsewhere each looks at the words of those
// it waits for.
class near_group {
 public:
  near_group(wires by, const group &members, std::vector<near_board *> boards, uint64_t number,
             bool is_crowded)
      : by_{by},
        members_{members},
        boards_{std::move(boards)},
        mine_{boards_[size_t(members.me)]},
        is_crowded_{is_crowded},
        syncs_{number},
        number_{number},
        met_{number} {}

  status sync();
  status broadcast(void *target, const void *source, size_t size, int32_t root, bool to_itself);
  status alltoall(void *target, const void *source, size_t size);
  status alltoall_strided(void *target, const void *source, const far_group::strides &shape);
  status fcollect(void *target, const void *source, size_t size);
  status collect(void *target, const void *source, size_t size);
  status reduce(const reduction &what, void *target, const void *source, size_t count);
  status scan(const reduction &what, scan_kind kind, void *target, const void *source,
              size_t count);

  // The highest number that a word of a board may hold.
  uint64_t number() const noexcept {
    return std::max(syncs_, number_);
  }

 private:
  using entry = near_board::entry;

  status sync_by_rounds();
  status sync_by_count();
  // Whoever waits here waits for a board, of whatever member; who changes a board tells those who
  // may.
  status reach(const uint64_t &word, uint64_t number) const;
  void ring(int32_t member) const noexcept {
    by_.job->ring(members_.pe(member), mine_, sizeof *mine_);
  }
  void ring_all() const noexcept;

  // The next operation's entry of ours, free to be written. All members are at this operation, or
  // will come to it.
  result<entry *> next_entry();
  // Let others read our entry of this operation. After `hand_over`, which all call, all entries are
  // to be read.
  void publish();
  status hand_over();
  // A member's entry of this operation, when it is there.
  result<const entry *> entry_of(int32_t member);
  void note_all_entered() noexcept {
    met_ = number_ - 1;
  }

  // Where symmetric memory of a member lies here; null if it is none.
  std::byte *there(const void *addr, size_t size, int32_t member) const noexcept {
    return by_.job->map().locate(addr, size, members_.pe(member)).mapped;
  }
  status push_block(void *target, const void *source, size_t size);
  status finish_reading(int32_t root);
  status broadcast_pulled(void *target, const void *source, size_t size, int32_t root,
                          bool to_itself);
  status reduce_slice(const reduction &what, void *target, const void *source, part mine);
  status scan_slice(const reduction &what, scan_kind kind, void *target, const void *source,
                    part mine);

  wires by_;
  const group &members_;
  std::vector<near_board *> boards_;
  near_board *mine_;
  bool is_crowded_;
  uint64_t syncs_;   // numbers of rounds and of release
  uint64_t number_;  // of the last operation of entries
  uint64_t met_;     // all members have finished this one
};

}  // namespace tanada::shmem
