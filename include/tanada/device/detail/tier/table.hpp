// tanada/device/detail/tier/table.hpp: the page table of a tier and its replacement, for kernels
// and for the host: one source.
//
// Set-associative: a page can lie in the `ways` frames of its set, or, where all of these are
// pinned and its user must have a frame, as a stray in one of a few other sets. Each entry is a key
// and a word,
//   word = version:32 | 3 bits unused | doomed:1 | state:4 | pins:24
// and every change of a word is one atomic. The rules, relied on everywhere:
//   - A set's lock is held to choose a victim and to place a key, never while waiting for anything.
//   - Only the owner of a loading frame (who got it from begin()) takes it out of loading.
//   - Who places a page holds the lock of its own set. Who takes a stray's frame lowers the count
//   of the stray's own set.
//   - A frame's bytes change only while it is loading (or, in a host tier, under a write grant),
//   and begin() raises the
//     version: whoever read bytes without a pin knows by key and version that they were those of
//     the page.
//   - A doomed page is found by nobody; its frame is free once the last pin is gone. Dooming by
//   mistake is harmless.
#pragma once

#include "../simt/atomic.hpp"

namespace tanada::tier {

enum class replacement : u32 { fifo = 0, lru = 1, clock = 2 };

// evicting: write-back before reuse; partial: only some byte ranges hold data (host tiers, after a
// small write).
enum class page_state : u32 {
  empty = 0,
  loading = 1,
  ready = 2,
  dirty = 3,
  evicting = 4,
  partial = 5
};

inline constexpr u32 page_bits = 36;  // pages a file can have
inline constexpr u64 page_index_max = (u64{1} << page_bits) - 1;
inline constexpr u32 file_key_max = (1u << (64 - page_bits)) - 1;

// `file_key` from 1: no key is 0.
TND_HD inline u64 page_key(u32 file_key, u64 page_index) {
  return u64(file_key) << page_bits | page_index;
}

namespace word {
inline constexpr u64 pin = 1;
inline constexpr u64 pins_mask = 0xffffff;
inline constexpr u64 doomed = u64{1} << 28;
TND_HD inline u64 make(u32 version, page_state state, u64 pins) {
  return u64(version) << 32 | u64(state) << 24 | pins;
}
TND_HD inline u64 pins(u64 w) {
  return w & pins_mask;
}
TND_HD inline page_state state(u64 w) {
  return page_state(w >> 24 & 15);
}
TND_HD inline bool is_doomed(u64 w) {
  return (w & doomed) != 0;
}
TND_HD inline u32 version(u64 w) {
  return u32(w >> 32);
}
TND_HD inline bool readable(u64 w) {
  return !is_doomed(w) && (state(w) == page_state::ready || state(w) == page_state::dirty);
}
}  // namespace word

struct alignas(16) page_entry {
  u64 words[2];  // key and word
  TND_HD u64 &key() {
    return words[0];
  }
  TND_HD u64 &word() {
    return words[1];
  }
};
static_assert(sizeof(page_entry) == 16);

struct alignas(16) set_control {
  u32 lock;
  u32 insertions;  // how many pages the set has taken in: the clock of fifo and lru
  u32 hand;        // clock
  u32 strays;      // pages of this set that lie in frames of other sets, see begin_anywhere()
};
static_assert(sizeof(set_control) == 16);

// A look at a set is one line of 128 bytes.
inline constexpr u32 ways_max = 8;

// How `frame_count` frames are divided: into full sets, or more and smaller ones where that uses
// more of the frames. Up to 7 are left out.
struct geometry {
  u32 set_count, ways;
  TND_HD u32 frame_count() const {
    return set_count * ways;
  }
};
TND_HD inline geometry geometry_of(u32 frame_count) {
  u32 const sets = (frame_count + ways_max - 1) / ways_max, full = frame_count / ways_max;
  geometry const smaller{sets, frame_count / sets};
  return full * ways_max > smaller.frame_count() ? geometry{full, ways_max} : smaller;
}

inline constexpr u32 no_frame = 0xffffffffu;

// So many other sets may have a page's frame.
inline constexpr u32 stray_sets_max = 31;

enum class find_outcome : u32 {
  hit,      // pinned: call release()
  loading,  // somebody brings it; look again later
  absent,
};
struct find_result {
  find_outcome outcome;
  u32 frame;
};

enum class begin_outcome : u32 {
  owner,      // frame is loading and pinned once by the caller, who calls publish() or abandon()
  present,    // the page is there after all
  contended,  // the set is locked just now; look again
  full,       // every frame of the set is pinned, dirty or loading
};
struct begin_result {
  begin_outcome outcome;
  u32 frame;
  u64 evicted_key;  // of the page that had the frame, 0: none
};

// What a look without a pin saw; see peek().
struct peek_result {
  u32 frame;  // no_frame: not there
  u32 version;
};

// A view of a table; trivially copyable. Scope: who takes part (device: kernels only; system: the
// host writes, kernels peek).
template <simt::scope Scope>
struct table_ref {
  template <class T>
  using atomic = simt::atomic_ref<T, Scope>;

