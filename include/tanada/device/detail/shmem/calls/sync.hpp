// tanada/device/detail/shmem/calls/sync.hpp: PEs of a team meet. Not for direct inclusion.
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
  bool is_settled = false;  // what the group is to have done before it tells that it has arrived,
                            // is performed: no fence

  TND_DEVICE int world(int member) const {
    return team.world_pes == nullptr ? member : simt::constant(team.world_pes[member]);
  }
};

TND_DEVICE inline control_shape shape() {
  return {u32(here().count), here().box_size};
}

// This PE's word of a member, and by its distance another's of this one.
TND_DEVICE inline u64 *arrival_of(const member_view &of, int member) {
  return reinterpret_cast<u64 *>(here().control + shape().arrivals(of.index)) + member;
}

TND_DEVICE inline bool find_team(u64 team, member_view &found) {
  u64 const index = team - team_first;
  if (index >= team_count_max || here().teams == nullptr)
    return false;
  found.index = u32(index);
  found.team =
      index < first_team_count ? here().first_teams[index] : simt::constant(here().teams[index]);
  return found.team.count > 0;
}

// The epoch that is begun next; until somebody notes it.
TND_DEVICE inline u64 next_epoch(const member_view &in) {
  return simt::device_atomic<u64>(here().live->teams[in.index].epoch).load_relaxed() + 1;
}

// By the leader, after all threads have learnt it. `meets`: all members hear of all others in it,
// so that who has ended it knows that all have ended what was before. Best after arrivals are told:
// the fence in front of them waits for stores.
template <class Group>
TND_DEVICE inline void note(Group group, const member_view &in, bool meets) {
  if (group.rank() != 0)
    return;
  team_progress &progress = here().live->teams[in.index];
  simt::device_atomic<u64>(progress.epoch).store_relaxed(in.epoch);
  if (meets)
    simt::device_atomic<u64>(progress.safe).store_relaxed(in.epoch - 1);
}

template <class Group>
TND_DEVICE inline void begin(Group group, member_view &in, bool meets) {
  in.epoch = next_epoch(in);
  group.sync();
  note(group, in, meets);
}

// One thread: this PE has arrived, as a member is told. What was before is performed already.
TND_DEVICE inline status tell_arrival(const member_view &in, int member) {
  u64 *const word = arrival_of(in, in.team.me);
  int const pe = in.world(member);
  u64 const distance = distance_to(pe);
  if (distance == unreached)
    return far_update(update_kind::swap, word, in.epoch, 0, 8, pe, nullptr);
  simt::system_atomic<u64>(*reinterpret_cast<u64 *>(word_of(word) + distance))
      .store_relaxed(in.epoch);
  return status::ok;
}

TND_DEVICE inline status await_arrival(const member_view &in, int member) {
  u64 last = 0;
  return wait_alone(arrival_of(in, member), 3, in.epoch, last,
                    [](status) {});  // agree() records it
}

// A status for all, where some of the threads may have failed: a PE is lost, or time is up. Also a
// group.sync().
template <class Group>
TND_DEVICE inline status agree(Group group, status mine, site where) {
  if (!sync_any(group, mine != status::ok))
    return status::ok;
  if (mine != status::ok)
    record_fault(mine, where, nullptr, here().me);
  bool const is_lost =
      group.broadcast(simt::system_atomic<u64>(here().live->lost).load_relaxed()) != 0;
  return is_lost ? status::peer_lost : status::timed_out;
}

// What the group stored before its last group.sync() is there when a member has been told. Each
// thread that tells has its own fence, for a fence of one thread and a store of another make no
// release.
template <class Group>
TND_DEVICE inline status tell_all(Group group, const member_view &in) {
  int const count = in.team.count, step = int(group.size());
  if (!in.is_settled && int(group.rank()) < count)
    simt::fence_stores();
  status code = status::ok;
  for (int i = int(group.rank()); i < count; i += step)
    if (i != in.team.me && code == status::ok)
      code = tell_arrival(in, i);
  return code;
}

// Until everybody has told this PE, unless this thread has failed before. Ends with a group.sync().
template <class Group>
TND_DEVICE inline status await_all(Group group, const member_view &in, site where, status code) {
  for (int i = int(group.rank()); i < in.team.count; i += int(group.size()))
    if (i != in.team.me && code == status::ok)
      code = await_arrival(in, i);
  return agree(group, code, where);
}

// Everybody tells everybody.
template <class Group>
TND_DEVICE inline status meet(Group group, const member_view &in, site where) {
  return await_all(group, in, where, tell_all(group, in));
}

// The same; then the epoch is noted, which all threads know.
template <class Group>
TND_DEVICE inline status meet_and_note(Group group, const member_view &in, site where) {
  status const told = tell_all(group, in);
  note(group, in, true);
  return await_all(group, in, where, told);
}

template <class Group>
TND_DEVICE inline status sync(Group group, u64 team, site where = site::sync,
                              bool is_settled = false) {
  member_view in;
  if (!find_team(team, in))
    return failed(group, status::invalid, where, nullptr, here().me);
  in.is_settled = is_settled;
  in.epoch = next_epoch(in);
  group.sync();
  return meet_and_note(group, in, where);
}

// A quiet of what the group did, then a sync.
template <class Group>
TND_DEVICE inline status barrier(Group group, u64 team, bool is_settled = false) {
  if (here().has_far != 0) {
    status const code = quiet(group, context_first);
    if (code != status::ok)
      return code;
  }
  return sync(group, team, site::barrier, is_settled);
}

}  // namespace tanada::shmem::device
