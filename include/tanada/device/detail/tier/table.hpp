// tanada/device/detail/tier/table.hpp: the page table of a tier and its replacement, one source for
// kernels and the host.
//
// Set-associative: a page can be in one of the `ways` frames of its set. If all of these are pinned
// and the caller must have a frame, the page can be a stray in one of a few other sets. Each entry
// is a key and a word,
//   word = version:32 | 3 bits unused | doomed:1 | state:4 | pins:24
// and every change of a word is one atomic operation. Invariants:
//   - A set's lock is held to choose a victim and to place a key, never while waiting.
//   - Only the owner of a loading frame (the caller that got it from begin()) changes that state.
//   - A page is placed under the lock of its own set. Reusing a stray's frame decrements the count
//     of the stray's own set.
//   - A frame's bytes change only while it is loading, or, in a host tier, under a write grant.
//     begin() raises the version, so a reader without a pin knows from key and version whether the
//     bytes that it copied were those of the page.
//   - A doomed page is never found; its frame is free once the last pin is released. Dooming a page
//     needlessly is harmless.
#pragma once

#include "../simt/atomic.hpp"

namespace tanada::tier {

enum class replacement : u32 { fifo = 0, lru = 1, clock = 2 };

// evicting: written back before reuse. partial: only some byte ranges hold data (host tiers, after
// a small write).
enum class page_state : u32 {
  empty = 0,
  loading = 1,
  ready = 2,
  dirty = 3,
  evicting = 4,
  partial = 5
};

inline constexpr u32 page_bits = 36;  // pages of a file
inline constexpr u64 page_index_max = (u64{1} << page_bits) - 1;
inline constexpr u32 file_key_max = (1u << (64 - page_bits)) - 1;

// `file_key` starts at 1, so no key is 0.
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
// Ready or dirty, and not doomed: one comparison.
TND_HD inline bool is_readable(u64 w) {
  static_assert(u32(page_state::ready) == 2 && u32(page_state::dirty) == 3);
  return (u32(w) & u32(doomed | u64{14} << 24)) == u32(page_state::ready) << 24;
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
  u32 insertions;  // how many pages were placed in the set: the clock of fifo and lru
  u32 hand;        // the clock policy's hand
  u32 strays;      // pages of this set in frames of other sets, see begin_anywhere()
};
static_assert(sizeof(set_control) == 16);

// Loading a whole set touches one line of 128 bytes.
inline constexpr u32 ways_max = 8;

// Divide `frame_count` frames into full sets, or into more and smaller ones where that uses more of
// the frames. Up to 7 frames are left out.
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

// Divisions by the number of sets are multiplications, several times as fast on a GPU:
// simt::high_product(page, reciprocal(count)) == page / count for 1 < count <= 2^28 and pages of
// page_bits. The reciprocal is (2^64 + e) / count with e <= count, so the product exceeds the
// quotient by page * e / (count * 2^64) < 1 / count.
TND_HD inline u64 reciprocal(u32 count) {
  return ~u64{0} / count + 1;
}
static_assert(page_bits + 28 <= 64);

inline constexpr u32 no_frame = 0xffffffffu;

// How many other sets may hold a stray page.
inline constexpr u32 stray_sets_max = 31;

enum class find_outcome : u32 {
  hit,      // pinned: call release()
  loading,  // another thread is loading it; try again later
  absent,
};
struct find_result {
  find_outcome outcome;
  u32 frame;
};

enum class begin_outcome : u32 {
  owner,    // the caller owns the frame, loading and pinned once, and calls publish() or abandon()
  present,  // the page is already in the table
  contended,  // the set is locked; try again
  full,       // every frame of the set is pinned, dirty or loading
  undecided,  // only of warp_claim::try_begin()
};
struct begin_result {
  begin_outcome outcome;
  u32 frame;
  u64 evicted_key;  // of the page that was in the frame, 0: none
};

// The result of a lookup without a pin; see peek().
struct peek_result {
  u32 frame;  // no_frame: absent
  u32 version;
};

template <simt::scope Scope>
class warp_claim;

// A view of a table; trivially copyable. Scope: the accessing threads (device: kernels only;
// system: the host writes, kernels peek).
template <simt::scope Scope>
struct table_ref {
  template <class T>
  using atomic = simt::global_ref<T, Scope>;