  page_entry *entries;
  u32 *stamps;  // a frame's: fifo and lru: set's insertions when it came or was used; clock: 1 if
                // used
  set_control *sets;
  geometry shape;
  replacement policy;

  TND_HD u32 set_of(u64 key) const {
    u64 const page = key & page_index_max, file = key >> page_bits;
    // Runs of set_count pages fill every set once; runs and files are rotated against each other.
    // Mostly 32 bits will do, whose division is several times as fast on a GPU.
    bool const small = page >> 32 == 0;
    u64 const run = small ? u32(page) / shape.set_count : page / shape.set_count;
    u32 const place = small ? u32(page) - u32(run) * shape.set_count : u32(page % shape.set_count);
    u32 const turn =
        u32((run * 0x9E3779B97F4A7C15ull ^ file * 0xBF58476D1CE4E5B9ull) >> 32) % shape.set_count;
    u32 const sum = place + turn;  // set_count is below 2^31
    return sum < shape.set_count ? sum : sum - shape.set_count;
  }

  TND_HD u64 load_word(u32 frame) const {
    return atomic<u64>(entries[frame].word()).load_acquire();
  }
  TND_HD u64 load_key(u32 frame) const {
    return atomic<u64>(entries[frame].key()).load_relaxed();
  }

  // Pin the page if it is there.
  TND_HD find_result find(u64 key) const {
    u32 const set = set_of(key);
    find_result found = find_in(set, key);
    if (found.outcome != find_outcome::absent || atomic<u32>(sets[set].strays).load_relaxed() == 0)
      return found;
    for (u32 i = 0; i < stray_count() && found.outcome == find_outcome::absent; i++)
      found = find_in(stray_set(set, key, i), key);
    return found;
  }

  TND_HD void pin(u32 frame) const {
    (void)atomic<u64>(entries[frame].word()).fetch_add_acquire(word::pin);
  }
  TND_HD void release(u32 frame) const {
    (void)atomic<u64>(entries[frame].word()).fetch_add_release(~u64{0});
  }

  TND_HD void touch(u32 set, u32 frame) const {
    if (policy == replacement::fifo)
      return;
    u32 const stamp =
        policy == replacement::lru ? atomic<u32>(sets[set].insertions).load_relaxed() : 1;
    if (atomic<u32>(stamps[frame]).load_relaxed() != stamp)
      atomic<u32>(stamps[frame]).store_relaxed(stamp);
  }

  // Take a frame for a page that find() called absent.
  TND_HD begin_result begin(u64 key) const {
    u32 const set = set_of(key);
    if (!try_lock(set))
      return {begin_outcome::contended, no_frame, 0};
    begin_result result{begin_outcome::present, no_frame, 0};
    if (!has_stray(set, key))
      result = take(set, key);
    unlock(set);
    return result;
  }

