// The engine: memory, accumulates, word updates, mutexes, barriers and swapping.
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
INSTANTIATE_TEST_SUITE_P(nodes, engines, testing::Values("", "none"), [](auto &which) {
  return which.param.empty() ? "one" : "each";
});

TEST_P(engines, pieces_are_apart_and_come_back) {
  with_processes(1, GetParam(), [](engine &self, auto) {
    size_t const free = self.free_size();
    EXPECT_EQ(self.allocate(0), nullptr);
    EXPECT_EQ(self.allocate(self.heap_size() + 1), nullptr);
    auto *const first_piece = static_cast<char *>(self.allocate(100)),
                *const two = static_cast<char *>(self.allocate(size_t{3} << 20));
    ASSERT_TRUE(first_piece != nullptr && two != nullptr);
    EXPECT_EQ(self.lock({engine::mutex_count_max, 0}), status::invalid);
    EXPECT_EQ(self.lock({0, 1}), status::invalid);
    std::memset(first_piece, 1, 100);
    std::memset(two, 2, size_t{3} << 20);
    EXPECT_EQ(first_piece[99], 1);
    EXPECT_FALSE(self.release(first_piece + 1));
    EXPECT_TRUE(self.release(two));
    EXPECT_FALSE(self.release(two));
    EXPECT_TRUE(self.release(first_piece));
    EXPECT_EQ(self.free_size(), free);
    int outside = 0;
    EXPECT_FALSE(self.release(&outside));
  });
}

TEST_P(engines, what_is_outside_of_a_heap_is_refused) {
  static std::byte *buffers[2];
  with_processes(2, GetParam(), [](engine &self, auto barrier) {
    buffers[self.me()] = static_cast<std::byte *>(self.allocate(64));
    barrier();
    pe_index const peer = 1 - self.me();
    char word[64] = {};
    auto *const end = buffers[peer] + self.heap_size();
    EXPECT_EQ(self.put({word, end, peer}, block(64), completion_mode::local), status::range);
    EXPECT_EQ(self.get({end - 8, word, peer}, block(64), completion_mode::local), status::range);
    EXPECT_EQ(self.put({word, word, peer}, block(8), completion_mode::local), status::range);
    EXPECT_EQ(self.put({word, buffers[peer], 2}, block(8), completion_mode::local),
              status::invalid);
    EXPECT_EQ(self.put({word, buffers[peer], -1}, block(8), completion_mode::local),
              status::invalid);
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, word, buffers[peer] + 4, 1, peer), status::fault);
    double const unit = 1;
    EXPECT_EQ(self.accumulate(element::f64, &unit, {word, buffers[peer], peer}, block(12)),
              status::invalid);
    // Our own memory need not be allocated here.
    char local[64];
    std::memset(local, 7, sizeof local);
    EXPECT_EQ(self.get({local, word, self.me()}, block(64), completion_mode::local), status::ok);
    EXPECT_EQ(word[63], 7);
    EXPECT_EQ(self.unlock({0, peer}), status::bad_state);
    barrier();
  });
}

template <class T>
void adds(engine &self, element type, T scale, std::byte *target, pe_index pe, size_t count) {
  std::vector<T> source(count);
  for (size_t i = 0; i < count; i++)
    source[i] = T(i % 7);
  EXPECT_EQ(self.accumulate(type, &scale, {source.data(), target, pe}, block(count * sizeof(T))),
            status::ok)
      << last_message();
}