  page_entry *entries;
  u32 *stamps;  // for each frame: under fifo and lru the set's insertions when it was filled or
                // used; under clock 1 if used
  set_control *sets;
  geometry shape;
  replacement policy;
  u64 set_reciprocal;  // see reciprocal()

  TND_HD u32 set_of(u64 key) const {
    u64 const page = key & page_index_max, file = key >> page_bits;
    if (shape.set_count == 1)
      return 0;
    // Runs of set_count pages fill every set once; runs and files are rotated against each other.
    u64 const run = simt::high_product(page, set_reciprocal);
    u32 const index = u32(page - run * shape.set_count);
    u32 const hash = u32(run) * 0x9E3779B9u ^ u32(file) * 0x85EBCA6Bu;
    u32 const sum = index + u32(u64(hash) * shape.set_count >> 32);  // set_count <= 2^28
    return sum < shape.set_count ? sum : sum - shape.set_count;
  }

  TND_HD u64 load_word(u32 frame) const {
    return atomic<u64>(entries[frame].word()).load_acquire();
  }
  TND_HD u64 load_key(u32 frame) const {
    return atomic<u64>(entries[frame].key()).load_relaxed();
  }

  // Pin the page if it is in the table.
  TND_HD find_result find(u64 key) const {
    u32 const set = set_of(key);
    find_result result = find_in(set, key);
    if (result.outcome != find_outcome::absent || atomic<u32>(sets[set].strays).load_relaxed() == 0)
      return result;
    for (u32 i = 0; i < stray_count() && result.outcome == find_outcome::absent; i++) {
      result = find_in(stray_set(set, key, i), key);
    }
    return result;
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
    u32 const stamp = stamp_of(set);
    if (atomic<u32>(stamps[frame]).load_relaxed() != stamp)
      atomic<u32>(stamps[frame]).store_relaxed(stamp);
  }
  // What touch() stores, for callers that load it beforehand and then call mark().
  TND_HD u32 stamp_of(u32 set) const {
    return policy == replacement::lru ? atomic<u32>(sets[set].insertions).load_relaxed() : 1;
  }
  TND_HD void mark(u32 frame, u32 stamp) const {
    if (policy != replacement::fifo)
      atomic<u32>(stamps[frame]).store_relaxed(stamp);
  }

  // Take a frame for a page for which find() returned absent.
  TND_HD_CALL begin_result begin(u64 key) const {
    u32 const set = set_of(key);
    if (!try_lock(set))
      return {begin_outcome::contended, no_frame, 0};
    begin_result result = claim_in_own_set(set, key);
    unlock(set);
    return result;
  }

  // As begin(), but use a frame of another set if all frames of the page's own set are in use.
  // Tables that kernels peek into have no strays.
  TND_HD_CALL begin_result begin_anywhere(u64 key) const {
    u32 const set = set_of(key);
    if (!try_lock(set))
      return {begin_outcome::contended, no_frame, 0};
    begin_result result = claim_in_own_set(set, key);
    bool contended = false;
    for (u32 i = 0; i < stray_count() && result.outcome == begin_outcome::full; i++) {
      u32 const other_set = stray_set(set, key, i);
      if (!try_lock(other_set)) {
        contended = true;
        continue;
      }
      (void)atomic<u32>(sets[set].strays).fetch_add_relaxed(1);
      result = claim_frame(other_set, key);
      if (result.outcome != begin_outcome::owner)
        (void)atomic<u32>(sets[set].strays).fetch_add_relaxed(~0u);
      unlock(other_set);
    }
    if (result.outcome == begin_outcome::full && contended)
      result.outcome = begin_outcome::contended;
    unlock(set);
    return result;
  }

  // Publish the filled frame, so that find() returns it. The owner's pin stays.
  TND_HD void publish(u32 frame, page_state state) const {
    change_state(frame, page_state::loading, state);
  }

  TND_HD void publish_after_fence(u32 frame, page_state state) const {
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release_after_fence((u64(state) - u64(page_state::loading)) << 24);
  }

  // Change the state. Only the caller that may change it calls this: the owner of a loading frame,
  // or the host under its lock.
  TND_HD void change_state(u32 frame, page_state old_state, page_state new_state) const {
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release((u64(new_state) - u64(old_state)) << 24);
  }

  // As publish(), and release the owner's pin. The caller has issued a simt::fence_system() after
  // storing the bytes.
  TND_HD void publish_and_release_after_fence(u32 frame, page_state state) const {
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release_after_fence(((u64(state) - u64(page_state::loading)) << 24) - word::pin);
  }

