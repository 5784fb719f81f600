// Memory, sums, words, mutexes, barriers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "products/comex/testing.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::comex {
namespace {

class engines : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(nodes, engines, testing::Values("", "none"),
                         [](auto &which) { return which.param.empty() ? "one" : "each"; });

TEST_P(engines, pieces_are_apart_and_come_back) {
  with_processes(1, GetParam(), [](engine &self, auto) {
    size_t const free = self.free_size();
    EXPECT_EQ(self.allocate(0), nullptr);
    EXPECT_EQ(self.allocate(self.heap_size() + 1), nullptr);
    auto *const one = static_cast<char *>(self.allocate(100)), *const two = static_cast<char *>(
                                                                   self.allocate(size_t{3} << 20));
    ASSERT_TRUE(one != nullptr && two != nullptr);
    EXPECT_EQ(self.lock({engine::mutex_count_max, 0}), status::invalid);
    EXPECT_EQ(self.lock({0, 1}), status::invalid);
    std::memset(one, 1, 100);
    std::memset(two, 2, size_t{3} << 20);
    EXPECT_EQ(one[99], 1);
    EXPECT_FALSE(self.release(one + 1));
    EXPECT_TRUE(self.release(two));
    EXPECT_FALSE(self.release(two));
    EXPECT_TRUE(self.release(one));
    EXPECT_EQ(self.free_size(), free);
    int outside = 0;
    EXPECT_FALSE(self.release(&outside));
  });
}

TEST_P(engines, what_is_outside_of_a_heap_is_refused) {
  static std::byte *given[2];
  with_processes(2, GetParam(), [](engine &self, auto everybody) {
    given[self.me()] = static_cast<std::byte *>(self.allocate(64));
    everybody();
    pe_index const other = 1 - self.me();
    char word[64] = {};
    auto *const end = given[other] + self.heap_size();
    EXPECT_EQ(self.put({word, end, other}, block(64), until::source_is_free), status::range);
    EXPECT_EQ(self.get({end - 8, word, other}, block(64), until::source_is_free), status::range);
    EXPECT_EQ(self.put({word, word, other}, block(8), until::source_is_free), status::range);
    EXPECT_EQ(self.put({word, given[other], 2}, block(8), until::source_is_free), status::invalid);
    EXPECT_EQ(self.put({word, given[other], -1}, block(8), until::source_is_free), status::invalid);
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, word, given[other] + 4, 1, other), status::fault);
    double const one = 1;
    EXPECT_EQ(self.accumulate(element::f64, &one, {word, given[other], other}, block(12)),
              status::invalid);
    // Our own need not have been given.
    char mine[64];
    std::memset(mine, 7, sizeof mine);
    EXPECT_EQ(self.get({mine, word, self.me()}, block(64), until::source_is_free), status::ok);
    EXPECT_EQ(word[63], 7);
    EXPECT_EQ(self.unlock({0, other}), status::bad_state);
    everybody();
  });
}

template <class T>
void adds(engine &self, element of, T scale, std::byte *target, pe_index pe, size_t count) {
  std::vector<T> source(count);
  for (size_t i = 0; i < count; i++)
    source[i] = T(i % 7);
  EXPECT_EQ(self.accumulate(of, &scale, {source.data(), target, pe}, block(count * sizeof(T))),
            status::ok)
      << last_message();
}

// Everybody adds to the same numbers of process 0: none is lost. All sums are exact.
template <class T>
void everybody_adds(const std::string &node, element of, T scale) {
  constexpr pe_index count = 3;
  constexpr size_t number_count = 9000;  // more than a lock's piece
  std::byte *given = nullptr;
  with_processes(count, node, [&, of, scale](engine &self, auto everybody) {
    if (self.me() == 0) {
      given = static_cast<std::byte *>(self.allocate(number_count * sizeof(T)));
      std::memset(static_cast<void *>(given), 0, number_count * sizeof(T));
    }
    everybody();
    for (int round = 0; round < 10; round++)
      adds(self, of, scale, given, 0, number_count);
    EXPECT_EQ(self.finish(), status::ok);
    everybody();
    std::vector<T> seen(number_count);
    EXPECT_EQ(
        self.get({given, seen.data(), 0}, block(number_count * sizeof(T)), until::source_is_free),
        status::ok);
    for (size_t i = 0; i < number_count; i++)
      ASSERT_EQ(seen[i], T(30) * scale * T(i % 7)) << i;
    everybody();
  });
}