// All processes add to the same numbers of process 0, and no addition is lost. All sums are exact.
template <class T>
void everybody_adds(const std::string &node, element type, T scale) {
  constexpr pe_index count = 3;
  constexpr size_t number_count = 9000;  // more than a lock covers
  std::byte *buffer = nullptr;
  with_processes(count, node, [&, type, scale](engine &self, auto barrier) {
    if (self.me() == 0) {
      buffer = static_cast<std::byte *>(self.allocate(number_count * sizeof(T)));
      std::memset(static_cast<void *>(buffer), 0, number_count * sizeof(T));
    }
    barrier();
    for (int round = 0; round < 10; round++) {
      adds(self, type, scale, buffer, 0, number_count);
    }
    EXPECT_EQ(self.finish(), status::ok);
    barrier();
    std::vector<T> actual(number_count);
    EXPECT_EQ(
        self.get(
            {buffer, actual.data(), 0}, block(number_count * sizeof(T)), completion_mode::local),
        status::ok);
    for (size_t i = 0; i < number_count; i++) {
      ASSERT_EQ(actual[i], T(30) * scale * T(i % 7)) << i;
    }
    barrier();
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

// On one node locks order accumulates and word updates; with several nodes integers are added
// atomically.
TEST_P(engines, sums_and_words_of_one_place_do_not_lose_one_another) {
  constexpr int64_t rounds = 20000;
  int64_t *buffer = nullptr;
  std::atomic<bool> is_over{false};
  std::atomic<int64_t> updates{0};
  with_processes(2, GetParam(), [&](engine &self, auto barrier) {
    if (self.me() == 0)
      buffer = new (self.allocate(sizeof(int64_t))) int64_t{};
    barrier();
    int64_t const unit = 1;
    int64_t before = 0;
    if (self.me() == 0) {
      for (; !is_over; updates++) {
        ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, buffer, 1, 0), status::ok);
      }
    } else {
      status code = status::ok;
      for (int64_t i = 0; i < rounds && code == status::ok; i++) {
        code = self.accumulate(element::i64, &unit, {&unit, buffer, 0}, block(sizeof unit));
      }
      if (code == status::ok)
        code = self.finish();
      is_over = true;
      ASSERT_EQ(code, status::ok);
    }
    barrier();
    ASSERT_EQ(self.get({buffer, &before, 0}, block(sizeof before), completion_mode::local),
              status::ok);
    EXPECT_EQ(before, rounds + updates);
    barrier();
  });
}

// A process that only polls sees its operations complete.
TEST_P(engines, polls_come_to_an_end) {
  static std::byte *buffers[2];
  with_processes(2, GetParam(), [](engine &self, auto barrier) {
    buffers[self.me()] = static_cast<std::byte *>(self.allocate(4096));
    barrier();
    std::vector<std::byte> local(4096, std::byte{5});
    ASSERT_EQ(self.put({local.data(), buffers[1 - self.me()], 1 - self.me()},
                       block(4096),
                       completion_mode::deferred),
              status::ok);
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    bool is_over = self.poll();
    while (!is_over && std::chrono::steady_clock::now() < limit)
      is_over = self.poll();
    EXPECT_TRUE(is_over);
    EXPECT_EQ(self.finish(), status::ok);
    barrier();
    EXPECT_EQ(buffers[self.me()][4095], std::byte{5});
    barrier();
  });
}

TEST_P(engines, words_are_updated_at_once_and_mutexes_keep_others_out) {
  constexpr pe_index count = 4;
  constexpr int64_t rounds = 300;
  struct shared {
    int64_t counter, guarded[2];
    int32_t flag;
  };
  static shared *data;
  with_processes(count, GetParam(), [](engine &self, auto barrier) {
    if (self.me() == 1)
      data = new (self.allocate(sizeof(shared))) shared{};
    barrier();
    for (int64_t i = 0; i < rounds; i++) {
      int64_t before = -1;
      ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, &data->counter, 1, 1), status::ok);
      ASSERT_GE(before, i);
      ASSERT_EQ(self.lock({7, 1}), status::ok);
      int64_t actual[2];
      ASSERT_EQ(self.get({data->guarded, actual, 1}, block(sizeof actual), completion_mode::local),
                status::ok);
      ASSERT_EQ(actual[0], actual[1]);
      actual[0]++;
      actual[1]++;
      ASSERT_EQ(self.put({actual, data->guarded, 1}, block(sizeof actual), completion_mode::local),
                status::ok);
      ASSERT_EQ(self.unlock({7, 1}), status::ok);
    }
    barrier();
    int64_t actual[2];
    ASSERT_EQ(self.get({data->guarded, actual, 1}, block(sizeof actual), completion_mode::local),
              status::ok);
    EXPECT_EQ(actual[0], rounds * count);
    int64_t total = 0;
    ASSERT_EQ(self.get({&data->counter, &total, 1}, block(sizeof total), completion_mode::local),
              status::ok);
    EXPECT_EQ(total, rounds * count);
    int32_t local = 5 + self.me();
    ASSERT_EQ(self.exchange_word(word_kind::i32, &local, &data->flag, 1), status::ok);
    EXPECT_TRUE(local == 0 || (local >= 5 && local < 5 + count));
    barrier();
  });
}