  // The same, of another set where all frames of the page's own are in use. Tables that kernels
  // peek into have no strays.
  TND_HD begin_result begin_anywhere(u64 key) const {
    u32 const set = set_of(key);
    if (!try_lock(set))
      return {begin_outcome::contended, no_frame, 0};
    begin_result result{begin_outcome::present, no_frame, 0};
    if (!has_stray(set, key))
      result = take(set, key);
    bool contended = false;
    for (u32 i = 0; i < stray_count() && result.outcome == begin_outcome::full; i++) {
      u32 const other = stray_set(set, key, i);
      if (!try_lock(other)) {
        contended = true;
        continue;
      }
      (void)atomic<u32>(sets[set].strays).fetch_add_relaxed(1);
      result = take(other, key);
      if (result.outcome != begin_outcome::owner)
        (void)atomic<u32>(sets[set].strays).fetch_add_relaxed(~0u);
      unlock(other);
    }
    if (result.outcome == begin_outcome::full && contended)
      result.outcome = begin_outcome::contended;
    unlock(set);
    return result;
  }

  // The owner has filled the frame: others may find it. The owner's pin stays.
  TND_HD void publish(u32 frame, page_state state) const {
    change_state(frame, page_state::loading, state);
  }

  TND_HD void publish_after_fence(u32 frame, page_state state) const {
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release_after_fence((u64(state) - u64(page_state::loading)) << 24);
  }

  // Who alone may change the state (owner of a loading frame; the host under its lock) does so.
  TND_HD void change_state(u32 frame, page_state from, page_state to) const {
    (void)atomic<u64>(entries[frame].word()).fetch_add_release((u64(to) - u64(from)) << 24);
  }

  // The same, and the owner's pin is gone. The caller has made a simt::fence_system() that the
  // bytes are before.
  TND_HD void publish_and_release_after_fence(u32 frame, page_state state) const {
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release_after_fence(((u64(state) - u64(page_state::loading)) << 24) - word::pin);
  }

  // The owner could not fill the frame: it is empty again and the owner's pin is gone.
  TND_HD void abandon(u32 frame, page_state from = page_state::loading) const {
    leave(frame);
    atomic<u64>(entries[frame].key()).store_relaxed(0);
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release(((u64(page_state::empty) - u64(from)) << 24) - word::pin);
  }

  // Nobody finds the page any more. Pins that are out stay good.
  TND_HD void invalidate(u64 key) const {
    u32 const set = set_of(key);
    invalidate_in(set, key);
    if (atomic<u32>(sets[set].strays).load_acquire() == 0)
      return;
    for (u32 i = 0; i < stray_count(); i++)
      invalidate_in(stray_set(set, key, i), key);
  }

 private:
  TND_HD void invalidate_in(u32 set, u64 key) const {
    u32 const first = set * shape.ways;
    for (u32 way = 0; way < shape.ways; way++)
      if (load_key(first + way) == key)
        (void)atomic<u64>(entries[first + way].word()).fetch_or_acq_rel(word::doomed);
  }

 public:
  // Look without a pin: one entry, for whoever loops over the ways of set_of(key). Key and word may
  // be of different moments; unchanged() makes up for it. The caller puts simt::fence_loads()
  // between what it read and unchanged().
  TND_HD bool matches(u32 frame, u64 key, u32 &version) const {
    simt::word_pair const seen = simt::load_pair<Scope>(entries[frame].words);
    version = word::version(seen.second);
    return seen.first == key && word::readable(seen.second);
  }

  // After the bytes were copied: were they those of `key`? A frame that was given to another page
  // and back has a higher version; a key and a word seen of two different pages cannot both still
  // be there.
  TND_HD bool unchanged(u32 frame, u64 key, u32 version) const {
    u32 now;
    return matches(frame, key, now) && now == version;
  }

  TND_HD peek_result peek(u64 key) const {
    u32 const first = set_of(key) * shape.ways;
    simt::word_pair seen[ways_max];
    load_set(first, seen);
    for (u32 way = 0; way < ways_max; way++)
      if (seen[way].first == key && way < shape.ways && word::readable(seen[way].second))
        return {first + way, word::version(seen[way].second)};
    return {no_frame, 0};
  }

 private:
  // Loads of several ways are asked for together: on a GPU each takes as long as all of them.
  static constexpr u32 survey_batch = 4;

  TND_HD void load_set(u32 first, simt::word_pair (&seen)[ways_max]) const {
    for (u32 way = 0; way < ways_max; way++)
      seen[way] = simt::load_pair<Scope>(entries[first + (way < shape.ways ? way : 0)].words);
  }

