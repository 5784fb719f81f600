// products/shmem/locks.hpp: the distributed lock of OpenSHMEM, which is one symmetric word.
#pragma once

#include "products/shmem/collectives/group.hpp"

namespace tanada::shmem {

// The queue lock of Mellor-Crummey and Scott (ACM TOCS 9, 1, 1991): each waiter polls its own
// memory until its predecessor hands the lock over; first come, first served.
//
// The word has two halves. One is the tail of the queue; only the copy at the lock's home counts, a
// PE that the address determines. The other is each PE's queue word: its successor, and whether the
// PE still waits. All words are zero while no PE holds the lock.
//
// Thread safety: any thread, but only one at a time may request or hold a lock. All calls return:
// ok; range: the address is not symmetric; fault: it is not aligned; peer_lost, timed_out, access
// as contexts do.
class lock {
 public:
  lock(channel_ref channel, uint64_t *word) : channel_{channel}, word_{word} {}

  status acquire();
  // Returns true if this PE now holds the lock.
  result<bool> try_acquire();
  // The caller has completed its operations under the lock. bad_state: no PE holds the lock.
  status release();

 private:
  static constexpr uint32_t waiting_flag =
      uint32_t{1} << 31;  // in a queue word; the other bits: the successor's PE + 1

  uint32_t *tail() const noexcept {
    return reinterpret_cast<uint32_t *>(word_);
  }
  uint32_t *queue_word() const noexcept {
    return tail() + 1;
  }
  uint32_t own_tag() const noexcept {
    return uint32_t(channel_.job->me()) + 1;
  }
  result<onesided::pe_index> home() const;

  channel_ref channel_;
  uint64_t *word_;
};

}  // namespace tanada::shmem