// Processes are swapped out while they wait. They find the results of puts, accumulates, atomics
// and their own stores.
TEST(engine, memory_that_leaves_is_what_it_was) {
  constexpr pe_index count = 3;
  constexpr size_t number_count = (size_t{3} << 20) / sizeof(int64_t), step = 999, piece = 3000;
  char folder[] = "/tmp/engine-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto config = small_settings();
  config.swap = {.budget = 5 << 20,
                 .store = std::string{"file://"} + folder,
                 .slots = count,
                 .reserve = 0,
                 .trace = {},
                 .report = {}};
  // With joint mappings, fault tracking of one process would stop the others.
  if (seams::shared_mapping::is_shared_in_process)
    config.swap.always_resident = true;
  auto launchers = backends::bootstrap_local(count);
  std::array<int64_t *, count> buffers{};
  auto const change = [&](engine &self, int64_t *local) {
    std::vector<int64_t> const ones(piece, 1);
    int64_t const scale = 2;
    for (auto *const remote : buffers) {
      auto const pe = pe_index(std::find(buffers.begin(), buffers.end(), remote) - buffers.begin());
      for (size_t offset = 0; offset + piece <= number_count; offset += 40 * step) {
        ASSERT_EQ(self.accumulate(element::i64,
                                  &scale,
                                  {ones.data(), remote + offset, pe},
                                  block(piece * sizeof(int64_t))),
                  status::ok);
      }
      int64_t before = 0;
      ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, remote + number_count - 1, 1, pe),
                status::ok);
    }
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
    for (size_t i = size_t(self.me()); i < number_count; i += step)
      local[i] += 1000;
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
  };
  auto const part = [&](engine &self) {
    auto *const local = static_cast<int64_t *>(self.allocate(number_count * sizeof(int64_t)));
    buffers[size_t(self.me())] = local;
    ASSERT_NE(local, nullptr) << last_message();
    for (size_t i = 0; i < number_count; i++)
      local[i] = int64_t(i);
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
    for (int64_t round = 0; round < 8; round++)
      change(self, local);
    pe_index const peer = (self.me() + 1) % count;
    std::vector<int64_t> actual(number_count);
    auto const end = completion_mode::local;
    ASSERT_EQ(self.get({buffers[size_t(peer)], actual.data(), peer},
                       block(number_count * sizeof(int64_t)),
                       end),
              status::ok);
    for (size_t i = 0; i < number_count; i++) {
      int64_t expected = int64_t(i);
      if (i / (40 * step) * (40 * step) + piece <= number_count && i % (40 * step) < piece)
        expected += 8 * 2 * count;
      if (i == number_count - 1)
        expected += 8 * count;
      if (i >= size_t(peer) && (i - size_t(peer)) % step == 0)
        expected += 8000;
      ASSERT_EQ(actual[i], expected) << i;
    }
    ASSERT_EQ(self.node_barrier(), status::ok) << last_message();
  };
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto started = engine::start(*launcher, config);
      ASSERT_TRUE(started.ok()) << last_message();
      part(*started.value());
      EXPECT_EQ(started.value()->stop(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(rmdir(folder), 0);  // nothing is left in it
}

// The layout of the control memory is equal in all processes.
TEST(engine, nodes_may_have_budgets_of_their_own) {
  char folder[] = "/tmp/engine-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto launchers = backends::bootstrap_local(2);
  std::array<int64_t *, 2> buffers{};
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto config = small_settings("none");
      uint64_t const budget = launcher->rank() == 0 ? 5 << 20 : 100 << 20;
      config.swap = {.budget = budget,
                     .store = std::string{"file://"} + folder,
                     .slots = 1,
                     .reserve = 0,
                     .trace = {},
                     .report = {}};
      config.swap.always_resident = true;
      auto started = engine::start(*launcher, config);
      ASSERT_TRUE(started.ok()) << last_message();
      engine &self = *started.value();
      auto const peer = 1 - self.me();
      buffers[size_t(self.me())] = static_cast<int64_t *>(self.allocate(1 << 20));
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      int64_t before = -1;
      EXPECT_EQ(self.fetch_and_add(word_kind::i64, &before, buffers[size_t(peer)], 1, peer),
                status::ok);
      EXPECT_EQ(before, 0);
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      EXPECT_EQ(self.stop(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(rmdir(folder), 0);
}

TEST(engine, a_heap_lies_where_all_have_room) {
  if (!seams::is_unmapped(reinterpret_cast<void *>(uintptr_t{0x2000} << 32), 4096)) {
    GTEST_SKIP() << "the first candidate address is in use, for example by ThreadSanitizer";
  }
  auto launchers = backends::bootstrap_local(1);
  settings config = small_settings();
  config.has_common_addresses = true;
  uintptr_t places[2] = {};
  {
    auto started = engine::start(*launchers[0], config).value();
    places[0] = reinterpret_cast<uintptr_t>(started->allocate(64));
    // The address is in use, so the next candidate is taken.
    auto other_launchers = backends::bootstrap_local(1);
    auto second = engine::start(*other_launchers[0], config).value();
    places[1] = reinterpret_cast<uintptr_t>(second->allocate(64));
    EXPECT_EQ(second->stop(), status::ok);
    EXPECT_EQ(started->stop(), status::ok);
  }
  EXPECT_EQ(places[0] >> 44, 0x2u);
  EXPECT_EQ(places[1] >> 44, 0x3u);
}

TEST(engine, a_barrier_of_a_node_waits_for_all) {
  constexpr pe_index count = 5;
  static std::array<int, count> arrived{};  // no atomics: the barriers order the accesses
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

// The target may be swapped out, so the default timeout is longer; an explicit timeout is kept.
TEST(engine, answers_may_take_longer_where_memory_leaves) {
  auto const timeout_s =
      [](std::initializer_list<std::pair<const char *, const char *>> variables) {
        for (auto const &[name, value] : variables)
          setenv(name, value, 1);
        settings config_read;
        EXPECT_EQ(config_read.read_environment(), status::ok) << last_message();
        for (auto const &[name, value] : variables)
          unsetenv(name);
        return config_read.job.timeout_ns / 1'000'000'000;
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
