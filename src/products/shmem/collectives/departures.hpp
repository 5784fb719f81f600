// products/shmem/collectives/departures.hpp: PEs that have left the job, and waits that therefore
// cannot end.
#pragma once

#include <atomic>
#include <optional>

#include "products/shmem/collectives/control.hpp"
#include "products/shmem/collectives/group.hpp"

namespace tanada::shmem {

enum class departure_kind : uint32_t {
  finalize,  // the PE called shmem_finalize
  exit,      // the program ended without it
};

struct departure {
  onesided::pe_index pe;
  departure_kind kind;
};

// Returns a number that differs between teams of different members, and is not 0.
uint64_t identity_of(const group &members) noexcept;

// Records the departed PEs known to this PE, and announces its own departure. A departing PE
// records, for each team, how many operations of the team it has entered. A member in a later
// operation would wait for it without end.
//
// The words are in the job's control memory. A departing PE writes its records in its own, then by
// contexts a word in that of each other PE, and then raises the departure counts. The others read
// the records while they wait, as it stays in the job until all PEs leave.
//
// Thread safety: any thread, but announce() is called once.
class departures {
 public:
  departures(const channel_ref &channel, const control_layout &layout)
      : channel_{channel}, layout_{layout} {}

  struct membership {
    const group *members;
    size_t slot;
    uint64_t entered;  // operations of the team that this PE has entered
  };
  // Not collective. All earlier puts of this PE are complete. Unreachable peers are skipped.
  void announce(departure_kind kind, const std::vector<membership> &teams);

  // Returns how many PEs have announced their departure to this one.
  uint64_t count() const noexcept {
    return __atomic_load_n(count_word(), __ATOMIC_ACQUIRE);
  }

  // A team as the records name it.
  struct team_key {
    const group *members;
    size_t slot;
    uint64_t identity;  // identity_of(*members)
  };
  // Returns a member that departed before it entered this many operations of the team. A member
  // that was no longer in the team has entered all of them.
  std::optional<departure> find_absent(const team_key &key, uint64_t entered) const noexcept;

  // Returns any of these PEs that has departed.
  std::optional<departure> find_departed(const group &members) const noexcept;

  // Returns the departure of one PE; nullopt if it has not departed.
  std::optional<departure> departure_of(onesided::pe_index pe) const noexcept;

  // The departure that made a wait fail with peer_lost, kept for the message that ends the job.
  // nullopt: the wait failed for another reason.
  void report(const departure &reason) noexcept;
  std::optional<departure> reported() const noexcept;

 private:
  void record(const std::vector<membership> &teams) noexcept;
  bool has_entered(onesided::pe_index pe, const team_key &key, uint64_t entered) const noexcept;
  uint64_t *count_word() const noexcept {
    return layout_.departure_count(channel_.job->control());
  }

  channel_ref channel_;
  const control_layout &layout_;
  std::atomic<uint64_t> reported_{0};  // encoded as a departure word
};

class stall_detector;  // stalls.hpp

// The guard of waits in operations of a team.
class team_guard final : public wait_guard {
 public:
  struct detector_refs {
    departures &departed;
    stall_detector &stalls;
  };
  team_guard(detector_refs detectors,
             const group &members,
             size_t slot,
             const std::atomic<uint64_t> &entered)
      : detectors_{detectors}, key_{&members, slot, identity_of(members)}, entered_{entered} {}
  status check() override;
  void end() override;

 private:
  detector_refs detectors_;
  departures::team_key key_;
  const std::atomic<uint64_t> &entered_;
};

// The guard of waits that any other PE may satisfy. They cannot end when all others have departed
// or wait, too.
class departure_guard final : public wait_guard {
 public:
  // `members`: all PEs.
  departure_guard(team_guard::detector_refs detectors, const group &members)
      : detectors_{detectors}, members_{members} {}
  status check() override;
  void end() override;

  // Sets the name of the next waiting call, for messages; the string outlives the guard.
  void set_call(const char *call) noexcept {
    call_.store(call, std::memory_order_relaxed);
  }

 private:
  team_guard::detector_refs detectors_;
  const group &members_;
  std::atomic<const char *> call_{""};
};

}  // namespace tanada::shmem
