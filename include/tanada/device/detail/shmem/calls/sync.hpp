// tanada/device/detail/shmem/calls/sync.hpp: synchronization of a team's PEs. Not for direct
// inclusion.
//
// A collective has a number in its team, its epoch. Each PE has a word for each member of a team,
// which only that member writes: the last epoch at which it arrived.
#pragma once

#include "wait.hpp"

namespace tanada::shmem::device {

// A team in one collective, the same in all threads of the group.
struct member_view {
  u32 index;
  team_entry team;
  u64 epoch;
  bool is_settled = false;  // the group's stores before its arrival are already performed: no fence
                            // is needed

  TND_DEVICE int world(int member) const {
    return team.world_pes == nullptr ? member : simt::constant(team.world_pes[member]);
  }
};

TND_DEVICE inline control_shape shape() {
  return {u32(job_view().count), job_view().box_size};
}

// This PE's word for a member. With a member's distance added: that member's word for this PE.
TND_DEVICE inline u64 *arrival_of(const member_view &self, int member) {
  return reinterpret_cast<u64 *>(job_view().control + shape().arrivals(self.index)) + member;
}

TND_DEVICE inline bool find_team(u64 team, member_view &self) {
  u64 const index = team - team_first;
  if (index >= team_count_max || job_view().teams == nullptr)
    return false;
  self.index = u32(index);
  self.team = index < first_team_count ? job_view().first_teams[index]
                                       : simt::constant(job_view().teams[index]);
  return self.team.count > 0;
}

// The next epoch, until a thread records it.
TND_DEVICE inline u64 next_epoch(const member_view &self) {
  return simt::device_atomic<u64>(job_view().live->teams[self.index].epoch).load_relaxed() + 1;
}

// Called by the leader after all threads have read the epoch. `meets`: each member waits for all
// others in it, so a member that ends it knows that all have ended the previous one. Best called
// after arrivals are sent, because their fence waits for stores.
template <class Group>
TND_DEVICE inline void record_epoch(Group group, const member_view &self, bool meets) {
  if (group.rank() != 0)
    return;
  team_progress &progress = job_view().live->teams[self.index];
  simt::device_atomic<u64>(progress.epoch).store_relaxed(self.epoch);
  if (meets)
    simt::device_atomic<u64>(progress.safe).store_relaxed(self.epoch - 1);
}

template <class Group>
TND_DEVICE inline void begin(Group group, member_view &self, bool meets) {
  self.epoch = next_epoch(self);
  group.sync();
  record_epoch(group, self, meets);
}

// One thread: report this PE's arrival to a member. Earlier stores are already performed.
TND_DEVICE inline status send_arrival(const member_view &self, int member) {
  u64 *const word = arrival_of(self, self.team.me);
  int const pe = self.world(member);
  u64 const distance = distance_to(pe);
  if (distance == unreached)
    return host_update(update_kind::swap, word, self.epoch, 0, 8, pe, nullptr);
  simt::system_atomic<u64>(*reinterpret_cast<u64 *>(word_of(word) + distance))
      .store_relaxed(self.epoch);
  return status::ok;
}

TND_DEVICE inline status await_arrival(const member_view &self, int member) {
  u64 last = 0;
  return wait_by_one(
      arrival_of(self, member), 3, self.epoch, last, [](status) {});  // agree() records it
}

// Agree on a status where some of the threads may have failed: a PE has failed, or the timeout has
// expired. Also a group.sync().
template <class Group>
TND_DEVICE inline status agree(Group group, status own_status, site call_site) {
  if (!sync_any(group, own_status != status::ok))
    return status::ok;
  if (own_status != status::ok)
    record_fault(own_status, call_site, nullptr, job_view().me);
  bool const is_lost =
      group.broadcast(simt::system_atomic<u64>(job_view().live->failed_pe).load_relaxed()) != 0;
  return is_lost ? status::peer_lost : status::timed_out;
}

// Stores of the group before its last group.sync() are visible to a member that sees the arrival.
// Each sending thread has its own fence, because a fence of one thread and a store of another do
// not form a release.
template <class Group>
TND_DEVICE inline status send_arrivals(Group group, const member_view &self) {
  int const count = self.team.count, step = int(group.size());
  if (!self.is_settled && int(group.rank()) < count)
    simt::fence_stores();
  status code = status::ok;
  for (int i = int(group.rank()); i < count; i += step) {
    if (i != self.team.me && code == status::ok)
      code = send_arrival(self, i);
  }
  return code;
}

// Wait until all members have arrived, unless this thread has failed before. Ends with a
// group.sync().
template <class Group>
TND_DEVICE inline status await_arrivals(Group group,
                                        const member_view &self,
                                        site call_site,
                                        status code) {
  for (int i = int(group.rank()); i < self.team.count; i += int(group.size())) {
    if (i != self.team.me && code == status::ok)
      code = await_arrival(self, i);
  }
  return agree(group, code, call_site);
}

// Every member sends its arrival to all others and waits for theirs.
template <class Group>
TND_DEVICE inline status meet(Group group, const member_view &self, site call_site) {
  return await_arrivals(group, self, call_site, send_arrivals(group, self));
}

// As meet(), and record the epoch, which all threads have read.
template <class Group>
TND_DEVICE inline status meet_and_record(Group group, const member_view &self, site call_site) {
  status const code = send_arrivals(group, self);
  record_epoch(group, self, true);
  return await_arrivals(group, self, call_site, code);
}

template <class Group>
TND_DEVICE inline status sync(Group group,
                              u64 team,
                              site call_site = site::sync,
                              bool is_settled = false) {
  member_view self;
  if (!find_team(team, self))
    return failed(group, status::invalid, call_site, nullptr, job_view().me);
  self.is_settled = is_settled;
  self.epoch = next_epoch(self);
  group.sync();
  return meet_and_record(group, self, call_site);
}

// A quiet for the group's operations, then a sync.
template <class Group>
TND_DEVICE inline status barrier(Group group, u64 team, bool is_settled = false) {
  if (job_view().has_unmapped != 0) {
    status const code = quiet(group, context_first);
    if (code != status::ok)
      return code;
  }
  return sync(group, team, site::barrier, is_settled);
}

}  // namespace tanada::shmem::device