  // Release the frame and the owner's pin, because the owner could not fill the frame. It is empty
  // again.
  TND_HD_CALL void abandon(u32 frame, page_state old_state = page_state::loading) const {
    drop_page(frame, load_key(frame));
    atomic<u64>(entries[frame].key()).store_relaxed(0);
    (void)atomic<u64>(entries[frame].word())
        .fetch_add_release(((u64(page_state::empty) - u64(old_state)) << 24) - word::pin);
  }

  // Doom the page, so that it is no longer found. Existing pins stay valid.
  TND_HD_CALL void invalidate(u64 key) const {
    u32 const set = set_of(key);
    invalidate_in(set, key);
    if (atomic<u32>(sets[set].strays).load_acquire() == 0)
      return;
    for (u32 i = 0; i < stray_count(); i++) {
      invalidate_in(stray_set(set, key, i), key);
    }
  }

 private:
  friend class warp_claim<Scope>;

  TND_HD void invalidate_in(u32 set, u64 key) const {
    u32 const first = set * shape.ways;
    TND_NO_UNROLL
    for (u32 way = 0; way < shape.ways; way++)
      if (load_key(first + way) == key)
        (void)atomic<u64>(entries[first + way].word()).fetch_or_acq_rel(word::doomed);
  }

 public:
  // Look up without a pin: one entry, for callers that loop over the ways of set_of(key). Key and
  // word may be of different moments, which is_unchanged() detects. The caller puts
  // simt::fence_loads() between its reads and is_unchanged().
  TND_HD bool is_match(u32 frame, u64 key, u32 &version) const {
    return is_match(entries[frame], key, version);
  }
  TND_HD static bool is_match(page_entry &entry, u64 key, u32 &version) {
    simt::word_pair const loaded = simt::load_pair<Scope>(entry.words);
    version = word::version(loaded.second);
    return (loaded.first == key) & word::is_readable(loaded.second);
  }

  // Check, after the bytes were copied, that they were those of `key`. A frame that was given to
  // another page and back has a higher version. A key and a word read from two different pages
  // cannot both still be there.
  TND_HD bool is_unchanged(u32 frame, u64 key, u32 version) const {
    u32 current_version = 0;
    bool const is_there = is_match(frame, key, current_version);
    return is_there & (current_version == version);
  }

  TND_HD peek_result peek(u64 key) const {
    u32 const first = set_of(key) * shape.ways;
    simt::word_pair loaded[ways_max];
    load_set(first, loaded);
    for (u32 way = 0; way < ways_max; way++)
      if (loaded[way].first == key && way < shape.ways && word::is_readable(loaded[way].second))
        return {first + way, word::version(loaded[way].second)};
    return {no_frame, 0};
  }

 private:
  // Issue the loads of several ways together: on a GPU, one load takes as long as all of them.
  static constexpr u32 survey_batch = 2;

  TND_HD void load_set(u32 first, simt::word_pair (&loaded)[ways_max]) const {
    for (u32 way = 0; way < ways_max; way++)
      loaded[way] = simt::load_pair<Scope>(entries[first + (way < shape.ways ? way : 0)].words);
  }

  TND_HD_CALL find_result find_in(u32 set, u64 key) const {
    u32 const first = set * shape.ways;
    u32 const stamp = stamp_of(set);
    u32 frame = no_frame;
    u64 word = 0;
    TND_NO_UNROLL
    for (u32 base = 0; base < shape.ways; base += survey_batch) {
      simt::word_pair loaded[survey_batch];
      for (u32 i = 0; i < survey_batch; i++)
        loaded[i] =
            simt::load_pair<Scope>(entries[first + (base + i < shape.ways ? base + i : 0)].words);
      for (u32 i = 0; i < survey_batch; i++) {
        if (loaded[i].first != key || base + i >= shape.ways || is_vacant(loaded[i].second))
          continue;
        frame = first + base + i;
        word = loaded[i].second;
      }
    }
    if (frame == no_frame)
      return {find_outcome::absent, no_frame};
    if (!word::is_readable(word))
      return {find_outcome::loading, frame};
    // Pin the frame. If the version is the same, the key is too.
    u64 const old_word = atomic<u64>(entries[frame].word()).fetch_add_acquire(word::pin);
    if (!word::is_readable(old_word) || word::version(old_word) != word::version(word)) {
      release(frame);
      return {find_outcome::loading, frame};
    }
    mark(frame, stamp);
    return {find_outcome::hit, frame};
  }