TEST_P(engines, no_sum_is_lost) {
  everybody_adds<int32_t>(GetParam(), element::i32, 3);
  everybody_adds<int64_t>(GetParam(), element::i64, -2);
  everybody_adds<float>(GetParam(), element::f32, 1);
  everybody_adds<double>(GetParam(), element::f64, 0.5);
  everybody_adds<std::complex<float>>(GetParam(), element::c64, {0, 1});
  everybody_adds<std::complex<double>>(GetParam(), element::c128, {2, -1});
}

// On one node locks hold sums and words apart, elsewhere integers are added at once.
TEST_P(engines, sums_and_words_of_one_place_do_not_lose_one_another) {
  constexpr int64_t rounds = 20000;
  int64_t *given = nullptr;
  std::atomic<bool> is_over{false};
  std::atomic<int64_t> updates{0};
  with_processes(2, GetParam(), [&](engine &self, auto everybody) {
    if (self.me() == 0)
      given = new (self.allocate(sizeof(int64_t))) int64_t{};
    everybody();
    int64_t const one = 1;
    int64_t before = 0;
    if (self.me() == 0) {
      for (; !is_over; updates++)
        ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, given, 1, 0), status::ok);
    } else {
      status code = status::ok;
      for (int64_t i = 0; i < rounds && code == status::ok; i++) {
        code = self.accumulate(element::i64, &one, {&one, given, 0}, block(sizeof one));
      }
      if (code == status::ok)
        code = self.finish();
      is_over = true;
      ASSERT_EQ(code, status::ok);
    }
    everybody();
    ASSERT_EQ(self.get({given, &before, 0}, block(sizeof before), until::source_is_free),
              status::ok);
    EXPECT_EQ(before, rounds + updates);
    everybody();
  });
}

// Who looks again and again sees the end without waiting for it.
TEST_P(engines, polls_come_to_an_end) {
  static std::byte *given[2];
  with_processes(2, GetParam(), [](engine &self, auto everybody) {
    given[self.me()] = static_cast<std::byte *>(self.allocate(4096));
    everybody();
    std::vector<std::byte> mine(4096, std::byte{5});
    ASSERT_EQ(
        self.put({mine.data(), given[1 - self.me()], 1 - self.me()}, block(4096), until::later),
        status::ok);
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    bool is_over = self.poll();
    while (!is_over && std::chrono::steady_clock::now() < limit)
      is_over = self.poll();
    EXPECT_TRUE(is_over);
    EXPECT_EQ(self.finish(), status::ok);
    everybody();
    EXPECT_EQ(given[self.me()][4095], std::byte{5});
    everybody();
  });
}

TEST_P(engines, words_are_updated_at_once_and_mutexes_keep_others_out) {
  constexpr pe_index count = 4;
  constexpr int64_t rounds = 300;
  struct shared {
    int64_t counter, guarded[2];
    int32_t flag;
  };
  static shared *given;
  with_processes(count, GetParam(), [](engine &self, auto everybody) {
    if (self.me() == 1)
      given = new (self.allocate(sizeof(shared))) shared{};
    everybody();
    for (int64_t i = 0; i < rounds; i++) {
      int64_t before = -1;
      ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, &given->counter, 1, 1), status::ok);
      ASSERT_GE(before, i);
      ASSERT_EQ(self.lock({7, 1}), status::ok);
      int64_t seen[2];
      ASSERT_EQ(self.get({given->guarded, seen, 1}, block(sizeof seen), until::source_is_free),
                status::ok);
      ASSERT_EQ(seen[0], seen[1]);
      seen[0]++;
      seen[1]++;
      ASSERT_EQ(self.put({seen, given->guarded, 1}, block(sizeof seen), until::source_is_free),
                status::ok);
      ASSERT_EQ(self.unlock({7, 1}), status::ok);
    }
    everybody();
    int64_t seen[2];
    ASSERT_EQ(self.get({given->guarded, seen, 1}, block(sizeof seen), until::source_is_free),
              status::ok);
    EXPECT_EQ(seen[0], rounds * count);
    int64_t total = 0;
    ASSERT_EQ(self.get({&given->counter, &total, 1}, block(sizeof total), until::source_is_free),
              status::ok);
    EXPECT_EQ(total, rounds * count);
    int32_t mine = 5 + self.me();
    ASSERT_EQ(self.swap(word_kind::i32, &mine, &given->flag, 1), status::ok);
    EXPECT_TRUE(mine == 0 || (mine >= 5 && mine < 5 + count));
    everybody();
  });
}

