#include "onesided/swap/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tanada::comex::swap {
namespace {

using enum rank_state;

using indices = std::vector<uint32_t>;

indices of(const decision::list &list) {
  indices all{list.begin(), list.end()};
  std::sort(all.begin(), all.end());
  return all;
}

// A node with a budget of 100 bytes.
struct scheduled_node {
  std::vector<rank_view> ranks;
  node_view settings{.ranks = {},
                     .budget = 100,
                     .slots = 1,
                     .moves_max = 2,
                     .now_ns = 1'000'000,
                     .patience_ns = 100,
                     .slice_ns = 10'000,
                     .room_slice_ns = 100'000,
                     .stuck_ns = 1000};

  uint32_t add(rank_view more) {
    ranks.push_back(more);
    return uint32_t(ranks.size() - 1);
  }
  decision decide() const {
    node_view all = settings;
    all.ranks = ranks;
    return swap::decide(all);
  }
};

rank_view runs(uint64_t here) {
  return {.state = running, .here = here, .allocated = here, .since_ns = 999'000};
}
rank_view waits(uint64_t here, uint64_t since_ns = 1) {
  return {.state = wait, .here = here, .allocated = here, .since_ns = since_ns};
}
rank_view is_back(uint64_t away, uint64_t since_ns = 1) {
  return {
      .state = swap_in_wait, .wants = true, .away = away, .allocated = away, .since_ns = since_ns};
}

TEST(scheduler, runs_who_is_ready_first_as_slots_allow) {
  scheduled_node of_three;
  of_three.settings.slots = 2;
  for (uint64_t const since : {3, 1, 2})
    of_three.add({.state = ready, .since_ns = since});
  EXPECT_EQ(of(of_three.decide().run), (indices{1, 2}));
  of_three.ranks[1].state = running;
  EXPECT_EQ(of(of_three.decide().run), (indices{2}));
  of_three.ranks[2].state = running;
  EXPECT_TRUE(of_three.decide().is_empty());
}

TEST(scheduler, lets_who_is_here_go_on_without_more) {
  scheduled_node full;
  full.add(runs(50));
  auto const back = full.add(waits(50));
  full.ranks[back].wants = true;
  EXPECT_EQ(of(full.decide().admit), (indices{back}));
  full.ranks[back].state = swap_out_wait;
  EXPECT_EQ(of(full.decide().admit), (indices{back}));
}

TEST(scheduler, brings_in_what_fits_two_at_a_time) {
  scheduled_node roomy;
  for (uint64_t i = 0; i < 4; i++)
    roomy.add(is_back(25, 9 - i));
  EXPECT_EQ(of(roomy.decide().come), (indices{2, 3}));
  roomy.ranks[2].state = swap_in;
  EXPECT_EQ(of(roomy.decide().come), (indices{3}));
}

TEST(scheduler, sends_away_who_waits_longest_and_no_more_than_needed) {
  scheduled_node full;
  full.add(runs(40));
  full.add(waits(30, 20));
  full.add(waits(30, 10));
  EXPECT_TRUE(full.decide().is_empty());  // nobody needs room
  full.add(is_back(30));
  auto const made = full.decide();
  EXPECT_EQ(of(made.leave), (indices{2}));
  EXPECT_EQ(made.come.count, 0u);
  full.ranks[2].state = swap_out_wait;
  EXPECT_TRUE(full.decide().is_empty());  // until it is prepared
  full.ranks[2].is_prepared = true;
  EXPECT_EQ(of(full.decide().out), (indices{2}));
  full.ranks[2].state = swap_out;
  EXPECT_TRUE(full.decide().is_empty());
  full.ranks[2] = {.state = swapped, .away = 30, .allocated = 30};
  EXPECT_EQ(of(full.decide().come), (indices{3}));
}

TEST(scheduler, leaves_alone_who_must_stay_and_who_has_just_begun_to_wait) {
  for (auto const kind : {wait_kind::held, wait_kind::served}) {
    scheduled_node full;
    full.add(runs(50));
    full.ranks[full.add(waits(50))].kind = kind;
    full.add(is_back(50));
    EXPECT_TRUE(full.decide().is_empty());
  }
  scheduled_node young;
  young.add(runs(50));
  young.add(waits(50, young.settings.now_ns - 50));
  young.add(is_back(50));
  EXPECT_TRUE(young.decide().is_empty());
  young.settings.now_ns += 50;
  EXPECT_EQ(of(young.decide().leave), (indices{1}));
  young.settings.now_ns -= 50;
  young.ranks[0].state = gone;  // nobody would do anything else
  young.ranks[1].here = 60;
  EXPECT_EQ(of(young.decide().leave), (indices{1}));
}

TEST(scheduler, lets_nobody_overtake_who_waits_for_room) {
  scheduled_node full;
  full.add(runs(60));
  full.add(is_back(50, 1));
  full.add(is_back(10, 2));
  EXPECT_TRUE(full.decide().is_empty());
}

TEST(scheduler, charges_all_that_may_be_touched_of_who_is_here) {
  scheduled_node sparse;
  sparse.add({.state = running, .here = 1, .allocated = 80, .since_ns = 999'000});
  sparse.add(is_back(30));
  EXPECT_TRUE(sparse.decide().is_empty());
  sparse.ranks[0].state = wait;  // others put to it
  EXPECT_EQ(of(sparse.decide().leave), (indices{0}));
  sparse.ranks[0].here = 0;
  EXPECT_EQ(of(sparse.decide().leave), (indices{0}));
  sparse.ranks[0] = {.state = swapped, .away = 1, .allocated = 80};
  EXPECT_EQ(of(sparse.decide().come), (indices{1}));
  sparse.ranks[0] = {.state = swap_in, .wants = true, .away = 1, .allocated = 80};
  EXPECT_TRUE(sparse.decide().is_empty());
}

TEST(scheduler, grants_reservations_in_turn) {
  scheduled_node full;
  full.add(
      {.state = wait, .wants = true, .here = 20, .allocated = 20, .reserve = 40, .since_ns = 5});
  EXPECT_EQ(of(full.decide().admit), (indices{0}));
  full.add(waits(50));
  auto const made = full.decide();
  EXPECT_EQ(made.admit.count, 0u);
  EXPECT_EQ(of(made.leave), (indices{1}));
}

TEST(scheduler, takes_room_from_who_came_last_when_all_want_more) {
  scheduled_node full;
  for (uint64_t const since : {3, 1, 2})
    full.add({.state = wait,
              .wants = true,
              .here = 30,
              .allocated = 30,
              .reserve = 30,
              .since_ns = since});
  EXPECT_EQ(of(full.decide().leave), (indices{0}));
  full.ranks[0].state = swap_out_wait;
  EXPECT_TRUE(full.decide().is_empty());
  full.ranks[0].is_prepared = true;
  EXPECT_EQ(of(full.decide().out), (indices{0}));
  full.ranks[0] = {.state = swap_in_wait,
                   .wants = true,
                   .away = 30,
                   .allocated = 30,
                   .reserve = 30,
                   .since_ns = 3};
  EXPECT_EQ(of(full.decide().admit), (indices{1}));
}

TEST(scheduler, takes_room_from_who_came_last_when_slots_stay_empty_for_long) {
  scheduled_node full;
  full.settings.slots = 2;
  auto const busy = full.add(runs(40));
  auto const first = full.add(waits(30, 990'000)), second = full.add(waits(30, 995'000));
  for (auto const each : {first, second}) {
    full.ranks[each].wants = true;
    full.ranks[each].reserve = 20;
  }
  EXPECT_EQ(of(full.decide().leave), (indices{second}));
  full.ranks[first].since_ns = 996'000;
  full.ranks[second].since_ns = 997'000;
  EXPECT_TRUE(full.decide().is_empty()) << "who runs may give its own up soon";
  full.ranks[first].since_ns = 990'000;
  full.settings.slots = 1;
  EXPECT_TRUE(full.decide().is_empty());
  full.settings.slots = 2;
  full.ranks[busy].state = wait;
  full.ranks[busy].kind = wait_kind::others;
  full.ranks[busy].since_ns = 1;
  EXPECT_EQ(of(full.decide().leave), (indices{busy})) << "whose wait is not over goes before them";
}

TEST(scheduler, goes_beyond_the_budget_only_when_nothing_else_can_happen) {
  scheduled_node full;
  full.add(waits(60));
  full.ranks[0].kind = wait_kind::held;
  full.add(is_back(50, full.settings.now_ns - 999));
  EXPECT_TRUE(full.decide().is_empty());
  full.settings.now_ns++;
  auto const made = full.decide();
  EXPECT_TRUE(made.is_beyond_budget);
  EXPECT_EQ(of(made.come), (indices{1}));
  full.ranks[0].kind = wait_kind::served;  // soon over
  EXPECT_TRUE(full.decide().is_empty());
  full.ranks[0] = runs(60);
  EXPECT_TRUE(full.decide().is_empty());
}

TEST(scheduler, waits_for_pins_and_the_cache_but_not_for_ever) {
  for (bool const is_pinned : {true, false}) {
    scheduled_node full;
    full.add(waits(60));
    full.ranks[0].is_pinned = is_pinned;
    full.ranks[0].kind = is_pinned ? wait_kind::others : wait_kind::held;
    full.settings.cached = is_pinned ? 0 : 10;
    full.add(is_back(50, full.settings.now_ns - 99'999));
    EXPECT_TRUE(full.decide().is_empty());
    full.settings.now_ns++;
    auto const made = full.decide();
    EXPECT_TRUE(made.is_beyond_budget);
    EXPECT_EQ(of(made.come), (indices{1}));
  }
}

TEST(scheduler, wants_the_cache_smaller_when_others_need_its_room) {
  scheduled_node full;
  full.settings.cached = 30;
  full.add(runs(50));
  EXPECT_EQ(full.decide().cache_surplus, 0u);
  full.add(is_back(40));
  EXPECT_EQ(full.decide().cache_surplus, 20u);
  full.settings.cached = 10;
  EXPECT_EQ(of(full.decide().come), (indices{1}));
}

TEST(scheduler, asks_who_runs_for_long_to_make_way) {
  scheduled_node busy;
  busy.add(runs(50));
  busy.add({.state = ready});
  EXPECT_EQ(busy.decide().ask.count, 0u);
  busy.settings.now_ns += 10'000;
  EXPECT_EQ(of(busy.decide().ask), (indices{0}));
  busy.ranks[1] = is_back(60);
  busy.ranks[0].let_in_ns = busy.ranks[0].since_ns;
  EXPECT_EQ(busy.decide().ask.count, 0u);
  busy.settings.now_ns += 100'000;
  EXPECT_EQ(of(busy.decide().ask), (indices{0}));
}

// Its wait began a moment ago, and its memory was let in long ago.
rank_view polls(uint64_t here, const scheduled_node &among) {
  auto made = waits(here, among.settings.now_ns - 1);
  made.let_in_ns = among.settings.now_ns - among.settings.room_slice_ns;
  return made;
}

TEST(scheduler, asks_a_rank_that_polls_by_the_age_of_its_memory) {
  scheduled_node busy;
  busy.add(polls(50, busy));
  busy.ranks[0].state = running;
  EXPECT_EQ(busy.decide().ask.count, 0u);
  busy.add(is_back(60));
  EXPECT_EQ(of(busy.decide().ask), (indices{0}));
  busy.ranks[0].let_in_ns++;
  EXPECT_EQ(busy.decide().ask.count, 0u);
}

TEST(scheduler, sends_away_a_rank_whose_waits_are_all_short) {
  for (bool const is_over : {false, true}) {
    scheduled_node busy;
    busy.add(runs(20));
    auto const poller = busy.add(polls(50, busy));
    busy.ranks[poller].wants = is_over;
    EXPECT_EQ(of(busy.decide().admit), is_over ? indices{poller} : indices{});
    auto const starved = busy.add(is_back(60));
    EXPECT_EQ(of(busy.decide().leave), (indices{poller}));
    EXPECT_EQ(busy.decide().admit.count, 0u);
    busy.ranks[poller].state = swap_out_wait;
    EXPECT_TRUE(busy.decide().is_empty()) << "until it is prepared";
    busy.ranks[poller].is_prepared = true;
    EXPECT_EQ(of(busy.decide().out), (indices{poller}));
    busy.ranks[starved].away = 20;
    busy.ranks[starved].allocated = 20;
    EXPECT_EQ(of(busy.decide().come), (indices{starved}));
    EXPECT_EQ(of(busy.decide().admit), is_over ? indices{poller} : indices{})
        << "its room is not needed any more";
  }
}

TEST(scheduler, keeps_a_rank_that_polls_while_its_memory_is_held) {
  scheduled_node busy;
  busy.add(polls(50, busy));
  busy.ranks[0].kind = wait_kind::held;
  busy.ranks[0].wants = true;
  busy.add(is_back(60));
  EXPECT_EQ(of(busy.decide().admit), (indices{0}));
}

TEST(scheduler, gives_the_slot_of_who_does_not_answer_to_another) {
  scheduled_node busy;
  busy.settings.silence_ns = 30'000;
  busy.add(runs(50));
  busy.add({.state = ready});
  EXPECT_EQ(busy.decide().run.count, 0u);
  busy.settings.now_ns += 30'000;
  EXPECT_EQ(of(busy.decide().run), (indices{1}));
  busy.ranks[1] = runs(10);
  busy.ranks[1].since_ns = busy.settings.now_ns;
  busy.add({.state = ready});
  EXPECT_EQ(busy.decide().run.count, 0u) << "one more, and no more";
}

TEST(scheduler, leaves_alone_what_others_touch) {
  scheduled_node full;
  full.add(runs(40));
  full.ranks[full.add(waits(30, 10))].is_pinned = true;
  full.add(waits(30, 20));
  full.add(is_back(30));
  EXPECT_EQ(of(full.decide().leave), (indices{2}));
  full.ranks[2].state = swap_out_wait;
  full.ranks[2].is_prepared = true;
  full.ranks[2].is_pinned = true;
  EXPECT_EQ(full.decide().out.count, 0u);
  full.ranks[2].is_pinned = false;
  EXPECT_EQ(of(full.decide().out), (indices{2}));
}

TEST(rank_state, follows_the_paper) {
  indices legal;
  for (uint32_t from = 0; from < rank_state_count; from++) {
    for (uint32_t to = 0; to < rank_state_count; to++) {
      if (rank_state(to) != gone && may_follow(rank_state(from), rank_state(to)))
        legal.push_back(from * 10 + to);
    }
  }
  auto const step = [](rank_state from, rank_state to) {
    return uint32_t(from) * 10 + uint32_t(to);
  };
  indices paper{step(ready, running),
                step(running, wait),
                step(wait, ready),
                step(wait, swap_out_wait),
                step(swap_out_wait, ready),
                step(swap_out_wait, swap_out),
                step(swap_out, swapped),
                step(swapped, swap_in_wait),
                step(swap_in_wait, swap_in),
                step(swap_in, ready),
                step(gone, ready)};
  std::sort(paper.begin(), paper.end());
  EXPECT_EQ(legal, paper);
  EXPECT_STREQ(name_of(swap_out_wait), "SwapOutWait");
}

}  // namespace
}  // namespace tanada::comex::swap