  TND_HD u32 stray_count() const {
    return shape.set_count - 1 < stray_sets_max ? shape.set_count - 1 : stray_sets_max;
  }
  // Divide the other sets into stretches of equal length. The page's hash chooses one set of each
  // stretch, and the stretch to begin with. So all candidates differ, whatever the number of sets,
  // and full sets do not fill their neighbors.
  TND_HD u32 stray_set(u32 set, u64 key, u32 i) const {
    u32 const distance = stray_distance(shape.set_count, stray_count(), key, i);
    u64 const sum = u64(set) + distance;  // less than twice the number of sets
    return u32(sum < shape.set_count ? sum : sum - shape.set_count);
  }
  TND_HD_CALL static u32 stray_distance(u32 set_count, u32 count, u64 key, u32 i) {
    u32 const length = (set_count - 1) / count;
    u64 const hash = key * 0x9E3779B97F4A7C15ull;
    u32 const stretch = (i + u32(hash >> 48)) % count;
    return 1 + stretch * length + u32(hash >> (8 + stretch)) % length;
  }

  TND_HD bool try_lock(u32 set) const {
    u32 unlocked = 0;
    return atomic<u32>(sets[set].lock).compare_exchange_acquire(unlocked, 1u);
  }
  TND_HD void unlock(u32 set) const {
    atomic<u32>(sets[set].lock).store_release(0);
  }

  // Under the lock of the page's set, which is required to place its pages.
  TND_HD bool has_stray(u32 set, u64 key) const {
    return atomic<u32>(sets[set].strays).load_relaxed() != 0 && search_strays(set, key);
  }
  TND_HD_CALL bool search_strays(u32 set, u64 key) const {
    for (u32 i = 0; i < stray_count(); i++) {
      u32 const first = stray_set(set, key, i) * shape.ways;
      TND_NO_UNROLL
      for (u32 way = 0; way < shape.ways; way++) {
        simt::word_pair const loaded = simt::load_pair<Scope>(entries[first + way].words);
        if (loaded.first == key && !is_vacant(loaded.second))
          return true;
      }
    }
    return false;
  }

  // Forget `key`, the frame's page. If it was a stray, decrement the count of its own set.
  TND_HD void drop_page(u32 frame, u64 key) const {
    if (key == 0)
      return;
    u32 const set = set_of(key);
    if (frame - set * shape.ways >= shape.ways)  // unsigned
      (void)atomic<u32>(sets[set].strays).fetch_add_relaxed(~0u);
  }

  // Under the lock of the page's set.
  TND_HD begin_result claim_in_own_set(u32 set, u64 key) const {
    return has_stray(set, key) ? begin_result{begin_outcome::present, no_frame, 0}
                               : claim_frame(set, key);
  }

  // Claim a frame of the set for the page. The caller holds the locks of this set and of the page's
  // own set.
  TND_HD_CALL begin_result claim_frame(u32 set, u64 key) const {
    u32 const first = set * shape.ways;
    begin_result result{begin_outcome::full, no_frame, 0};
    u32 refused = 0;  // bits: ways that were pinned at the attempt to take them
    for (;;) {
      set_survey const survey = survey_set(set, key, refused);
      if (survey.present)
        result.outcome = begin_outcome::present;
      if (survey.present || survey.victim == no_frame)
        return result;
      // Again, because the survey keeps few words. The key of a page that was abandoned meanwhile
      // is 0, and is stored before the word.
      u64 word = load_word(survey.victim);
      u64 const victim_key = load_key(survey.victim);
      if (is_evictable(word) &&
          atomic<u64>(entries[survey.victim].word())
              .compare_exchange_acquire(
                  word, word::make(word::version(word) + 1, page_state::loading, 1))) {
        bool const was_page = word::state(word) == page_state::ready && !word::is_doomed(word);
        result = {begin_outcome::owner, survey.victim, was_page ? victim_key : 0};
        drop_page(survey.victim, victim_key);
        atomic<u64>(entries[survey.victim].key()).store_relaxed(key);
        atomic<u32>(sets[set].insertions).store_relaxed(survey.insertions + 1);
        atomic<u32>(stamps[survey.victim])
            .store_relaxed(policy == replacement::clock ? 0 : survey.insertions + 1);
        return result;
      }
      refused |= 1u << (survey.victim - first);
    }
  }

