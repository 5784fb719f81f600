// products/shmem/locks.hpp: a lock of all PEs that is one symmetric word.
#pragma once

#include "products/shmem/collectives/group.hpp"

namespace tanada::shmem {

// The queue lock of Mellor-Crummey and Scott (ACM TOCS 9, 1, 1991): who comes later waits in its
// own memory until the one before hands over; first come, first served.
//
// The word is two halves. At the lock's home, a PE that its address gives: the last in the queue.
// At each PE: its place in the queue, who comes next and whether it still waits. All zero while
// nobody holds the lock.
//
// Thread safety: any thread, of which one at a time may want or hold a lock. Returns, all: ok;
// range for an address that is not symmetric, fault for one that is not aligned; peer_lost,
// timed_out, access as contexts do.
class lock {
 public:
  lock(wires by, uint64_t *word) : by_{by}, word_{word} {}

  status acquire();
  // True: it is ours now.
  result<bool> try_acquire();
  // What was done under the lock has been completed by the caller.
  status release();

 private:
  static constexpr uint32_t waits = uint32_t{1} << 31;  // in a place; the rest: the next PE + 1

  uint32_t *tail() const noexcept {
    return reinterpret_cast<uint32_t *>(word_);
  }
  uint32_t *place() const noexcept {
    return tail() + 1;
  }
  uint32_t mine() const noexcept {
    return uint32_t(by_.job->me()) + 1;
  }
  result<pgas::pe_index> home() const;

  wires by_;
  uint64_t *word_;
};

}  // namespace tanada::shmem
