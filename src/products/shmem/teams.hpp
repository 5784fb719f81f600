// products/shmem/teams.hpp: teams, which are ordered subsets of the job's PEs, and the set of all
// teams of a PE.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/shmem/collectives/departures.hpp"
#include "products/shmem/collectives/fabric_group.hpp"
#include "products/shmem/collectives/mapped_group.hpp"
#include "products/shmem/collectives/node_group.hpp"
#include "products/shmem/collectives/stalls.hpp"

namespace tanada::shmem {

inline constexpr size_t team_count_max =
    64;  // teams of a PE at a time, the predefined ones included

// One member's view of a team.
//
// Thread safety: queries, any thread; a collective operation, one thread at a time. Different teams
// are independent.
struct team {
  team(channel_ref channel, group members, size_t slot, int context_count);
  team(const team &) = delete;
  team &operator=(const team &) = delete;

  int32_t count() const noexcept {
    return members_.count();
  }
  int32_t me() const noexcept {
    return members_.me;
  }
  const group &members() const noexcept {
    return members_;
  }

  // Returns -1 if there is no such member.
  onesided::pe_index pe_of(int32_t member) const noexcept {
    return uint32_t(member) < uint32_t(count()) ? members_.pe(member) : -1;
  }
  int32_t member_of(onesided::pe_index pe) const noexcept {
    return uint32_t(pe) < numbers_.size() ? numbers_[size_t(pe)] : -1;
  }

  // The maximum of simultaneous contexts, as requested when the team was created.
  int context_count() const noexcept {
    return context_count_;
  }

  // True for teams that kernels may use, too.
  bool is_device_team() const noexcept {
    return is_device_team_;
  }
  size_t slot() const noexcept {
    return slot_;
  }

  // True if the memory of all members is mapped in this process.
  bool is_mapped() const noexcept {
    return mapped_.has_value();
  }

  // Counts the operations that this PE has entered. The operations are the same in all members.
  void enter() noexcept {
    entered_.store(entered() + 1, std::memory_order_relaxed);
  }
  uint64_t entered() const noexcept {
    return entered_.load(std::memory_order_relaxed);
  }

 private:
  friend class team_set;
  friend class collective;

  channel_ref channel_;
  group members_;
  std::vector<int32_t> numbers_;  // by PE
  size_t slot_;
  int context_count_;
  bool is_device_team_ = false;
  std::atomic<uint64_t> entered_{0};
  std::unique_ptr<wait_guard> guard_;  // for waits in its operations
  std::optional<mapped_group> mapped_;
  std::optional<fabric_group> fabric_;  // for unmapped members and for device memory
  std::optional<node_group> nodes_;     // for members on several nodes of which one has several
};

// All teams of a PE. Each has a slot of the control memory, the same slot in all its members.
//
// Thread safety: any thread. Splits of one parent and the destruction of a team are collective
// operations of that team.
class team_set {
 public:
  // Returns the control memory that the job must have been started with, in bytes.
  static size_t control_size(onesided::pe_index pe_count) {
    return control_layout{pe_count, team_count_max + 1}.size();
  }

  // How teams of mapped members communicate. Must be equal in all PEs.
  enum class group_mode : uint8_t {
    mapped,                 // depending on whether the node is oversubscribed
    mapped_oversubscribed,  // as if it were, or were not: for tests
    mapped_dedicated,
    fabric,  // as if no member were mapped, in one level: for tests
  };

  // The set owns the job's control memory. The context is used only by the collectives.
  explicit team_set(channel_ref channel, group_mode mode = group_mode::mapped);
  ~team_set();

  team &world() noexcept {
    return *world_;
  }
  team &shared() noexcept {
    return *shared_;
  }  // the PEs whose memory this process maps
  // A second team of all PEs, for the deprecated calls, which may interleave with those of the
  // world in any order.
  team &legacy_world() noexcept {
    return *legacy_world_;
  }

  // Collective over all PEs, once, after the last operation of any team: all PEs leave the job. It
  // pairs with no other operation. While this PE waits for the others, it announces its departure
  // to them, and their operations that need it fail with peer_lost. All puts of this PE by any
  // context are complete.
  status leave(departure_kind kind);