  TND_HD static bool is_vacant(u64 w) {
    return word::state(w) == page_state::empty || word::is_doomed(w);
  }

  TND_HD static bool is_evictable(u64 w) {
    return word::pins(w) == 0 &&
           (word::state(w) == page_state::empty || word::state(w) == page_state::ready);
  }

  // The contents of a set, under its lock: whether the page is there, and the frame to evict. A
  // vacant frame is preferred; otherwise the policy decides.
  struct set_survey {
    bool present;
    u32 victim;
    u32 insertions;
  };

  TND_HD set_survey survey_set(u32 set, u64 key, u32 refused) const {
    u32 const first = set * shape.ways;
    set_survey survey{false, no_frame, atomic<u32>(sets[set].insertions).load_relaxed()};
    u32 best_age = 0;
    bool has_vacancy = false;
    TND_NO_UNROLL
    for (u32 base = 0; base < shape.ways; base += survey_batch) {
      simt::word_pair entry[survey_batch];
      u32 stamp[survey_batch];
      load_batch(first, base, entry, stamp);
      for (u32 i = 0; i < survey_batch && base + i < shape.ways; i++) {
        u64 const word = entry[i].second;
        bool const entry_vacant = is_vacant(word);
        if (entry[i].first == key && !entry_vacant)
          survey.present = true;
        if (has_vacancy || (refused >> (base + i) & 1) != 0 || !is_evictable(word))
          continue;
        has_vacancy = entry_vacant;
        u32 const age = survey.insertions - stamp[i];
        if (!has_vacancy && survey.victim != no_frame && age <= best_age)
          continue;
        survey.victim = first + base + i;
        best_age = age;
      }
    }
    if (policy == replacement::clock && !has_vacancy && survey.victim != no_frame)
      survey.victim = clock_victim(set, refused);
    return survey;
  }

  // Load the words and stamps of the ways from `base` on, all at once. Past the last way, load
  // those of the first.
  TND_HD void load_batch(u32 first,
                         u32 base,
                         simt::word_pair (&loaded)[survey_batch],
                         u32 (&stamp)[survey_batch]) const {
    for (u32 i = 0; i < survey_batch; i++) {
      u32 const frame = first + (base + i < shape.ways ? base + i : 0);
      loaded[i] = simt::load_pair<Scope>(entries[frame].words);
      stamp[i] = atomic<u32>(stamps[frame]).load_relaxed();
    }
  }

  TND_HD_CALL u32 clock_victim(u32 set, u32 refused) const {
    u32 const first = set * shape.ways;
    TND_NO_UNROLL
    for (u32 step = 0; step < 2 * shape.ways + 1; step++) {
      u32 const way = sets[set].hand < shape.ways ? sets[set].hand : 0;
      sets[set].hand = way + 1;
      u32 const frame = first + way;
      if ((refused >> way & 1) != 0 || !is_evictable(load_word(frame)))
        continue;
      if (atomic<u32>(stamps[frame]).load_relaxed() == 0)
        return frame;
      atomic<u32>(stamps[frame]).store_relaxed(0);
    }
    return no_frame;
  }
};

// Bytes of a table's three arrays, each aligned to 256.
struct table_sizes {
  u64 entries, stamps, sets;
};
TND_HD inline table_sizes sizes_of(geometry shape) {
  u64 const frames = u64(shape.set_count) * shape.ways;
  return {(frames * sizeof(page_entry) + 255) / 256 * 256,
          (frames * sizeof(u32) + 255) / 256 * 256,
          (u64(shape.set_count) * sizeof(set_control) + 255) / 256 * 256};
}

// Create a table in one block of zeroed memory, as large as the sum of sizes_of().
template <simt::scope Scope>
TND_HD inline table_ref<Scope> table_over(void *memory, geometry shape, replacement policy) {
  table_sizes const sizes = sizes_of(shape);
  u8 *base = static_cast<u8 *>(memory);
  return {reinterpret_cast<page_entry *>(base),
          reinterpret_cast<u32 *>(base + sizes.entries),
          reinterpret_cast<set_control *>(base + sizes.entries + sizes.stamps),
          shape,
          policy,
          reciprocal(shape.set_count)};
}

}  // namespace tanada::tier
