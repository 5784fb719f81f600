// products/shmem/collectives/departures.hpp: PEs that have left the job, and waits that cannot end
// because of it.
#pragma once

#include <atomic>
#include <optional>

#include "products/shmem/collectives/control.hpp"
#include "products/shmem/collectives/group.hpp"

namespace tanada::shmem {

enum class departure_kind : uint32_t {
  finalize,  // shmem_finalize was called
  exit,      // the program ended without it
};

struct departure {
  pgas::pe_index pe;
  departure_kind kind;
};

// What this PE knows of others that have left, and how it announces that it leaves itself. A PE
// that leaves writes for each team how many operations of the team it has entered: a member that is
// in a later one waits for it in vain.
//
// The words are in the job's control memory, written by contexts before the PE's count of
// departures is raised.
//
// Thread safety: any thread, but announce: once.
class departures {
 public:
  departures(const wires &by, const control_layout &layout) : by_{by}, layout_{layout} {}

  struct membership {
    const group *members;
    size_t slot;
    uint64_t entered;  // operations of the team that this PE has entered
  };
  // Not collective. All that this PE has put before is complete. Peers that cannot be reached are
  // left out.
  void announce(departure_kind kind, const std::vector<membership> &teams);

  // PEs that have announced their departure to this one.
  uint64_t count() const noexcept {
    return __atomic_load_n(count_word(), __ATOMIC_ACQUIRE);
  }

  // A member that has left before it entered this many operations of the team in `slot`.
  std::optional<departure> find_absent(const group &members, size_t slot,
                                       uint64_t entered) const noexcept;

  // Of one PE that has left.
  std::optional<departure> departure_of(pgas::pe_index pe, size_t slot) const noexcept;

  // Why a wait failed with peer_lost: kept for the message that ends the job. none: not because of
  // a departure.
  void report(const departure &reason) noexcept;
  std::optional<departure> reported() const noexcept;

 private:
  uint64_t *count_word() const noexcept {
    return layout_.departure_count(by_.job->control());
  }

  wires by_;
  const control_layout &layout_;
  std::atomic<uint64_t> reported_{0};  // as a word of a team whose count of operations is the PE
};

class stall_detector;  // stalls.hpp

// For waits in operations of a team.
class team_guard final : public wait_guard {
 public:
  struct source {
    departures &all;
    stall_detector &stalls;
  };
  team_guard(source from, const group &members, size_t slot, const std::atomic<uint64_t> &entered)
      : from_{from}, members_{members}, slot_{slot}, entered_{entered} {}
  status check() override;
  void end() override;

 private:
  source from_;
  const group &members_;
  size_t slot_;
  const std::atomic<uint64_t> &entered_;
};

// For waits for whatever other PEs may do: in vain when all of them have left, or wait as well.
class desertion_guard final : public wait_guard {
 public:
  // `members`: all PEs, the team in `slot`.
  desertion_guard(team_guard::source from, const group &members, size_t slot)
      : from_{from}, members_{members}, slot_{slot} {}
  status check() override;
  void end() override;

  // Which call waits next, for messages; outlives the guard.
  void set_call(const char *call) noexcept {
    call_.store(call, std::memory_order_relaxed);
  }

 private:
  team_guard::source from_;
  const group &members_;
  size_t slot_;
  std::atomic<const char *> call_{""};
};

}  // namespace tanada::shmem
