// Tests of the node table: states, reservations, requests, the cache and failures.
#include "onesided/swap/node_table.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "core/base/log.hpp"
#include "onesided/swap/page_request_queue.hpp"
#include "onesided/swap/node_table_layout.hpp"
#include "onesided/swap/residency.hpp"

namespace tanada::onesided::swap {

struct node_table_testing {
  static auto lock(node_table &table) {
    return node_table::guard{table};
  }
  // Whether the agent's next sleep would end at once.
  static bool take_agent_wakeup(node_table &table) {
    return table.layout_->was_agent_woken.exchange(false);
  }
};

namespace {

using enum rank_state;

struct fake_clock final : seams::clock {
  uint64_t now_ns() noexcept override {
    current_ns += 1;
    return current_ns;
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    current_ns += duration_ns;
  }
  uint64_t current_ns = 1000;
};

// A node table in memory that child processes share.
class node_table_test : public testing::Test {
 protected:
  node_table_test() {
    make({.rank_count = 3,
          .budget = 100,
          .slots = 2,
          .copies_size = 2 * node_table::copy_size,
          .swap_out_delay_ns = 0});
  }
  ~node_table_test() override {
    munmap(memory_.data(), memory_.size());
  }

  void make(const node_table_options &options) {
    if (!memory_.empty())
      munmap(memory_.data(), memory_.size());
    size_t const size = node_table::memory_size(
        options.rank_count, options.has_remote_origins, options.copies_size);
    void *const address =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(address, MAP_FAILED);
    memory_ = {static_cast<std::byte *>(address), size};
    ASSERT_EQ(node_table::create(memory_, options), status::ok);
    table_.emplace(memory_, time_);
  }

