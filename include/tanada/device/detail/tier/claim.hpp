// tanada/device/detail/tier/claim.hpp: table_ref::begin() by a whole warp, with a way of the set in
// each lane: the set is surveyed in one load, and by few instructions.
#pragma once

#include "../simt/group.hpp"
#include "table.hpp"

namespace tanada::tier {

template <simt::scope Scope>
class warp_claim {
 public:
  // All lanes call; the result is equal in all of them.
  TND_DEVICE static begin_result begin(const table_ref<Scope> &table, u64 key) {
    begin_result const result = try_begin(table, key);
    return result.outcome == begin_outcome::undecided ? begin_in_leader(table, key) : result;
  }

  // As begin(), but undecided where pages of the set may be in other sets, or the policy has a
  // hand. Inlined: loads that the caller has issued stay in flight meanwhile.
  TND_DEVICE static begin_result try_begin(const table_ref<Scope> &table, u64 key) {
    simt::whole_warp const warp{};
    u32 const set = table.set_of(key);
    bool is_locked = false;
    if (warp.rank() == 0)
      is_locked = table.try_lock(set);
    if (warp.broadcast(u32(is_locked ? 1 : 0)) == 0)
      return {begin_outcome::contended, no_frame, 0};
    warp.sync();  // the lanes' loads come after the lock
    u32 const stray_count = load(table.sets[set].strays);
    warp_claim claim{table, key, set};
    begin_result result{begin_outcome::undecided, no_frame, 0};
    bool const is_general = stray_count != 0 || table.policy == replacement::clock;
    if (!is_general && claim.is_present())
      result.outcome = begin_outcome::present;
    else if (!is_general)
      result = claim.take_victim();
    if (result.outcome != begin_outcome::owner && warp.rank() == 0)
      table.unlock(set);
    return result;
  }

  // As begin(), by the leader's table_ref::begin().
  TND_DEVICE_CALL static begin_result begin_in_leader(const table_ref<Scope> &table, u64 key) {
    simt::whole_warp const warp{};
    begin_result result{begin_outcome::full, no_frame, 0};
    if (warp.rank() == 0)
      result = table.begin(key);
    return {begin_outcome(warp.broadcast(u32(result.outcome))),
            warp.broadcast(result.frame),
            warp.broadcast(result.evicted_key)};
  }

 private:
  template <class T>
  using atomic = simt::global_ref<T, Scope>;

  template <class T>
  TND_DEVICE static T load(T &word) {
    return atomic<T>(word).load_relaxed();
  }

  TND_DEVICE warp_claim(const table_ref<Scope> &tier_table, u64 page_key, u32 page_set)
      : table_{tier_table},
        key_{page_key},
        set_{page_set},
        insertions_{load(tier_table.sets[page_set].insertions)} {
    is_way_ = warp_.rank() < table_.shape.ways;
    frame_ = set_ * table_.shape.ways + (is_way_ ? warp_.rank() : 0);
    entry_ = simt::load_pair<Scope>(table_.entries[frame_].words);
    stamp_ = load(table_.stamps[frame_]);
  }

  TND_DEVICE bool is_present() const {
    bool const is_page = is_way_ && entry_.first == key_ && !table_.is_vacant(entry_.second);
    return simt::ballot(warp_.mask(), is_page) != 0;
  }

  // As table_ref::survey_set() chooses: a vacant frame, or else the oldest one. The lane that takes
  // it places the key and unlocks the set.
  TND_DEVICE begin_result take_victim() {
    bool is_candidate = is_way_ && table_.is_evictable(entry_.second);
    for (;;) {
      u32 rank = 0;
      if (is_candidate) {
        u32 const age = insertions_ - stamp_;
        rank = table_.is_vacant(entry_.second) ? ~0u : (age < ~0u - 2 ? age : ~0u - 2) + 1;
      }
      u32 const best = simt::reduce_max(warp_.mask(), rank);
      if (best == 0)
        return {begin_outcome::full, no_frame, 0};
      u32 const victim = simt::first_bit(simt::ballot(warp_.mask(), rank == best));
      bool const is_taken = warp_.rank() == victim && try_place();
      u64 const evicted_key = is_page(entry_.second) ? entry_.first : 0;
      if (simt::ballot(warp_.mask(), is_taken) != 0)
        return {begin_outcome::owner,
                simt::shuffle(warp_.mask(), frame_, victim),
                simt::shuffle(warp_.mask(), evicted_key, victim)};
      is_candidate = is_candidate && warp_.rank() != victim;
    }
  }

  TND_DEVICE static bool is_page(u64 word) {
    return word::state(word) == page_state::ready && !word::is_doomed(word);
  }

  TND_DEVICE bool try_place() const {
    u64 word = entry_.second;
    u64 const loading = word::make(word::version(word) + 1, page_state::loading, 1);
    if (!atomic<u64>(table_.entries[frame_].word()).compare_exchange_acquire(word, loading))
      return false;
    table_.drop_page(frame_, entry_.first);
    atomic<u64>(table_.entries[frame_].key()).store_relaxed(key_);
    atomic<u32>(table_.sets[set_].insertions).store_relaxed(insertions_ + 1);
    atomic<u32>(table_.stamps[frame_]).store_relaxed(insertions_ + 1);
    table_.unlock(set_);
    return true;
  }

  simt::whole_warp warp_;
  table_ref<Scope> const &table_;
  u64 key_;
  u32 set_, insertions_;
  bool is_way_;
  u32 frame_;  // this lane's
  simt::word_pair entry_;
  u32 stamp_;
};

}  // namespace tanada::tier
