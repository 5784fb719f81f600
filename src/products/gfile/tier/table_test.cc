// The page table against plain reference models (lookups and evictions under each policy), and
// under many threads.
#include <tanada/device/detail/tier/table.hpp>

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <tanada/device/detail/simt/launch.hpp>
#include <tanada/device/detail/tier/claim.hpp>

namespace tanada::tier {
namespace {

using table = table_ref<simt::scope::device>;

class storage {
 public:
  storage(u32 frame_count, replacement policy) : shape_{geometry_of(frame_count)} {
    table_sizes const sizes = sizes_of(shape_);
    memory_.resize((sizes.entries + sizes.stamps + sizes.sets) / sizeof(page_entry) + 1);
    ref = table_over<simt::scope::device>(memory_.data(), shape_, policy);
  }
  table ref{};

 private:
  geometry shape_;
  std::vector<page_entry> memory_;
};

// Bring a page in as a cache does. Returns its frame, unpinned.
u32 touch_page(const table &cache, u64 key, u64 *evicted = nullptr) {
  find_result const result = cache.find(key);
  if (result.outcome == find_outcome::hit) {
    cache.release(result.frame);
    return result.frame;
  }
  begin_result const begun = cache.begin(key);
  EXPECT_EQ(begun.outcome, begin_outcome::owner);
  if (evicted != nullptr)
    *evicted = begun.evicted_key;
  cache.publish(begun.frame, page_state::ready);
  cache.release(begun.frame);
  return begun.frame;
}

TEST(tier_geometry, uses_every_size_from_one_frame_up) {
  for (u32 frames = 1; frames < 5000; frames++) {
    geometry const shape = geometry_of(frames);
    ASSERT_GE(shape.ways, 1u);
    ASSERT_LE(shape.ways, ways_max);
    ASSERT_LE(shape.frame_count(), frames);
    ASSERT_GT(shape.frame_count() + ways_max, frames);
  }
}

TEST(tier_table, spreads_consecutive_pages_over_all_sets) {
  storage cache{4096, replacement::lru};
  std::vector<u32> load(cache.ref.shape.set_count);
  for (u64 page = 0; page < 4096; page++)
    load[cache.ref.set_of(page_key(7, page))]++;
  EXPECT_EQ(*std::max_element(load.begin(), load.end()), 4096u / cache.ref.shape.set_count);
}

// One set: the model keeps a stamp for each page, of insertion (fifo) or of use (lru). Stamps are
// the count of insertions, so the order of pages used between two insertions is free.
class policy_model : public testing::TestWithParam<replacement> {};

TEST_P(policy_model, gives_up_what_the_policy_says) {
  replacement const policy = GetParam();
  constexpr u32 frames = 8;
  storage cache{frames, policy};
  std::mt19937_64 random{42};
  std::map<u64, u64> stamps;
  u64 insertions = 0;
  for (int step = 0; step < 20000; step++) {
    u64 const key = page_key(1, random() % 20);
    u64 evicted = 0;
    bool const was_in = stamps.count(key) != 0;
    touch_page(cache.ref, key, &evicted);
    if (was_in) {
      ASSERT_EQ(evicted, 0u);
      if (policy == replacement::lru)
        stamps[key] = insertions;
      continue;
    }
    insertions++;
    if (stamps.size() == frames) {
      ASSERT_EQ(stamps.count(evicted), 1u) << "gave up a page that was not there";
      for (auto const &[resident, stamp] : stamps)
        ASSERT_LE(stamps[evicted], stamp);
      stamps.erase(evicted);
    }
    stamps[key] = insertions;
  }
  for (auto const &[key, stamp] : stamps)
    EXPECT_EQ(cache.ref.find(key).outcome, find_outcome::hit);
}

INSTANTIATE_TEST_SUITE_P(policies,
                         policy_model,
                         testing::Values(replacement::fifo, replacement::lru));

TEST(tier_table, clock_spares_what_was_used_since_the_hand_passed) {
  storage cache{4, replacement::clock};
  for (u64 page = 0; page < 4; page++)
    touch_page(cache.ref, page_key(1, page));
  touch_page(cache.ref, page_key(1, 0));
  touch_page(cache.ref, page_key(1, 2));
  u64 evicted = 0;
  touch_page(cache.ref, page_key(1, 10), &evicted);
  EXPECT_EQ(evicted, page_key(1, 1));
  touch_page(cache.ref, page_key(1, 11), &evicted);
  EXPECT_EQ(evicted, page_key(1, 3));
}

TEST(tier_table, pinned_and_loading_frames_are_never_given_up) {
  storage cache{2, replacement::fifo};
  begin_result const loading = cache.ref.begin(page_key(1, 1));
  ASSERT_EQ(loading.outcome, begin_outcome::owner);
  touch_page(cache.ref, page_key(1, 2));
  find_result const pinned = cache.ref.find(page_key(1, 2));
  ASSERT_EQ(pinned.outcome, find_outcome::hit);
  EXPECT_EQ(cache.ref.begin(page_key(1, 3)).outcome, begin_outcome::full);
  EXPECT_EQ(cache.ref.find(page_key(1, 1)).outcome, find_outcome::loading);
  cache.ref.abandon(loading.frame);
  EXPECT_EQ(cache.ref.find(page_key(1, 1)).outcome, find_outcome::absent);
  EXPECT_EQ(cache.ref.begin(page_key(1, 3)).outcome, begin_outcome::owner);
  cache.ref.release(pinned.frame);
}

TEST(tier_table, doomed_pages_are_not_found_and_their_pins_stay_good) {
  storage cache{1, replacement::lru};
  touch_page(cache.ref, page_key(3, 5));
  find_result const pinned = cache.ref.find(page_key(3, 5));
  cache.ref.invalidate(page_key(3, 5));
  EXPECT_EQ(cache.ref.find(page_key(3, 5)).outcome, find_outcome::absent);
  EXPECT_EQ(cache.ref.begin(page_key(3, 5)).outcome, begin_outcome::full);
  cache.ref.release(pinned.frame);
  EXPECT_EQ(cache.ref.begin(page_key(3, 5)).outcome, begin_outcome::owner);
}

TEST(tier_table, a_page_doomed_while_loading_is_never_found) {
  storage cache{4, replacement::lru};
  begin_result const begun = cache.ref.begin(page_key(1, 1));
  cache.ref.invalidate(page_key(1, 1));
  cache.ref.publish(begun.frame, page_state::ready);
  EXPECT_NE(cache.ref.find(page_key(1, 1)).outcome, find_outcome::hit);
  cache.ref.release(begun.frame);
  EXPECT_EQ(cache.ref.begin(page_key(1, 1)).outcome, begin_outcome::owner);
}

TEST(tier_table, a_look_without_a_pin_notices_that_the_frame_was_reused) {
  storage cache{1, replacement::lru};
  u64 const key = page_key(1, 1);
  touch_page(cache.ref, key);
  peek_result const peeked = cache.ref.peek(key);
  ASSERT_EQ(peeked.frame, 0u);
  EXPECT_TRUE(cache.ref.is_unchanged(peeked.frame, key, peeked.version));
  touch_page(cache.ref, page_key(1, 2));
  EXPECT_FALSE(cache.ref.is_unchanged(peeked.frame, key, peeked.version));
  touch_page(cache.ref, key);  // the same page again, in the same frame: yet another version
  EXPECT_FALSE(cache.ref.is_unchanged(peeked.frame, key, peeked.version));
}

// Give other threads time between a pin and a lookup. A yield lasts milliseconds when other
// programs use the processor, so most of the delay is spinning.
void linger(u64 draw) {
  if (draw % 512 == 0)
    return std::this_thread::yield();
  if (draw % 4 != 0)
    return;
  for (u64 turn = 0; turn < draw % 2000; turn++)
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Threads bring pages in, check the frame's content under their pin, and doom pages occasionally.
void hammer(replacement policy,
            u32 frame_count,
            bool drop_pin_early,
            std::vector<u64> &content,
            std::atomic<u32> &wrong) {
  storage cache{frame_count, policy};
  content.assign(frame_count, 0);
  auto const work = [&](u64 seed) {
    std::mt19937_64 random{seed};
    for (int step = 0; step < 20000; step++) {
      u64 const key = page_key(1 + u32(random() % 2), random() % (2 * frame_count));
      find_result result = cache.ref.find(key);
      if (result.outcome == find_outcome::absent) {
        begin_result const begun = cache.ref.begin(key);
        if (begun.outcome != begin_outcome::owner)
          continue;
        simt::device_atomic<u64>(content[begun.frame]).store_relaxed(key);
        cache.ref.publish(begun.frame, page_state::ready);
        result = {find_outcome::hit, begun.frame};
      }
      if (result.outcome != find_outcome::hit)
        continue;
      if (drop_pin_early)
        cache.ref.release(result.frame);
      linger(random());
      if (simt::device_atomic<u64>(content[result.frame]).load_relaxed() != key)
        wrong++;
      if (!drop_pin_early)
        cache.ref.release(result.frame);
      if (random() % 50 == 0)
        cache.ref.invalidate(key);
    }
  };
  std::vector<std::thread> threads;
  for (u64 seed = 0; seed < 4; seed++)
    threads.emplace_back(work, seed);
  for (auto &thread : threads)
    thread.join();
}

TEST(tier_table, threads_never_see_another_page_under_their_pin) {
  for (replacement policy : {replacement::fifo, replacement::lru, replacement::clock})
    for (u32 frames : {1u, 4u, 20u}) {
      std::vector<u64> content;
      std::atomic<u32> wrong = 0;
      hammer(policy, frames, false, content, wrong);
      EXPECT_EQ(wrong, 0u);
    }
}

TEST(tier_table, the_check_above_notices_a_pin_dropped_too_early) {
  std::atomic<u32> wrong = 0;
  std::vector<u64> content;
  for (int round = 0; round < 20 && wrong == 0; round++)
    hammer(replacement::lru, 2, true, content, wrong);
  EXPECT_GT(wrong, 0u);
}

// How readers without a pin check what they have copied.
enum class check { after_copy, never };

// Threads fill frames with words of their key, as groups that own a loading frame do. Others copy
// frames without a pin. Returns how many copies had a word of another page and were taken for good.
u32 count_torn_copies(u32 frame_count, check method) {
  constexpr u32 words = 16;
  storage cache{frame_count, replacement::lru};
  std::vector<u64> content(size_t(frame_count) * words);
  std::atomic<u32> torn = 0, writers = 2;
  auto const write = [&](u64 seed) {
    std::mt19937_64 random{seed};
    for (int step = 0; step < 20000; step++) {
      u64 const key = page_key(1, random() % (2 * frame_count));
      begin_result const begun = cache.ref.begin(key);
      if (begun.outcome != begin_outcome::owner)
        continue;
      for (u32 i = 0; i < words; i++)
        simt::device_atomic<u64>(content[begun.frame * words + i]).store_release(key);
      if (random() % 8 == 0)
        cache.ref.invalidate(key);
      cache.ref.publish(begun.frame, page_state::ready);
      cache.ref.release(begun.frame);
    }
    writers--;
  };
  auto const read = [&](u64 seed) {
    std::mt19937_64 random{seed};
    while (writers != 0) {
      u64 const key = page_key(1, random() % (2 * frame_count));
      peek_result const peeked = cache.ref.peek(key);
      if (peeked.frame == no_frame)
        continue;
      bool is_good = true;
      for (u32 i = 0; i < words; i++) {
        linger(i == words / 2 ? random() : 1);
        u64 const word = simt::device_atomic<u64>(content[peeked.frame * words + i]).load_acquire();
        is_good &= word == key;
      }
      bool const is_taken =
          method == check::never || cache.ref.is_unchanged(peeked.frame, key, peeked.version);
      torn += is_taken && !is_good ? 1 : 0;
    }
  };
  std::vector<std::thread> threads;
  for (u64 seed = 0; seed < 2; seed++) {
    threads.emplace_back(write, seed);
    threads.emplace_back(read, 100 + seed);
  }
  for (auto &thread : threads)
    thread.join();
  return torn;
}

TEST(tier_table, readers_without_a_pin_never_take_another_pages_bytes) {
  for (u32 frames : {1u, 4u, 20u})
    EXPECT_EQ(count_torn_copies(frames, check::after_copy), 0u) << frames;
}

TEST(tier_table, the_check_above_notices_copies_that_are_not_verified) {
  u32 torn = 0;
  for (int round = 0; round < 20 && torn == 0; round++)
    torn = count_torn_copies(2, check::never);
  EXPECT_GT(torn, 0u);
}

TEST(tier_table, pages_are_divided_by_the_number_of_sets_without_error) {
  std::mt19937_64 random{7};
  for (u32 count : {2u, 3u, 5u, 7u, 1000u, 4096u, 65537u, (1u << 28) - 1, 1u << 28}) {
    u64 const inverse = reciprocal(count);
    for (u64 page : {u64{0}, u64{1}, u64{count} - 1, u64{count}, page_index_max})
      ASSERT_EQ(simt::high_product(page, inverse), page / count) << page << " by " << count;
    for (int i = 0; i < 100000; i++) {
      u64 const multiple = random() % (page_index_max / count) * count;
      for (u64 page : {multiple, multiple + count - 1, random() & page_index_max})
        ASSERT_EQ(simt::high_product(page, inverse), page / count) << page << " by " << count;
    }
  }
}

// ---- claims by a warp

using device_claim = warp_claim<simt::scope::device>;

TND_KERNEL void claim_once(table cache, u64 key, begin_result *results) {
  results[simt::thread_rank_in_block()] = device_claim::begin(cache, key);
}

// The result, which all lanes must have.
begin_result claim_by_warp(const table &cache, u64 key) {
  begin_result results[simt::warp_size];
  simt::launch(1, simt::warp_size, claim_once, cache, key, results);
  EXPECT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
  for (begin_result const &result : results) {
    EXPECT_EQ(result.outcome, results[0].outcome);
    EXPECT_EQ(result.frame, results[0].frame);
    EXPECT_EQ(result.evicted_key, results[0].evicted_key);
  }
  return results[0];
}

// Pins of pages make sets full; doomed pages and strays are among the candidates.
TEST(tier_claim, of_a_warp_takes_the_frame_that_a_thread_would_take) {
  for (replacement policy : {replacement::fifo, replacement::lru, replacement::clock}) {
    storage by_thread{20, policy}, by_warp{20, policy};
    std::mt19937_64 random{5};
    std::vector<u32> pinned;
    for (int step = 0; step < 1500; step++) {
      u64 const key = page_key(1, random() % 40), draw = random();
      begin_result expected{}, result{};
      if (draw % 16 == 0) {
        expected = by_thread.ref.begin_anywhere(key);
        result = by_warp.ref.begin_anywhere(key);
      } else {
        expected = by_thread.ref.begin(key);
        result = claim_by_warp(by_warp.ref, key);
      }
      ASSERT_EQ(result.outcome, expected.outcome) << step;
      ASSERT_EQ(result.frame, expected.frame) << step;
      ASSERT_EQ(result.evicted_key, expected.evicted_key) << step;
      bool const keeps_pin = expected.outcome == begin_outcome::owner && draw % 3 == 0;
      for (table const &cache : {by_thread.ref, by_warp.ref}) {
        if (expected.outcome == begin_outcome::owner)
          cache.publish(expected.frame, page_state::ready);
        if (expected.outcome == begin_outcome::owner && !keeps_pin)
          cache.release(expected.frame);
        if (draw % 7 == 0)
          cache.invalidate(page_key(1, draw >> 32 & 31));
        if (pinned.size() > 8)
          cache.release(pinned.front());
      }
      if (pinned.size() > 8)
        pinned.erase(pinned.begin());
      if (keeps_pin)
        pinned.push_back(expected.frame);
    }
  }
}

TND_KERNEL void claim_often(table cache, u64 *content, u32 *wrong) {
  simt::whole_warp const warp{};
  u64 state = simt::global_thread_rank() / simt::warp_size + 1;
  for (u32 i = 0; i < 300; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    u64 const key = page_key(1, (state >> 33) % 12);
    find_result location{find_outcome::absent, no_frame};
    begin_result begun{begin_outcome::present, no_frame, 0};
    if (warp.rank() == 0)
      location = cache.find(key);
    if (warp.broadcast(u32(location.outcome)) == u32(find_outcome::absent))
      begun = device_claim::begin(cache, key);
    if (warp.rank() != 0)
      continue;
    simt::device_atomic<u64> const word(
        content[begun.outcome == begin_outcome::owner ? begun.frame : 0]);
    if (begun.outcome == begin_outcome::owner) {
      word.store_relaxed(key);
      cache.publish(begun.frame, page_state::ready);
      location = {find_outcome::hit, begun.frame};
    }
    if (location.outcome != find_outcome::hit)
      continue;
    if (simt::device_atomic<u64>(content[location.frame]).load_relaxed() != key)
      (void)simt::device_atomic<u32>(*wrong).fetch_add_relaxed(1);
    cache.release(location.frame);
  }
}

TEST(tier_claim, of_many_warps_never_share_a_frame) {
  for (u32 frames : {4u, 20u}) {
    storage cache{frames, replacement::lru};
    std::vector<u64> content(frames);
    u32 wrong = 0;
    simt::launch(4, 64, claim_often, cache.ref, content.data(), &wrong);
    ASSERT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
    EXPECT_EQ(wrong, 0u);
  }
}

// Random pages fill some sets long before others. begin_anywhere() then takes a frame of another
// set, and every lookup finds it there.
//
// Pin pages until one finds no frame. Returns the frame of each page.
std::map<u64, u32> pin_pages_at_random(const table &cache, u64 seed) {
  std::mt19937_64 random{seed};
  std::map<u64, u32> pinned;
  while (pinned.size() < cache.shape.frame_count()) {
    u32 const file = u32(1 + random() % 50);
    u64 const key = page_key(file, random() % 1'000'000);
    if (pinned.contains(key))
      continue;
    begin_result const begun = cache.begin_anywhere(key);
    if (begun.outcome != begin_outcome::owner) {
      EXPECT_EQ(begun.outcome, begin_outcome::full);
      break;
    }
    cache.publish(begun.frame, page_state::ready);
    pinned[key] = begun.frame;
  }
  return pinned;
}

// Not only for some pages: a page with fewer candidate sets than others would be refused long
// before the table is full.
TEST(tier_strays, nearly_all_frames_can_be_pinned_whichever_pages_come) {
  for (u32 frames : {64u, 100u, 264u, 1024u, 4096u, 4100u}) {
    for (u64 seed = 0; seed < 20; seed++) {
      storage cache{frames, replacement::lru};
      EXPECT_GE(pin_pages_at_random(cache.ref, seed).size(), frames * 9 / 10)
          << frames << " frames, seed " << seed;
    }
  }
}

TEST(tier_strays, are_found_and_forgotten) {
  for (u32 frames : {64u, 1024u, 4096u}) {
    storage cache{frames, replacement::lru};
    std::map<u64, u32> const pinned = pin_pages_at_random(cache.ref, frames);
    for (auto const &[key, frame] : pinned) {
      find_result const result = cache.ref.find(key);
      ASSERT_EQ(result.outcome, find_outcome::hit);
      EXPECT_EQ(result.frame, frame);
      cache.ref.release(frame);
      EXPECT_EQ(cache.ref.begin(key).outcome, begin_outcome::present);
    }
    // Whatever happens to strays, the count of their own set returns to zero.
    u32 turn = 0;
    for (auto const &[key, frame] : pinned) {
      if (turn++ % 2 == 0)
        cache.ref.invalidate(key);
      cache.ref.release(frame);
      if (turn % 2 == 1) {
        EXPECT_EQ(cache.ref.find(key).outcome, find_outcome::absent);
      }
    }
    for (u64 page = 0; page < u64(frames) * 20; page++)
      (void)touch_page(cache.ref, page_key(60, page));
    for (u32 set = 0; set < cache.ref.shape.set_count; set++)
      ASSERT_EQ(cache.ref.sets[set].strays, 0u) << set;
  }
}

}  // namespace
}  // namespace tanada::tier