  void start_all() {
    for (uint32_t i = 0; i < table_->rank_count(); i++) {
      table_->start(i, int32_t(100 + i));
    }
  }
  // Reserves memory, and reports it as touched.
  void touch(uint32_t rank, uint64_t bytes) {
    ASSERT_EQ(table_->try_reserve(rank, bytes), node_table::reservation::granted);
    table_->set_resident_size(rank, bytes);
  }
  std::span<std::byte> memory_;
  fake_clock time_;
  std::optional<node_table> table_;
};

TEST_F(node_table_test, runs_as_many_as_there_are_slots) {
  start_all();
  EXPECT_EQ(table_->state(0), running);
  EXPECT_EQ(table_->state(1), running);
  EXPECT_EQ(table_->state(2), ready);
  EXPECT_EQ(table_->process_id_of(2), 102);
  EXPECT_FALSE(table_->try_resume(2));
  table_->begin_wait(0, wait_kind::swappable);
  EXPECT_EQ(table_->state(0), wait);
  EXPECT_TRUE(table_->try_resume(2));
  EXPECT_FALSE(table_->try_resume(0));
  EXPECT_EQ(table_->state(0), ready);
  table_->finish(1);
  EXPECT_TRUE(table_->try_resume(0));
}

TEST_F(node_table_test, moves_who_waits_out_for_who_needs_room_and_back) {
  table_->start(0, 1);
  table_->start(1, 2);
  touch(0, 60);
  EXPECT_EQ(table_->try_reserve(1, 60), node_table::reservation::wait);
  EXPECT_EQ(table_->try_reserve(1, 101), node_table::reservation::too_large);
  EXPECT_EQ(table_->try_reserve(1, 60), node_table::reservation::wait);
  table_->begin_wait(1, wait_kind::swappable);
  EXPECT_FALSE(table_->try_resume(1));
  EXPECT_EQ(table_->state(1), wait);
  table_->begin_wait(0, wait_kind::swappable);
  EXPECT_EQ(table_->state(0), swap_out_wait);
  EXPECT_TRUE(table_->should_prepare(0));
  EXPECT_FALSE(table_->next_move());
  EXPECT_TRUE(table_->pin(0));
  table_->set_prepared(0);
  EXPECT_FALSE(table_->should_prepare(0));
  EXPECT_FALSE(table_->next_move()) << "it is pinned";
  EXPECT_EQ(table_->state(0), swap_out_wait);
  table_->unpin(0);
  auto swap_out_order = table_->next_move();
  ASSERT_TRUE(swap_out_order);
  EXPECT_EQ(table_->state(0), swap_out);
  EXPECT_FALSE(table_->pin(0));
  EXPECT_TRUE(swap_out_order->dir == move_order::direction::swap_out && swap_out_order->rank == 0);
  EXPECT_FALSE(table_->next_move()) << "the order was already returned";
  EXPECT_FALSE(table_->try_resume(0));  // its wait is over meanwhile
  table_->complete_move(*swap_out_order,
                        {.resident_size = 0, .swapped_size = 60, .moved_size = 60});
  EXPECT_EQ(table_->state(0), swap_in_wait);
  EXPECT_TRUE(table_->try_resume(1));
  EXPECT_EQ(table_->snapshot(1).allocated, 60u);
  EXPECT_FALSE(table_->next_move());
  table_->finish(1);
  auto swap_in_order = table_->next_move();
  ASSERT_TRUE(swap_in_order);
  EXPECT_TRUE(swap_in_order->dir == move_order::direction::swap_in && swap_in_order->rank == 0);
  EXPECT_FALSE(table_->is_swapped_in(0));
  table_->complete_move(*swap_in_order, {.resident_size = 60, .swapped_size = 0, .moved_size = 60});
  EXPECT_FALSE(table_->pin(0)) << "it is still being swapped in";
  ASSERT_TRUE(table_->is_swapped_in(0));
  table_->complete_swap_in(0);
  EXPECT_TRUE(table_->try_resume(0));
  EXPECT_TRUE(table_->pin(0));
  table_->unpin(0);
  EXPECT_EQ(table_->counters().bytes_out, 60u);
  EXPECT_EQ(table_->counters().swaps_in, 1u);
}

TEST_F(node_table_test, keeps_who_is_back_before_it_left) {
  table_->start(0, 1);
  table_->start(1, 2);
  touch(0, 60);
  ASSERT_EQ(table_->try_reserve(1, 60), node_table::reservation::wait);
  table_->begin_wait(1, wait_kind::swappable);
  EXPECT_FALSE(table_->try_resume(1));
  table_->begin_wait(0, wait_kind::swappable);
  EXPECT_EQ(table_->state(0), swap_out_wait);
  EXPECT_TRUE(table_->try_resume(0));
  table_->set_prepared(0);  // too late
  EXPECT_EQ(table_->state(0), running);
}

TEST_F(node_table_test, gives_changes_of_states_once) {
  start_all();
  state_event events[4];
  ASSERT_EQ(table_->take_events(events), 4u);
  EXPECT_TRUE(events[0].old_state == inactive && events[0].new_state == ready &&
              events[0].rank == 0);
  EXPECT_TRUE(events[1].old_state == ready && events[1].new_state == running);
  EXPECT_LT(events[0].time_ns, events[1].time_ns);
  EXPECT_EQ(table_->take_events(events), 1u);
  EXPECT_EQ(table_->take_events(events), 0u);
}

// Rank 0 is swapped out.
class swapped_out_test : public node_table_test {
 protected:
  swapped_out_test() {
    table_->start(0, 1);
    table_->start(1, 2);
    touch(0, 60);
    EXPECT_EQ(table_->try_reserve(1, 60), node_table::reservation::wait);
    table_->begin_wait(1, wait_kind::swappable);
    EXPECT_FALSE(table_->try_resume(1));
    table_->begin_wait(0, wait_kind::swappable);
    table_->set_prepared(0);
    auto const swap_out_order = table_->next_move();
    EXPECT_TRUE(swap_out_order);
    if (swap_out_order)
      table_->complete_move(*swap_out_order,
                            {.resident_size = 0, .swapped_size = 60, .moved_size = 60});
    EXPECT_EQ(table_->state(0), swapped);
    EXPECT_TRUE(table_->try_resume(1));
    table_->set_resident_size(1, 60);
  }
};

TEST_F(swapped_out_test, serves_pages_of_who_is_away) {
  page_run const pages[] = {{3, 2}, {9, 1}};
  auto *const request = table_->post(1, 0, pages);
  ASSERT_NE(request, nullptr);
  EXPECT_FALSE(node_table::is_granted(*request));
  auto *const accepted = table_->next_request();
  ASSERT_EQ(accepted, request);
  EXPECT_EQ(accepted->page_count, 3u);
  EXPECT_EQ(accepted->pages()[1], (page_run{9, 1}));
  EXPECT_EQ(table_->next_request(), nullptr);
  table_->grant(*accepted);
  EXPECT_TRUE(node_table::is_granted(*request));
  EXPECT_FALSE(node_table::is_complete(*request));
  table_->complete_request(*request);
  EXPECT_TRUE(node_table::is_complete(*request));
  table_->recycle(*request);
}

TEST_F(swapped_out_test, holds_nothing_of_whose_pages_are_copied) {
  page_run const pages[] = {{3, 2}, {9, 1}};
  auto *const request = table_->post(1, 0, pages, true);
  ASSERT_EQ(table_->next_request(), request);
  EXPECT_NE(request->is_reading, 0u);
  EXPECT_TRUE(table_->snapshot(0).is_pinned);
  request->copy = 1;
  table_->grant(*request);
  EXPECT_FALSE(table_->snapshot(0).is_pinned);
  auto const *const copy = table_->copies().data() + node_table::copy_size;
  EXPECT_EQ(table_->copy_address(*request, 4 * page_size + 5), copy + page_size + 5);
  EXPECT_EQ(table_->copy_address(*request, 9 * page_size), copy + 2 * page_size);
  EXPECT_EQ(table_->copy_address(*request, 10 * page_size), nullptr) << "not requested";
  table_->complete_request(*request);
  EXPECT_TRUE(node_table::is_complete(*request));
  EXPECT_FALSE(table_->snapshot(0).is_pinned);
  table_->recycle(*request);
  EXPECT_EQ(table_->post(1, 0, pages)->copy, page_request::no_copy);
}

// A writing request must not take pages that nobody requested.
TEST_F(swapped_out_test, who_reads_has_the_few_pages_between_too) {
  std::vector<page_bits::word> words(page_bits::word_count(16) + 1);
  page_bits stored[] = {{words.data(), 16}};
  auto const requested_runs = [&](bool is_writing) {
    page_request_queue queue{*table_, 1, stored};
    page_access access{.target = 0,
                       .is_writing = is_writing,
                       .extents = {},
                       .on_piece = [](size_t, uint64_t, uint64_t, const std::byte *) {
                       }};
    for (page_run const run : {page_run{0, 1}, page_run{3, 2}, page_run{7, 1}, page_run{9, 1}}) {
      access.extents.push_back({run.offset(), run.size()});
    }
    EXPECT_FALSE(queue.begin(std::move(access)));
    auto *const request = table_->next_request();
    std::vector<page_run> const runs{request->pages().begin(), request->pages().end()};
    table_->grant(*request);
    queue.poll();
    EXPECT_TRUE(queue.is_empty());
    table_->recycle(*request);
    return runs;
  };
  EXPECT_EQ(requested_runs(false), (std::vector<page_run>{{0, 5}, {7, 3}}))
      << "at most as many as are requested";
  EXPECT_EQ(requested_runs(true), (std::vector<page_run>{{0, 1}, {3, 2}, {7, 1}, {9, 1}}));
}

TEST_F(swapped_out_test, bounds_what_a_rank_asks_for) {
  page_run const page[] = {{0, 1}};
  for (uint32_t i = 0; i < node_table::requests_per_origin; i++) {
    EXPECT_NE(table_->post(1, 0, page), nullptr);
  }
  EXPECT_EQ(table_->post(1, 0, page), nullptr);
  auto *const first = table_->next_request();
  table_->grant(*first);
  table_->complete_request(*first);
  EXPECT_EQ(table_->post(1, 0, page), nullptr) << "the agent has not seen it";
  table_->recycle(*first);
  EXPECT_EQ(table_->post(1, 0, page), first);
}

TEST_F(swapped_out_test, grants_pages_of_who_came_back) {
  page_run const page[] = {{0, 1}};
  auto *const request = table_->post(1, 0, page);
  table_->begin_wait(1, wait_kind::for_pages);
  EXPECT_FALSE(table_->try_resume(0));
  EXPECT_EQ(table_->state(0), swap_in_wait) << "rank 1 stays while it waits for pages";
  EXPECT_TRUE(table_->try_resume(1));
  table_->finish(1);
  auto const swap_in_order = table_->next_move();
  ASSERT_TRUE(swap_in_order);
  EXPECT_EQ(table_->next_request(), nullptr) << "being swapped in";
  table_->complete_move(*swap_in_order, {.resident_size = 60, .swapped_size = 0, .moved_size = 60});
  table_->complete_swap_in(0);
  EXPECT_EQ(table_->next_request(), nullptr);
  EXPECT_TRUE(node_table::is_granted(*request));
  table_->complete_request(*request);
  EXPECT_NE(table_->post(1, 0, page), nullptr);
}

TEST_F(swapped_out_test, has_room_for_the_cache_while_nobody_needs_it) {
  EXPECT_EQ(table_->update_cache_size(10), 40u);
  EXPECT_FALSE(table_->try_resume(0));
  EXPECT_EQ(table_->update_cache_size(40), 0u);
}

// While pages in use cannot leave the cache, each round of the agent finds the same surplus.
TEST_F(swapped_out_test, only_a_rank_rings_the_agent_for_a_surplus) {
  EXPECT_EQ(table_->update_cache_size(40), 40u);
  (void)node_table_testing::take_agent_wakeup(*table_);
  EXPECT_FALSE(table_->try_resume(0));
  EXPECT_TRUE(node_table_testing::take_agent_wakeup(*table_));
  EXPECT_FALSE(table_->next_move());
  EXPECT_FALSE(node_table_testing::take_agent_wakeup(*table_)) << "the agent never sleeps";
  EXPECT_EQ(table_->update_cache_size(40), 0u);
  EXPECT_FALSE(node_table_testing::take_agent_wakeup(*table_)) << "the agent never sleeps";
}

TEST_F(node_table_test, fails_when_a_process_dies_with_the_lock) {
  start_all();
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto const held = node_table_testing::lock(*table_);
    _exit(0);
  }
  int code = 0;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(table_->failure(), nullptr);
  table_->begin_wait(0, wait_kind::swappable);
  ASSERT_NE(table_->failure(), nullptr);
  std::string const text = table_->failure();
  EXPECT_NE(text.find("died"), std::string::npos);
}

TEST_F(node_table_test, keeps_the_first_failure) {
  table_->fail("the store is full");
  table_->fail("something else");
  EXPECT_STREQ(table_->failure(), "the store is full");
}

TEST_F(node_table_test, refuses_what_cannot_be) {
  EXPECT_EQ(node_table::create(memory_, {.rank_count = 0}), status::invalid);
  EXPECT_EQ(node_table::create(memory_, {.rank_count = 2000}), status::invalid);
  EXPECT_EQ(node_table::create(memory_.first(100), {.rank_count = 1}), status::invalid);
}

}  // namespace
}  // namespace tanada::onesided::swap
