// products/shmem/collectives/stalls.hpp: detects waits that cannot end, because a PE has left the
// job and all remaining PEs wait.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "products/shmem/collectives/departures.hpp"

namespace tanada::shmem {

// Each PE publishes in its own control memory that it waits. A PE that has waited for long reads
// what the others have published. It has proof of a stall when, after a PE has left,
//  1. all that remain have published a wait,
//  2. the same waits continue later, and
//  3. each has since polled its condition at least twice more, without success.
// Between 1 and 2 no PE ran code of the program, so the second poll in 3 saw the effect of all
// earlier operations. A wait is published only while nothing but the waiting thread can act for the
// PE: see start().
//
// Thread safety: one thread, the one that waits.
class stall_detector {
 public:
  stall_detector(const channel_ref &channel, const control_layout &layout, departures &departed)
      : channel_{channel}, layout_{layout}, departures_{departed} {}

  // Nothing is published before this call. `is_settled` is called at each check. It returns true if
  // only the calling thread acts for this PE and no operation that it started is in flight.
  void start(std::function<bool()> is_settled) {
    is_settled_ = std::move(is_settled);
  }

  // The wait of this call polled without success. Returns true if it cannot end; describe() has the
  // reason.
  bool check(const char *call);
  // The wait is over.
  void end();

  // The departed PE that the message names.
  const departure &cause() const noexcept {
    return cause_;
  }
  // For example "PE 1 in shmem_long_wait_until, PE 2 in shmem_set_lock"; empty before a stall has
  // been detected.
  const std::string &describe() const noexcept {
    return description_;
  }

 private:
  struct observation {
    onesided::pe_index pe;
    uint64_t number, poll_count;
  };

  void publish(const char *call);
  bool observe(std::vector<observation> &samples);
  bool is_proof(std::vector<observation> samples);
  void note_stall(const std::vector<observation> &waiting);

  channel_ref channel_;
  const control_layout &layout_;
  departures &departures_;
  std::function<bool()> is_settled_;
  std::vector<observation> first_;  // the first of all PEs waiting; empty: none
  bool is_confirmed_ = false;       // the poll counts in first_ were read after all its numbers
  uint64_t since_ns_ = 0;           // time of the first observation
  departure cause_{};
  std::string description_;
};

}  // namespace tanada::shmem