  TND_HD find_result find_in(u32 set, u64 key) const {
    u32 const first = set * shape.ways;
    simt::word_pair seen[ways_max];
    load_set(first, seen);
    u32 const insertions =
        policy == replacement::lru ? atomic<u32>(sets[set].insertions).load_relaxed() : 1;
    u32 there = no_frame;
    u64 word = 0;
    for (u32 way = 0; way < ways_max; way++) {
      if (seen[way].first != key || way >= shape.ways || holds_nothing(seen[way].second))
        continue;
      there = first + way;
      word = seen[way].second;
    }
    if (there == no_frame)
      return {find_outcome::absent, no_frame};
    if (!word::readable(word))
      return {find_outcome::loading, there};
    // Pin the frame; with the version the key has stayed.
    u64 const before = atomic<u64>(entries[there].word()).fetch_add_acquire(word::pin);
    if (!word::readable(before) || word::version(before) != word::version(word)) {
      release(there);
      return {find_outcome::loading, there};
    }
    if (policy != replacement::fifo)
      atomic<u32>(stamps[there]).store_relaxed(insertions);
    return {find_outcome::hit, there};
  }

  TND_HD u32 stray_count() const {
    return shape.set_count - 1 < stray_sets_max ? shape.set_count - 1 : stray_sets_max;
  }
  // The other sets fall into as many stretches of equal length. The page chooses a set of each and
  // with which one it begins: all differ, whatever the number of sets, and full sets do not fill
  // their neighbours.
  TND_HD u32 stray_set(u32 set, u64 key, u32 i) const {
    u32 const count = stray_count(), length = (shape.set_count - 1) / count;
    u64 const hash = key * 0x9E3779B97F4A7C15ull;
    u32 const stretch = (i + u32(hash >> 48)) % count;
    u32 const distance = 1 + stretch * length + u32(hash >> (8 + stretch)) % length;
    return u32((u64(set) + distance) % shape.set_count);
  }

  TND_HD bool try_lock(u32 set) const {
    u32 unlocked = 0;
    return atomic<u32>(sets[set].lock).compare_exchange_acquire(unlocked, 1u);
  }
  TND_HD void unlock(u32 set) const {
    atomic<u32>(sets[set].lock).store_release(0);
  }

  // Under the lock of the page's set, which alone places its pages.
  TND_HD bool has_stray(u32 set, u64 key) const {
    if (atomic<u32>(sets[set].strays).load_relaxed() == 0)
      return false;
    for (u32 i = 0; i < stray_count(); i++) {
      u32 const first = stray_set(set, key, i) * shape.ways;
      simt::word_pair seen[ways_max];
      load_set(first, seen);
      for (u32 way = 0; way < shape.ways; way++)
        if (seen[way].first == key && !holds_nothing(seen[way].second))
          return true;
    }
    return false;
  }

  // The frame's page goes: if it was a stray, its own set has one less.
  TND_HD void leave(u32 frame) const {
    u64 const key = load_key(frame);
    if (key == 0)
      return;
    u32 const set = set_of(key);
    if (set != frame / shape.ways)
      (void)atomic<u32>(sets[set].strays).fetch_add_relaxed(~0u);
  }

  // A frame of the set for the page, under the set's lock and that of the page's own.
  TND_HD begin_result take(u32 set, u64 key) const {
    u32 const first = set * shape.ways;
    begin_result result{begin_outcome::full, no_frame, 0};
    u32 refused = 0;  // bits: ways that were pinned when we tried to take them
    for (;;) {
      survey const seen = look_over(set, key, refused);
      if (seen.present)
        result.outcome = begin_outcome::present;
      if (seen.present || seen.victim == no_frame)
        return result;
      u64 word = seen.victim_word;
      if (takeable(word) &&
          atomic<u64>(entries[seen.victim].word())
              .compare_exchange_acquire(
                  word, word::make(word::version(word) + 1, page_state::loading, 1))) {
        bool const was_page = word::state(word) == page_state::ready && !word::is_doomed(word);
        result = {begin_outcome::owner, seen.victim, was_page ? load_key(seen.victim) : 0};
        leave(seen.victim);
        atomic<u64>(entries[seen.victim].key()).store_relaxed(key);
        atomic<u32>(sets[set].insertions).store_relaxed(seen.insertions + 1);
        atomic<u32>(stamps[seen.victim])
            .store_relaxed(policy == replacement::clock ? 0 : seen.insertions + 1);
        return result;
      }
      refused |= 1u << (seen.victim - first);
    }
  }

