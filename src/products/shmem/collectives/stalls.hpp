// products/shmem/collectives/stalls.hpp: waits that cannot end, because a PE has left
// the job and all that remain wait as well.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "products/shmem/collectives/departures.hpp"

namespace tanada::shmem {

// Each PE publishes in its own control memory that it waits. A PE that has
// waited for long reads what the others have published. It has proof of a stall
// when, after a PE has left,
//  1. all that remain have published a wait,
//  2. the same waits go on later, and
//  3. each has since looked twice more at what it waits for, in vain.
// Between 1 and 2 no PE ran code of the program, so the second look in 3 saw
// the effect of all that was done before. A wait is published only while
// nothing but the waiting thread can act for the PE: see start().
//
// Thread safety: one thread, the one that waits.
class stall_detector {
 public:
  stall_detector(const wires &by, const control_layout &layout, departures &all, size_t world_slot)
      : by_{by}, layout_{layout}, departures_{all}, world_slot_{world_slot} {}

  // Until this is called nothing is published. `is_settled`: only the calling
  // thread acts for this PE, and no operation that it started is under way;
  // asked at each look.
  void start(std::function<bool()> is_settled) {
    is_settled_ = std::move(is_settled);
  }

  // The wait of this call has looked in vain. True: it cannot end, and
  // describe() says why.
  bool look(const char *call);
  // The wait is over.
  void end();

  // The PE that has left; the departure that a message is about.
  const departure &cause() const noexcept {
    return cause_;
  }
  // "PE 1 in shmem_long_wait_until, PE 2 in shmem_set_lock"; empty before a
  // stall was found.
  const std::string &describe() const noexcept {
    return description_;
  }

 private:
  struct observation {
    pgas::pe_index pe;
    uint64_t number, looks;
  };

  void publish(const char *call);
  bool observe(std::vector<observation> &into);
  bool is_proof(std::vector<observation> now);
  void note_stall(const std::vector<observation> &waiting);

  wires by_;
  const control_layout &layout_;
  departures &departures_;
  size_t world_slot_;
  std::function<bool()> is_settled_;
  std::vector<observation> first_;  // all wait; empty: no such observation
  bool is_confirmed_ = false;       // the looks in first_ were read after all numbers in it
  uint64_t since_ns_ = 0;           // when first_ was made
  departure cause_{};
  std::string description_;
};

}  // namespace tanada::shmem
