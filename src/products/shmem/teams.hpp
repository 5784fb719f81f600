// products/shmem/teams.hpp: PEs that act together, numbered anew; and which teams there are.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/shmem/collectives/departures.hpp"
#include "products/shmem/collectives/far.hpp"
#include "products/shmem/collectives/near.hpp"
#include "products/shmem/collectives/stalls.hpp"

namespace tanada::shmem {

inline constexpr size_t team_count_max =
    64;  // of which a PE is a member at a time, those that are there from the start among them

// A team as one of its members sees it.
//
// Thread safety: queries, any thread; a collective operation, one thread at a time. Different teams
// are independent.
struct team {
  team(wires by, group members, size_t slot, int context_count);
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

  // -1: there is no such member.
  pgas::pe_index pe_of(int32_t member) const noexcept {
    return uint32_t(member) < uint32_t(count()) ? members_.pe(member) : -1;
  }
  int32_t member_of(pgas::pe_index pe) const noexcept {
    return uint32_t(pe) < numbers_.size() ? numbers_[size_t(pe)] : -1;
  }

  // Contexts that may exist at a time, as asked for when the team was made.
  int context_count() const noexcept {
    return context_count_;
  }

  // Of the teams that kernels know, too.
  bool is_of_devices() const noexcept {
    return is_of_devices_;
  }
  size_t slot() const noexcept {
    return slot_;
  }

  // All members' memory is mapped here.
  bool is_near() const noexcept {
    return near_.has_value();
  }

  // Operations that this PE has entered, the same ones in all members.
  void enter() noexcept {
    entered_.store(entered() + 1, std::memory_order_relaxed);
  }
  uint64_t entered() const noexcept {
    return entered_.load(std::memory_order_relaxed);
  }

 private:
  friend class team_set;
  friend class collective;

  wires by_;
  group members_;
  std::vector<int32_t> numbers_;  // by PE
  size_t slot_;
  int context_count_;
  bool is_of_devices_ = false;
  std::atomic<uint64_t> entered_{0};
  std::unique_ptr<wait_guard> guard_;  // of its operations
  std::optional<near_group> near_;
  std::optional<far_group> far_;  // where members are not mapped, and for memory of devices
};

// The teams of a PE. Each has a slot of the control memory, the same in all its members.
//
// Thread safety: any thread; splits of one parent and the destruction of one team are collective
// operations of it.
class team_set {
 public:
  // Control memory that the job must have been started with.
  static size_t control_size(pgas::pe_index pe_count) {
    return control_layout{pe_count, team_count_max + 1}.size();
  }

  // What teams of members that are all mapped do. Equal in all PEs.
  enum class means : uint8_t {
    stores,          // by whether the node is crowded
    stores_crowded,  // as if it were, or were not: for tests
    stores_roomy,
    contexts,  // as if nobody were mapped: for tests
  };

  // The job's control memory belongs to the set. The context is for the collectives alone.
  explicit team_set(wires by, means near = means::stores);
  ~team_set();

  team &world() noexcept {
    return *world_;
  }
  team &shared() noexcept {
    return *shared_;
  }  // the PEs whose memory is mapped here
  // All PEs again, for deprecated calls, which may come between those of the world in any order.
  team &everybody() noexcept {
    return *everybody_;
  }

  // Collective over all, once, after the last operation of any team: all PEs leave the job. It
  // pairs with no other operation. While others do not come, they receive this PE's departure:
  // operations that wait for it fail in them, with peer_lost. What this PE has put by any context
  // is complete.
  status leave(departure_kind kind);

  // Why an operation failed with peer_lost, if because a PE has left.
  std::optional<departure> departed() const noexcept {
    return departures_.reported();
  }

  // For waits of this call for whatever others may do.
  wait_guard &desertion(const char *call) noexcept {
    desertion_->set_call(call);
    return *desertion_;
  }
  // Waits that cannot end because all PEs that remain wait.
  stall_detector &stalls() noexcept {
    return stalls_;
  }

  // Collective over all, before any split, in a job with devices: the teams of devices. All PEs;
  // and those of the node, if the device of each reaches the memory of all the others', else each
  // PE alone. Null before. Those split from them are of devices.
  status start_devices();
  team *device_world() noexcept {
    return device_world_;
  }
  team *device_shared() noexcept {
    return device_shared_;
  }
  // Null: there is no team of devices in that slot.
  team *device_team_at(size_t index) noexcept;

  // Collective over the parent, with equal arguments. Members of the parent that are not members of
  // the new team get null. invalid for members that the parent does not have, or fewer than one;
  // no_space when a member-to-be is in as many teams as it can be, in all members of the parent;
  // else as collective.
  struct stride {
    int start, step, count;
  };
  result<team *> split(team &parent, const stride &which, int context_count);

  // In rows of `row` members: this member's row, and its column.
  struct axes {
    team *row, *column;
  };
  result<axes> split_2d(team &parent, int row, int row_context_count, int column_context_count);

  // It is a team of this set.
  bool has(const team *which);

  // Collective over the team, whose object is gone afterwards. invalid for those that are there
  // from the start.
  status destroy(team *which);

 private:
  struct slot {
    std::unique_ptr<team> owner;
    std::vector<uint64_t> taken;  // of the counters of the far board: they outlive the team
  };

  struct place {
    size_t slot;
    uint64_t number;  // the near boards' words hold no higher ones
  };
  team *make(group members, const place &at, int context_count, bool is_of_devices = false);
  std::vector<departures::membership> memberships();
  result<team *> found(team &parent, std::optional<group> members, int context_count);
  far_words words_of(size_t slot_index);

  wires by_;
  means near_;
  control_layout layout_;
  departures departures_;
  stall_detector stalls_;
  std::unique_ptr<desertion_guard> desertion_;
  mutex mutex_;
  std::vector<slot> slots_;
  uint64_t free_;    // a bit a slot
  uint64_t number_;  // the highest that a word of any near board holds
  team *world_, *shared_, *everybody_, *leaving_, *device_world_ = nullptr,
                                                  *device_shared_ = nullptr;
};

}  // namespace tanada::shmem