  // Returns the departure that made an operation fail with peer_lost; nullopt if there was another
  // reason.
  std::optional<departure> departed() const noexcept {
    return departures_.reported();
  }

  // The guard of waits that any other PE may satisfy. `call` is the name of the waiting call.
  wait_guard &guard_for(const char *call) noexcept {
    departure_guard_->set_call(call);
    return *departure_guard_;
  }
  // Detects waits that cannot end because all remaining PEs wait.
  stall_detector &stalls() noexcept {
    return stalls_;
  }

  // Collective over all PEs, before any split, in a job with devices: creates the device teams. One
  // has all PEs. The other has the PEs of the node if each one's device reaches the memory of all
  // the others' devices; otherwise it has only this PE. Both are null before. Teams split from a
  // device team are device teams.
  status start_devices();
  team *device_world() noexcept {
    return device_world_;
  }
  team *device_shared() noexcept {
    return device_shared_;
  }
  // Returns null if that slot has no device team.
  team *device_team_at(size_t index) noexcept;

  // Collective over the parent, with equal arguments. Members of the parent that are not in the new
  // team get null. invalid: a member is not in the parent, or the team would be empty. no_space, in
  // all members of the parent: some new member is in as many teams as it can be. Otherwise as
  // `collective`. Threads may split different parents at the same time.
  struct stride {
    int start, step, count;
  };
  result<team *> split(team &parent, const stride &subset, int context_count);

  // Splits into rows of `row` members. Returns this member's row and its column.
  struct axes {
    team *row, *column;
  };
  result<axes> split_2d(team &parent, int row, int row_context_count, int column_context_count);

  // A member's vote on the slot of a new team: the slots that are free in it, one bit each, and a
  // number that no word of its mapped exchange areas exceeds.
  struct ballot {
    uint64_t free, number;
  };

  // Returns true if the team is in this set.
  bool has(const team *team_ptr);

  // Collective over the team. Destroys the object. invalid: the team is a predefined one.
  status destroy(team *team_ptr);

 private:
  struct slot {
    std::unique_ptr<team> owner;
    // By level: consumed signals of the exchange area; they outlive the team.
    std::array<std::vector<uint64_t>, area_level_count> consumed;
  };

  struct slot_choice {
    size_t slot;
    uint64_t number;  // no word of the mapped exchange areas holds a higher one
  };
  team *make(group members,
             const slot_choice &choice,
             int context_count,
             bool is_device_team = false) TND_REQUIRES(mutex_);
  void set_guard(team &target);
  void set_groups(team &target, uint64_t number) TND_REQUIRES(mutex_);
  std::vector<mapped_exchange_area *> mapped_areas(const team &source) const;
  void set_node_group(team &target, node_group::node_areas shared) TND_REQUIRES(mutex_);
  bool is_oversubscribed() const noexcept;
  std::vector<departures::membership> memberships();
  ballot prepare_ballot();
  bool reserve_slot(size_t index);
  void return_slot(size_t index);
  result<slot_choice> agree_on_slot(team &parent, bool is_member);
  result<team *> create_team(team &parent, std::optional<group> members, int context_count);
  fabric_signals signals_for_slot(size_t slot_index, area_level level) TND_REQUIRES(mutex_);
  void set_areas(fabric_signals &signals, size_t slot_index, area_level level) const;

  channel_ref channel_;
  group_mode mode_;
  control_layout layout_;
  departures departures_;
  stall_detector stalls_;
  std::unique_ptr<departure_guard> departure_guard_;
  mutex mutex_;
  std::vector<slot> slots_ TND_GUARDED_BY(mutex_);
  uint64_t free_ TND_GUARDED_BY(mutex_);  // one bit for each slot
  // The highest number in the mapped exchange areas of free slots.
  uint64_t number_ TND_GUARDED_BY(mutex_);
  team *world_;
  team *shared_;
  team *legacy_world_;
  team *exit_team_;
  team *device_world_ = nullptr;
  team *device_shared_ = nullptr;
};

}  // namespace tanada::shmem
