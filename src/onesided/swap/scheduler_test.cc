// Tests of the scheduler's decisions on small nodes.
#include "onesided/swap/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tanada::onesided::swap {
namespace {

using enum rank_state;

using indices = std::vector<uint32_t>;

indices ranks_in(const decision::list &list) {
  indices ranks{list.begin(), list.end()};
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// A node with a budget of 100 bytes.
struct scheduled_node {
  std::vector<rank_view> ranks;
  node_view settings{.ranks = {},
                     .budget = 100,
                     .slots = 1,
                     .moves_max = 2,
                     .now_ns = 1'000'000,
                     .swap_out_delay_ns = 100,
                     .slice_ns = 10'000,
                     .residency_slice_ns = 100'000,
                     .stall_timeout_ns = 1000};

  uint32_t add(rank_view more) {
    ranks.push_back(more);
    return uint32_t(ranks.size() - 1);
  }
  decision decide() const {
    node_view view = settings;
    view.ranks = ranks;
    return swap::decide(view);
  }
};

rank_view runs(uint64_t size) {
  return {.state = running, .resident_size = size, .allocated = size, .since_ns = 999'000};
}
rank_view waits(uint64_t size, uint64_t since_ns = 1) {
  return {.state = wait, .resident_size = size, .allocated = size, .since_ns = since_ns};
}
rank_view swapped_out_ready(uint64_t size, uint64_t since_ns = 1) {
  return {.state = swap_in_wait,
          .wants_to_run = true,
          .swapped_size = size,
          .allocated = size,
          .since_ns = since_ns};
}

TEST(scheduler, runs_who_is_ready_first_as_slots_allow) {
  scheduled_node of_three;
  of_three.settings.slots = 2;
  for (uint64_t const since : {3, 1, 2})
    of_three.add({.state = ready, .since_ns = since});
  EXPECT_EQ(ranks_in(of_three.decide().run), (indices{1, 2}));
  of_three.ranks[1].state = running;
  EXPECT_EQ(ranks_in(of_three.decide().run), (indices{2}));
  of_three.ranks[2].state = running;
  EXPECT_TRUE(of_three.decide().is_empty());
}

TEST(scheduler, lets_who_is_here_go_on_without_more) {
  scheduled_node full;
  full.add(runs(50));
  auto const back = full.add(waits(50));
  full.ranks[back].wants_to_run = true;
  EXPECT_EQ(ranks_in(full.decide().admit), (indices{back}));
  full.ranks[back].state = swap_out_wait;
  EXPECT_EQ(ranks_in(full.decide().admit), (indices{back}));
}

TEST(scheduler, brings_in_what_fits_two_at_a_time) {
  scheduled_node roomy;
  for (uint64_t i = 0; i < 4; i++)
    roomy.add(swapped_out_ready(25, 9 - i));
  EXPECT_EQ(ranks_in(roomy.decide().move_in), (indices{2, 3}));
  roomy.ranks[2].state = swap_in;
  EXPECT_EQ(ranks_in(roomy.decide().move_in), (indices{3}));
}

TEST(scheduler, sends_away_who_waits_longest_and_no_more_than_needed) {
  scheduled_node full;
  full.add(runs(40));
  full.add(waits(30, 20));
  full.add(waits(30, 10));
  EXPECT_TRUE(full.decide().is_empty());  // no rank needs memory
  full.add(swapped_out_ready(30));
  auto const plan = full.decide();
  EXPECT_EQ(ranks_in(plan.prepare), (indices{2}));
  EXPECT_EQ(plan.move_in.count, 0u);
  full.ranks[2].state = swap_out_wait;
  EXPECT_TRUE(full.decide().is_empty());  // until it is prepared
  full.ranks[2].is_prepared = true;
  EXPECT_EQ(ranks_in(full.decide().move_out), (indices{2}));
  full.ranks[2].state = swap_out;
  EXPECT_TRUE(full.decide().is_empty());
  full.ranks[2] = {.state = swapped, .swapped_size = 30, .allocated = 30};
  EXPECT_EQ(ranks_in(full.decide().move_in), (indices{3}));
}

TEST(scheduler, leaves_alone_who_must_stay_and_who_has_just_begun_to_wait) {
  for (auto const kind : {wait_kind::pinned, wait_kind::for_pages}) {
    scheduled_node full;
    full.add(runs(50));
    full.ranks[full.add(waits(50))].kind = kind;
    full.add(swapped_out_ready(50));
    EXPECT_TRUE(full.decide().is_empty());
  }
  scheduled_node young;
  young.add(runs(50));
  young.add(waits(50, young.settings.now_ns - 50));
  young.add(swapped_out_ready(50));
  EXPECT_TRUE(young.decide().is_empty());
  young.settings.now_ns += 50;
  EXPECT_EQ(ranks_in(young.decide().prepare), (indices{1}));
  young.settings.now_ns -= 50;
  young.ranks[0].state = inactive;  // no other rank makes progress
  young.ranks[1].resident_size = 60;
  EXPECT_EQ(ranks_in(young.decide().prepare), (indices{1}));
}

TEST(scheduler, lets_nobody_overtake_who_waits_for_room) {
  scheduled_node full;
  full.add(runs(60));
  full.add(swapped_out_ready(50, 1));
  full.add(swapped_out_ready(10, 2));
  EXPECT_TRUE(full.decide().is_empty());
}

TEST(scheduler, charges_all_that_may_be_touched_of_who_is_here) {
  scheduled_node sparse;
  sparse.add({.state = running, .resident_size = 1, .allocated = 80, .since_ns = 999'000});
  sparse.add(swapped_out_ready(30));
  EXPECT_TRUE(sparse.decide().is_empty());
  sparse.ranks[0].state = wait;  // others put to it
  EXPECT_EQ(ranks_in(sparse.decide().prepare), (indices{0}));
  sparse.ranks[0].resident_size = 0;
  EXPECT_EQ(ranks_in(sparse.decide().prepare), (indices{0}));
  sparse.ranks[0] = {.state = swapped, .swapped_size = 1, .allocated = 80};
  EXPECT_EQ(ranks_in(sparse.decide().move_in), (indices{1}));
  sparse.ranks[0] = {.state = swap_in, .wants_to_run = true, .swapped_size = 1, .allocated = 80};
  EXPECT_TRUE(sparse.decide().is_empty());
}

TEST(scheduler, grants_reservations_in_turn) {
  scheduled_node full;
  full.add({.state = wait,
            .wants_to_run = true,
            .resident_size = 20,
            .allocated = 20,
            .reserve = 40,
            .since_ns = 5});
  EXPECT_EQ(ranks_in(full.decide().admit), (indices{0}));
  full.add(waits(50));
  auto const plan = full.decide();
  EXPECT_EQ(plan.admit.count, 0u);
  EXPECT_EQ(ranks_in(plan.prepare), (indices{1}));
}

TEST(scheduler, takes_room_from_who_came_last_when_all_want_more) {
  scheduled_node full;
  for (uint64_t const since : {3, 1, 2})
    full.add({.state = wait,
              .wants_to_run = true,
              .resident_size = 30,
              .allocated = 30,
              .reserve = 30,
              .since_ns = since});
  EXPECT_EQ(ranks_in(full.decide().prepare), (indices{0}));
  full.ranks[0].state = swap_out_wait;
  EXPECT_TRUE(full.decide().is_empty());
  full.ranks[0].is_prepared = true;
  EXPECT_EQ(ranks_in(full.decide().move_out), (indices{0}));
  full.ranks[0] = {.state = swap_in_wait,
                   .wants_to_run = true,
                   .swapped_size = 30,
                   .allocated = 30,
                   .reserve = 30,
                   .since_ns = 3};
  EXPECT_EQ(ranks_in(full.decide().admit), (indices{1}));
}

TEST(scheduler, takes_room_from_who_came_last_when_slots_stay_empty_for_long) {
  scheduled_node full;
  full.settings.slots = 2;
  auto const busy = full.add(runs(40));
  auto const first = full.add(waits(30, 990'000)), second = full.add(waits(30, 995'000));
  for (auto const rank : {first, second}) {
    full.ranks[rank].wants_to_run = true;
    full.ranks[rank].reserve = 20;
  }
  EXPECT_EQ(ranks_in(full.decide().prepare), (indices{second}));
  full.ranks[first].since_ns = 996'000;
  full.ranks[second].since_ns = 997'000;
  EXPECT_TRUE(full.decide().is_empty()) << "the running rank may free its memory soon";
  full.ranks[first].since_ns = 990'000;
  full.settings.slots = 1;
  EXPECT_TRUE(full.decide().is_empty());
  full.settings.slots = 2;
  full.ranks[busy].state = wait;
  full.ranks[busy].kind = wait_kind::swappable;
  full.ranks[busy].since_ns = 1;
  EXPECT_EQ(ranks_in(full.decide().prepare), (indices{busy}))
      << "a rank whose wait is not over is chosen first";
}

TEST(scheduler, goes_beyond_the_budget_only_when_nothing_else_can_happen) {
  scheduled_node full;
  full.add(waits(60));
  full.ranks[0].kind = wait_kind::pinned;
  full.add(swapped_out_ready(50, full.settings.now_ns - 999));
  EXPECT_TRUE(full.decide().is_empty());
  full.settings.now_ns++;
  auto const plan = full.decide();
  EXPECT_TRUE(plan.is_beyond_budget);
  EXPECT_EQ(ranks_in(plan.move_in), (indices{1}));
  full.ranks[0].kind = wait_kind::for_pages;  // it ends soon
  EXPECT_TRUE(full.decide().is_empty());
  full.ranks[0] = runs(60);
  EXPECT_TRUE(full.decide().is_empty());
}

TEST(scheduler, waits_for_pins_and_the_cache_but_not_for_ever) {
  for (bool const is_pinned : {true, false}) {
    scheduled_node full;
    full.add(waits(60));
    full.ranks[0].is_pinned = is_pinned;
    full.ranks[0].kind = is_pinned ? wait_kind::swappable : wait_kind::pinned;
    full.settings.cached_size = is_pinned ? 0 : 10;
    full.add(swapped_out_ready(50, full.settings.now_ns - 99'999));
    EXPECT_TRUE(full.decide().is_empty());
    full.settings.now_ns++;
    auto const plan = full.decide();
    EXPECT_TRUE(plan.is_beyond_budget);
    EXPECT_EQ(ranks_in(plan.move_in), (indices{1}));
  }
}

TEST(scheduler, wants_the_cache_smaller_when_others_need_its_room) {
  scheduled_node full;
  full.settings.cached_size = 30;
  full.add(runs(50));
  EXPECT_EQ(full.decide().cache_surplus, 0u);
  full.add(swapped_out_ready(40));
  EXPECT_EQ(full.decide().cache_surplus, 20u);
  full.settings.cached_size = 10;
  EXPECT_EQ(ranks_in(full.decide().move_in), (indices{1}));
}

TEST(scheduler, asks_who_runs_for_long_to_make_way) {
  scheduled_node busy;
  busy.add(runs(50));
  busy.add({.state = ready});
  EXPECT_EQ(busy.decide().yield.count, 0u);
  busy.settings.now_ns += 10'000;
  EXPECT_EQ(ranks_in(busy.decide().yield), (indices{0}));
  busy.ranks[1] = swapped_out_ready(60);
  busy.ranks[0].admitted_ns = busy.ranks[0].since_ns;
  EXPECT_EQ(busy.decide().yield.count, 0u);
  busy.settings.now_ns += 100'000;
  EXPECT_EQ(ranks_in(busy.decide().yield), (indices{0}));
}

// Its wait began a moment ago, and its memory was admitted long ago.
rank_view polls(uint64_t size, const scheduled_node &among) {
  auto view = waits(size, among.settings.now_ns - 1);
  view.admitted_ns = among.settings.now_ns - among.settings.residency_slice_ns;
  return view;
}

TEST(scheduler, asks_a_rank_that_polls_by_the_age_of_its_memory) {
  scheduled_node busy;
  busy.add(polls(50, busy));
  busy.ranks[0].state = running;
  EXPECT_EQ(busy.decide().yield.count, 0u);
  busy.add(swapped_out_ready(60));
  EXPECT_EQ(ranks_in(busy.decide().yield), (indices{0}));
  busy.ranks[0].admitted_ns++;
  EXPECT_EQ(busy.decide().yield.count, 0u);
}

TEST(scheduler, sends_away_a_rank_whose_waits_are_all_short) {
  for (bool const is_over : {false, true}) {
    scheduled_node busy;
    busy.add(runs(20));
    auto const poller = busy.add(polls(50, busy));
    busy.ranks[poller].wants_to_run = is_over;
    EXPECT_EQ(ranks_in(busy.decide().admit), is_over ? indices{poller} : indices{});
    auto const starved = busy.add(swapped_out_ready(60));
    EXPECT_EQ(ranks_in(busy.decide().prepare), (indices{poller}));
    EXPECT_EQ(busy.decide().admit.count, 0u);
    busy.ranks[poller].state = swap_out_wait;
    EXPECT_TRUE(busy.decide().is_empty()) << "until it is prepared";
    busy.ranks[poller].is_prepared = true;
    EXPECT_EQ(ranks_in(busy.decide().move_out), (indices{poller}));
    busy.ranks[starved].swapped_size = 20;
    busy.ranks[starved].allocated = 20;
    EXPECT_EQ(ranks_in(busy.decide().move_in), (indices{starved}));
    EXPECT_EQ(ranks_in(busy.decide().admit), is_over ? indices{poller} : indices{})
        << "its memory is not needed any more";
  }
}

TEST(scheduler, keeps_a_rank_that_polls_while_its_memory_is_held) {
  scheduled_node busy;
  busy.add(polls(50, busy));
  busy.ranks[0].kind = wait_kind::pinned;
  busy.ranks[0].wants_to_run = true;
  busy.add(swapped_out_ready(60));
  EXPECT_EQ(ranks_in(busy.decide().admit), (indices{0}));
}

TEST(scheduler, gives_the_slot_of_who_does_not_answer_to_another) {
  scheduled_node busy;
  busy.settings.unresponsive_ns = 30'000;
  busy.add(runs(50));
  busy.add({.state = ready});
  EXPECT_EQ(busy.decide().run.count, 0u);
  busy.settings.now_ns += 30'000;
  EXPECT_EQ(ranks_in(busy.decide().run), (indices{1}));
  busy.ranks[1] = runs(10);
  busy.ranks[1].since_ns = busy.settings.now_ns;
  busy.add({.state = ready});
  EXPECT_EQ(busy.decide().run.count, 0u) << "exactly one more rank runs";
}

TEST(scheduler, leaves_alone_what_others_touch) {
  scheduled_node full;
  full.add(runs(40));
  full.ranks[full.add(waits(30, 10))].is_pinned = true;
  full.add(waits(30, 20));
  full.add(swapped_out_ready(30));
  EXPECT_EQ(ranks_in(full.decide().prepare), (indices{2}));
  full.ranks[2].state = swap_out_wait;
  full.ranks[2].is_prepared = true;
  full.ranks[2].is_pinned = true;
  EXPECT_EQ(full.decide().move_out.count, 0u);
  full.ranks[2].is_pinned = false;
  EXPECT_EQ(ranks_in(full.decide().move_out), (indices{2}));
}

TEST(rank_state, follows_the_paper) {
  indices legal;
  for (uint32_t source = 0; source < rank_state_count; source++) {
    for (uint32_t target = 0; target < rank_state_count; target++) {
      if (rank_state(target) != inactive && may_follow(rank_state(source), rank_state(target)))
        legal.push_back(source * 10 + target);
    }
  }
  auto const step = [](rank_state source, rank_state target) {
    return uint32_t(source) * 10 + uint32_t(target);
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
                step(inactive, ready)};
  std::sort(paper.begin(), paper.end());
  EXPECT_EQ(legal, paper);
  EXPECT_STREQ(name_of(swap_out_wait), "SwapOutWait");
}

}  // namespace
}  // namespace tanada::onesided::swap
