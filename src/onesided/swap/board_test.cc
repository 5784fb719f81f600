#include "onesided/swap/board.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "core/base/log.hpp"
#include "onesided/swap/access_queue.hpp"
#include "onesided/swap/board_memory.hpp"
#include "onesided/swap/residence.hpp"

namespace tanada::comex::swap {

struct board_testing {
  static auto hold(board &of) {
    return board::hold{of};
  }
  // Whether the agent's next sleep would end at once.
  static bool take_agent_news(board &of) {
    return of.memory_->has_news.exchange(false);
  }
};

namespace {

using enum rank_state;

struct fake_clock final : port::clock {
  uint64_t now_ns() noexcept override {
    now += 1;
    return now;
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    now += duration_ns;
  }
  uint64_t now = 1000;
};

// One that processes share, too.
class board_test : public testing::Test {
 protected:
  board_test() {
    make({.rank_count = 3,
          .budget = 100,
          .slots = 2,
          .copies_size = 2 * board::copy_size,
          .patience_ns = 0});
  }
  ~board_test() override {
    munmap(memory_.data(), memory_.size());
  }

  void make(const board_options &options) {
    if (!memory_.empty())
      munmap(memory_.data(), memory_.size());
    size_t const size =
        board::memory_size(options.rank_count, options.has_servers, options.copies_size);
    void *const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = {static_cast<std::byte *>(at), size};
    ASSERT_EQ(board::create(memory_, options), status::ok);
    of_.emplace(memory_, time_);
  }