  TND_HD static bool holds_nothing(u64 w) {
    return word::state(w) == page_state::empty || word::is_doomed(w);
  }

  TND_HD static bool takeable(u64 w) {
    return word::pins(w) == 0 &&
           (word::state(w) == page_state::empty || word::state(w) == page_state::ready);
  }

  // What a set holds, under its lock: the page itself, and the frame to give up: one that holds
  // nothing, else what the policy says.
  struct survey {
    bool present;
    u32 victim;
    u64 victim_word;
    u32 insertions;
  };

  TND_HD survey look_over(u32 set, u64 key, u32 refused) const {
    u32 const first = set * shape.ways;
    survey seen{false, no_frame, 0, atomic<u32>(sets[set].insertions).load_relaxed()};
    u32 best_age = 0;
    bool vacant = false;
    for (u32 base = 0; base < shape.ways; base += survey_batch) {
      simt::word_pair entry[survey_batch];
      u32 ages[survey_batch];
      for (u32 i = 0; i < survey_batch; i++) {
        u32 const frame = first + (base + i < shape.ways ? base + i : 0);
        entry[i] = simt::load_pair<Scope>(entries[frame].words);
        ages[i] = seen.insertions - atomic<u32>(stamps[frame]).load_relaxed();
      }
      for (u32 i = 0; i < survey_batch && base + i < shape.ways; i++) {
        u64 const at = entry[i].second;
        bool const nothing = holds_nothing(at);
        if (entry[i].first == key && !nothing)
          seen.present = true;
        if (vacant || (refused >> (base + i) & 1) != 0 || !takeable(at))
          continue;
        vacant = nothing;
        if (!vacant && seen.victim != no_frame && ages[i] <= best_age)
          continue;
        seen.victim = first + base + i;
        seen.victim_word = at;
        best_age = ages[i];
      }
    }
    if (policy == replacement::clock && !vacant && seen.victim != no_frame) {
      seen.victim = clock_victim(set, refused);
      seen.victim_word = seen.victim == no_frame ? 0 : load_word(seen.victim);
    }
    return seen;
  }

  TND_HD u32 clock_victim(u32 set, u32 refused) const {
    u32 const first = set * shape.ways;
    for (u32 step = 0; step < 2 * shape.ways + 1; step++) {
      u32 const way = sets[set].hand % shape.ways;
      sets[set].hand = way + 1;
      u32 const frame = first + way;
      if ((refused >> way & 1) != 0 || !takeable(load_word(frame)))
        continue;
      if (atomic<u32>(stamps[frame]).load_relaxed() == 0)
        return frame;
      atomic<u32>(stamps[frame]).store_relaxed(0);
    }
    return no_frame;
  }
};

// Bytes that a table's three arrays take, each aligned to 256.
struct table_sizes {
  u64 entries, stamps, sets;
};
TND_HD inline table_sizes sizes_of(geometry shape) {
  u64 const frames = u64(shape.set_count) * shape.ways;
  return {(frames * sizeof(page_entry) + 255) / 256 * 256, (frames * sizeof(u32) + 255) / 256 * 256,
          (u64(shape.set_count) * sizeof(set_control) + 255) / 256 * 256};
}

// A table over one block of zeroed memory of sizes_of() bytes in sum.
template <simt::scope Scope>
TND_HD inline table_ref<Scope> table_over(void *memory, geometry shape, replacement policy) {
  table_sizes const sizes = sizes_of(shape);
  u8 *base = static_cast<u8 *>(memory);
  return {reinterpret_cast<page_entry *>(base), reinterpret_cast<u32 *>(base + sizes.entries),
          reinterpret_cast<set_control *>(base + sizes.entries + sizes.stamps), shape, policy};
}

}  // namespace tanada::tier