// Processes whose memory leaves while they wait: what is put, added and counted there, and what
// they store themselves, is what they find.
TEST(engine, memory_that_leaves_is_what_it_was) {
  constexpr pe_index count = 3;
  constexpr size_t number_count = (size_t{3} << 20) / sizeof(int64_t), step = 999, piece = 3000;
  char folder[] = "/tmp/engine-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto chosen = small();
  chosen.swap = {.budget = 5 << 20,
                 .store = std::string{"file://"} + folder,
                 .slots = count,
                 .reserve = 0,
                 .trace = {},
                 .report = {}};
  // Who watches its own memory would stop its neighbours where that is theirs, too.
  if (port::shared_mapping::is_joint)
    chosen.swap.comes_whole = true;
  auto launchers = port::bootstrap_local(count);
  std::array<int64_t *, count> given{};
  auto const change = [&](engine &self, int64_t *mine) {
    std::vector<int64_t> const ones(piece, 1);
    int64_t const scale = 2;
    for (auto *const there : given) {
      auto const pe = pe_index(std::find(given.begin(), given.end(), there) - given.begin());
      for (size_t at = 0; at + piece <= number_count; at += 40 * step) {
        ASSERT_EQ(self.accumulate(element::i64, &scale, {ones.data(), there + at, pe},
                                  block(piece * sizeof(int64_t))),
                  status::ok);
      }
      int64_t before = 0;
      ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, there + number_count - 1, 1, pe),
                status::ok);
    }
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
    for (size_t i = size_t(self.me()); i < number_count; i += step)
      mine[i] += 1000;
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
  };
  auto const part = [&](engine &self) {
    auto *const mine = static_cast<int64_t *>(self.allocate(number_count * sizeof(int64_t)));
    given[size_t(self.me())] = mine;
    ASSERT_NE(mine, nullptr) << last_message();
    for (size_t i = 0; i < number_count; i++)
      mine[i] = int64_t(i);
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
    for (int64_t round = 0; round < 8; round++)
      change(self, mine);
    pe_index const other = (self.me() + 1) % count;
    std::vector<int64_t> seen(number_count);
    auto const end = until::source_is_free;
    ASSERT_EQ(self.get({given[size_t(other)], seen.data(), other},
                       block(number_count * sizeof(int64_t)), end),
              status::ok);
    for (size_t i = 0; i < number_count; i++) {
      int64_t expected = int64_t(i);
      if (i / (40 * step) * (40 * step) + piece <= number_count && i % (40 * step) < piece)
        expected += 8 * 2 * count;
      if (i == number_count - 1)
        expected += 8 * count;
      if (i >= size_t(other) && (i - size_t(other)) % step == 0)
        expected += 8000;
      ASSERT_EQ(seen[i], expected) << i;
    }
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
  };
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto made = engine::start(*launcher, chosen);
      ASSERT_TRUE(made.ok()) << last_message();
      part(*made.value());
      EXPECT_EQ(made.value()->stop(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
  EXPECT_EQ(rmdir(folder), 0);  // nothing is left in it
}

// What their processes tell one another of, control memory, is as large in all of them.
TEST(engine, nodes_may_have_budgets_of_their_own) {
  char folder[] = "/tmp/engine-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto launchers = port::bootstrap_local(2);
  std::array<int64_t *, 2> given{};
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto chosen = small("none");
      uint64_t const budget = launcher->rank() == 0 ? 5 << 20 : 100 << 20;
      chosen.swap = {.budget = budget,
                     .store = std::string{"file://"} + folder,
                     .slots = 1,
                     .reserve = 0,
                     .trace = {},
                     .report = {}};
      chosen.swap.comes_whole = true;
      auto made = engine::start(*launcher, chosen);
      ASSERT_TRUE(made.ok()) << last_message();
      engine &self = *made.value();
      auto const other = 1 - self.me();
      given[size_t(self.me())] = static_cast<int64_t *>(self.allocate(1 << 20));
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      int64_t before = -1;
      EXPECT_EQ(self.fetch_and_add(word_kind::i64, &before, given[size_t(other)], 1, other),
                status::ok);
      EXPECT_EQ(before, 0);
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      EXPECT_EQ(self.stop(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
  EXPECT_EQ(rmdir(folder), 0);
}

TEST(engine, a_heap_lies_where_all_have_room) {
  if (!port::is_unmapped(reinterpret_cast<void *>(uintptr_t{0x2000} << 32), 4096)) {
    GTEST_SKIP() << "something lies at the first place, as ThreadSanitizer's memory does";
  }
  auto launchers = port::bootstrap_local(1);
  settings chosen = small();
  chosen.has_common_addresses = true;
  uintptr_t places[2] = {};
  {
    auto made = engine::start(*launchers[0], chosen).value();
    places[0] = reinterpret_cast<uintptr_t>(made->allocate(64));
    // Somebody is there already: the next place is taken.
    auto other_launchers = port::bootstrap_local(1);
    auto other = engine::start(*other_launchers[0], chosen).value();
    places[1] = reinterpret_cast<uintptr_t>(other->allocate(64));
    EXPECT_EQ(other->stop(), status::ok);
    EXPECT_EQ(made->stop(), status::ok);
  }
  EXPECT_EQ(places[0] >> 44, 0x2u);
  EXPECT_EQ(places[1] >> 44, 0x3u);
}

TEST(engine, a_barrier_of_a_node_waits_for_all) {
  constexpr pe_index count = 5;
  static std::array<int, count>
      arrived{};  // no atomics: the barriers order what is before them and after them
  with_processes(count, "", [](engine &self, auto) {
    for (int round = 1; round <= 200; round++) {
      arrived[size_t(self.me())] = round;
      ASSERT_EQ(self.node_barrier(), status::ok);
      ASSERT_EQ(std::count(arrived.begin(), arrived.end(), round), ptrdiff_t(count));
      ASSERT_EQ(self.node_barrier(), status::ok);
    }
  });
}

TEST(engine, heaps_are_as_large_as_the_memory_and_their_addresses_fit) {
  constexpr size_t gib = size_t{1} << 30;
  EXPECT_EQ(default_heap_size(64 * gib, 4), 64 * gib);
  EXPECT_EQ(default_heap_size(2048 * gib, 64), 256 * gib);
  EXPECT_EQ(default_heap_size(1, 1), size_t{64} << 20);
}

// Who is asked may be away; what somebody chose is as chosen.
TEST(engine, answers_may_take_longer_where_memory_leaves) {
  auto const timeout_s =
      [](std::initializer_list<std::pair<const char *, const char *>> variables) {
        for (auto const &[name, value] : variables)
          setenv(name, value, 1);
        settings made;
        EXPECT_EQ(made.read_environment(), status::ok) << last_message();
        for (auto const &[name, value] : variables)
          unsetenv(name);
        return made.job.timeout_ns / 1'000'000'000;
      };
  EXPECT_EQ(timeout_s({}), 60u);
  EXPECT_EQ(timeout_s({{"TND_COMEX_MEMORY", "64M"}, {"TND_COMEX_SWAP", "file:///tmp"}}), 600u);
  EXPECT_EQ(timeout_s({{"TND_COMEX_MEMORY", "64M"},
                       {"TND_COMEX_SWAP", "file:///tmp"},
                       {"TND_PGAS_TIMEOUT", "5s"}}),
            5u);
}

}  // namespace
}  // namespace tanada::comex