  void start_all() {
    for (uint32_t i = 0; i < of_->rank_count(); i++)
      of_->start(i, int32_t(100 + i));
  }
  // As if it had all it has touched.
  void give(uint32_t rank, uint64_t bytes) {
    ASSERT_EQ(of_->try_reserve(rank, bytes), board::room::granted);
    of_->touched(rank, bytes);
  }
  std::span<std::byte> memory_;
  fake_clock time_;
  std::optional<board> of_;
};

TEST_F(board_test, runs_as_many_as_there_are_slots) {
  start_all();
  EXPECT_EQ(of_->state(0), running);
  EXPECT_EQ(of_->state(1), running);
  EXPECT_EQ(of_->state(2), ready);
  EXPECT_EQ(of_->process_of(2), 102);
  EXPECT_FALSE(of_->try_enter(2));
  of_->leave(0, wait_kind::others);
  EXPECT_EQ(of_->state(0), wait);
  EXPECT_TRUE(of_->try_enter(2));
  EXPECT_FALSE(of_->try_enter(0));
  EXPECT_EQ(of_->state(0), ready);
  of_->finish(1);
  EXPECT_TRUE(of_->try_enter(0));
}

TEST_F(board_test, moves_who_waits_out_for_who_needs_room_and_back) {
  of_->start(0, 1);
  of_->start(1, 2);
  give(0, 60);
  EXPECT_EQ(of_->try_reserve(1, 60), board::room::wait);
  EXPECT_EQ(of_->try_reserve(1, 101), board::room::never);
  EXPECT_EQ(of_->try_reserve(1, 60), board::room::wait);
  of_->leave(1, wait_kind::others);
  EXPECT_FALSE(of_->try_enter(1));
  EXPECT_EQ(of_->state(1), wait);
  of_->leave(0, wait_kind::others);
  EXPECT_EQ(of_->state(0), swap_out_wait);
  EXPECT_TRUE(of_->should_prepare(0));
  EXPECT_FALSE(of_->next_order());
  EXPECT_TRUE(of_->pin(0));
  of_->prepared(0);
  EXPECT_FALSE(of_->should_prepare(0));
  EXPECT_FALSE(of_->next_order()) << "it is pinned";
  EXPECT_EQ(of_->state(0), swap_out_wait);
  of_->unpin(0);
  auto out = of_->next_order();
  ASSERT_TRUE(out);
  EXPECT_EQ(of_->state(0), swap_out);
  EXPECT_FALSE(of_->pin(0));
  EXPECT_TRUE(out->to == order::way::out && out->rank == 0);
  EXPECT_FALSE(of_->next_order()) << "once is enough";
  EXPECT_FALSE(of_->try_enter(0));  // its wait is over meanwhile
  of_->moved(*out, {.here = 0, .away = 60, .moved = 60});
  EXPECT_EQ(of_->state(0), swap_in_wait);
  EXPECT_TRUE(of_->try_enter(1));
  EXPECT_EQ(of_->look(1).allocated, 60u);
  EXPECT_FALSE(of_->next_order());
  of_->finish(1);
  auto in = of_->next_order();
  ASSERT_TRUE(in);
  EXPECT_TRUE(in->to == order::way::in && in->rank == 0);
  EXPECT_FALSE(of_->has_landed(0));
  of_->moved(*in, {.here = 60, .away = 0, .moved = 60});
  EXPECT_FALSE(of_->pin(0)) << "it has not arrived";
  ASSERT_TRUE(of_->has_landed(0));
  of_->arrived(0);
  EXPECT_TRUE(of_->try_enter(0));
  EXPECT_TRUE(of_->pin(0));
  of_->unpin(0);
  EXPECT_EQ(of_->counters().bytes_out, 60u);
  EXPECT_EQ(of_->counters().swaps_in, 1u);
}

TEST_F(board_test, keeps_who_is_back_before_it_left) {
  of_->start(0, 1);
  of_->start(1, 2);
  give(0, 60);
  ASSERT_EQ(of_->try_reserve(1, 60), board::room::wait);
  of_->leave(1, wait_kind::others);
  EXPECT_FALSE(of_->try_enter(1));
  of_->leave(0, wait_kind::others);
  EXPECT_EQ(of_->state(0), swap_out_wait);
  EXPECT_TRUE(of_->try_enter(0));
  of_->prepared(0);  // too late
  EXPECT_EQ(of_->state(0), running);
}

TEST_F(board_test, gives_changes_of_states_once) {
  start_all();
  state_event some[4];
  ASSERT_EQ(of_->take_events(some), 4u);
  EXPECT_TRUE(some[0].from == gone && some[0].to == ready && some[0].rank == 0);
  EXPECT_TRUE(some[1].from == ready && some[1].to == running);
  EXPECT_LT(some[0].at_ns, some[1].at_ns);
  EXPECT_EQ(of_->take_events(some), 1u);
  EXPECT_EQ(of_->take_events(some), 0u);
}

// Rank 0's memory is away.
class away_test : public board_test {
 protected:
  away_test() {
    of_->start(0, 1);
    of_->start(1, 2);
    give(0, 60);
    EXPECT_EQ(of_->try_reserve(1, 60), board::room::wait);
    of_->leave(1, wait_kind::others);
    EXPECT_FALSE(of_->try_enter(1));
    of_->leave(0, wait_kind::others);
    of_->prepared(0);
    auto const out = of_->next_order();
    EXPECT_TRUE(out);
    if (out)
      of_->moved(*out, {.here = 0, .away = 60, .moved = 60});
    EXPECT_EQ(of_->state(0), swapped);
    EXPECT_TRUE(of_->try_enter(1));
    of_->touched(1, 60);
  }
};

TEST_F(away_test, serves_pages_of_who_is_away) {
  page_run const pages[] = {{3, 2}, {9, 1}};
  auto *const asked = of_->post(1, 0, pages);
  ASSERT_NE(asked, nullptr);
  EXPECT_FALSE(board::is_granted(*asked));
  auto *const found = of_->next_request();
  ASSERT_EQ(found, asked);
  EXPECT_EQ(found->page_count, 3u);
  EXPECT_EQ(found->pages()[1], (page_run{9, 1}));
  EXPECT_EQ(of_->next_request(), nullptr);
  of_->grant(*found);
  EXPECT_TRUE(board::is_granted(*asked));
  EXPECT_FALSE(board::is_done(*asked));
  of_->done(*asked);
  EXPECT_TRUE(board::is_done(*asked));
  of_->recycle(*asked);
}

TEST_F(away_test, holds_nothing_of_whose_pages_are_copied) {
  page_run const pages[] = {{3, 2}, {9, 1}};
  auto *const asked = of_->post(1, 0, pages, true);
  ASSERT_EQ(of_->next_request(), asked);
  EXPECT_NE(asked->is_reading, 0u);
  EXPECT_TRUE(of_->look(0).is_pinned);
  asked->copy = 1;
  of_->grant(*asked);
  EXPECT_FALSE(of_->look(0).is_pinned);
  auto const *const copy = of_->copies().data() + board::copy_size;
  EXPECT_EQ(of_->copied(*asked, 4 * page_size + 5), copy + page_size + 5);
  EXPECT_EQ(of_->copied(*asked, 9 * page_size), copy + 2 * page_size);
  EXPECT_EQ(of_->copied(*asked, 10 * page_size), nullptr) << "nobody asked for it";
  of_->done(*asked);
  EXPECT_TRUE(board::is_done(*asked));
  EXPECT_FALSE(of_->look(0).is_pinned);
  of_->recycle(*asked);
  EXPECT_EQ(of_->post(1, 0, pages)->copy, request::no_copy);
}

// What is written must not take pages that nobody asked for.
TEST_F(away_test, who_reads_has_the_few_pages_between_too) {
  std::vector<page_bits::word> words(page_bits::word_count(16) + 1);
  page_bits stored[] = {{words.data(), 16}};
  auto const asked_for = [&](bool is_writing) {
    access_queue asks{*of_, 1, stored};
    access what{.target = 0,
                .is_writing = is_writing,
                .extents = {},
                .part = [](size_t, uint64_t, uint64_t, const std::byte *) {
                }};
    for (page_run const each : {page_run{0, 1}, page_run{3, 2}, page_run{7, 1}, page_run{9, 1}})
      what.extents.push_back({each.offset(), each.size()});
    EXPECT_FALSE(asks.begin(std::move(what)));
    auto *const asked = of_->next_request();
    std::vector<page_run> const runs{asked->pages().begin(), asked->pages().end()};
    of_->grant(*asked);
    asks.poll();
    EXPECT_TRUE(asks.is_empty());
    of_->recycle(*asked);
    return runs;
  };
  EXPECT_EQ(asked_for(false), (std::vector<page_run>{{0, 5}, {7, 3}}))
      << "never more than are wanted";
  EXPECT_EQ(asked_for(true), (std::vector<page_run>{{0, 1}, {3, 2}, {7, 1}, {9, 1}}));
}

TEST_F(away_test, bounds_what_a_rank_asks_for) {
  page_run const page[] = {{0, 1}};
  for (uint32_t i = 0; i < board::requests_of_rank; i++)
    EXPECT_NE(of_->post(1, 0, page), nullptr);
  EXPECT_EQ(of_->post(1, 0, page), nullptr);
  auto *const first = of_->next_request();
  of_->grant(*first);
  of_->done(*first);
  EXPECT_EQ(of_->post(1, 0, page), nullptr) << "the agent has not seen it";
  of_->recycle(*first);
  EXPECT_EQ(of_->post(1, 0, page), first);
}

TEST_F(away_test, grants_pages_of_who_came_back) {
  page_run const page[] = {{0, 1}};
  auto *const asked = of_->post(1, 0, page);
  of_->leave(1, wait_kind::served);
  EXPECT_FALSE(of_->try_enter(0));
  EXPECT_EQ(of_->state(0), swap_in_wait) << "rank 1 stays while it is served";
  EXPECT_TRUE(of_->try_enter(1));
  of_->finish(1);
  auto const in = of_->next_order();
  ASSERT_TRUE(in);
  EXPECT_EQ(of_->next_request(), nullptr) << "on its way";
  of_->moved(*in, {.here = 60, .away = 0, .moved = 60});
  of_->arrived(0);
  EXPECT_EQ(of_->next_request(), nullptr);
  EXPECT_TRUE(board::is_granted(*asked));
  of_->done(*asked);
  EXPECT_NE(of_->post(1, 0, page), nullptr);
}

TEST_F(away_test, has_room_for_the_cache_while_nobody_needs_it) {
  EXPECT_EQ(of_->cached(10), 40u);
  EXPECT_FALSE(of_->try_enter(0));
  EXPECT_EQ(of_->cached(40), 0u);
}

// While pages in use cannot leave the cache, each of the agent's rounds finds the same surplus.
TEST_F(away_test, only_a_rank_rings_the_agent_for_a_surplus) {
  EXPECT_EQ(of_->cached(40), 40u);
  (void)board_testing::take_agent_news(*of_);
  EXPECT_FALSE(of_->try_enter(0));
  EXPECT_TRUE(board_testing::take_agent_news(*of_));
  EXPECT_FALSE(of_->next_order());
  EXPECT_FALSE(board_testing::take_agent_news(*of_)) << "the agent never sleeps";
  EXPECT_EQ(of_->cached(40), 0u);
  EXPECT_FALSE(board_testing::take_agent_news(*of_)) << "the agent never sleeps";
}

TEST_F(board_test, fails_when_a_process_dies_with_the_lock) {
  start_all();
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto const held = board_testing::hold(*of_);
    _exit(0);
  }
  int code = 0;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(of_->failure(), nullptr);
  of_->leave(0, wait_kind::others);
  ASSERT_NE(of_->failure(), nullptr);
  EXPECT_NE(std::string{of_->failure()}.find("died"), std::string::npos);
}

TEST_F(board_test, keeps_the_first_failure) {
  of_->fail("the store is full");
  of_->fail("something else");
  EXPECT_STREQ(of_->failure(), "the store is full");
}

TEST_F(board_test, refuses_what_cannot_be) {
  EXPECT_EQ(board::create(memory_, {.rank_count = 0}), status::invalid);
  EXPECT_EQ(board::create(memory_, {.rank_count = 2000}), status::invalid);
  EXPECT_EQ(board::create(memory_.first(100), {.rank_count = 1}), status::invalid);
}

}  // namespace
}  // namespace tanada::comex::swap
