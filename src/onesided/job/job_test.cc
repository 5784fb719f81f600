// Jobs whose PEs are threads: memory, operations and waits.
#include "onesided/job/job.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "onesided/job/context.hpp"
#include "onesided/job/testing.hpp"

namespace tanada::onesided {
namespace {

TEST(job, alone_has_its_own_memory) {
  with_pes(1, small_options(), [](job &self) {
    EXPECT_EQ(self.count(), 1);
    EXPECT_TRUE(self.is_one_node());
    EXPECT_GE(self.heap().size(), size_t{4} << 20);
    EXPECT_EQ(self.heap()[0], std::byte{0});
    EXPECT_GE(self.control().size(), 4096u);
    context ctx{self.map(), nullptr};
    uint64_t value = 0;
    auto *const word = reinterpret_cast<uint64_t *>(self.heap().data());
    EXPECT_EQ(ctx.put_value(word, uint64_t{7}, 0), status::ok);
    EXPECT_EQ(ctx.get_value(value, word, 0), status::ok);
    EXPECT_EQ(value, 7u);
    EXPECT_EQ(ctx.put_value(word, uint64_t{7}, 1), status::invalid);
    EXPECT_EQ(ctx.put_value(&value, uint64_t{7}, 0), status::range);
    auto *const end = reinterpret_cast<uint64_t *>(self.heap().data() + self.heap().size());
    EXPECT_EQ(ctx.put_value(end, uint64_t{7}, 0), status::range);
    size_t volatile const too_much = size_t{1} << 40;
    EXPECT_EQ(ctx.put(word, &value, too_much, 0), status::range);
    uint64_t *const misaligned = reinterpret_cast<uint64_t *>(self.heap().data() + 4);
    EXPECT_EQ(ctx.update<uint64_t>(seams::fabric_atomic::add, misaligned, 1, 0, nullptr, 0),
              status::fault);
    EXPECT_EQ(self.wait([] { return false; }, {}, self.time().now_ns() + 1'000'000),
              status::timed_out);
  });
}

TEST(job, neighbours_pass_a_token_and_count_together) {
  constexpr pe_index count = 5;
  with_pes(count, small_options(), [](job &self) {
    ASSERT_EQ(self.node_pes().size(), size_t(count));
    context ctx{self.map(), nullptr};
    auto *const token = reinterpret_cast<uint64_t *>(self.heap().data());
    auto *const counter = token + 1;
    pe_index const next = (self.me() + 1) % count;
    for (uint64_t round = 1; round <= 50; round++) {
      if (self.me() != 0) {
        ASSERT_EQ(self.wait([&] { return __atomic_load_n(token, __ATOMIC_ACQUIRE) == round; }),
                  status::ok);
      }
      uint64_t before = 0;
      ASSERT_EQ(
          ctx.update(seams::fabric_atomic::add, counter, uint64_t{1}, uint64_t{0}, &before, 0),
          status::ok);
      ASSERT_EQ(before, (round - 1) * count + uint64_t(self.me()));
      ASSERT_EQ(ctx.put_signal(nullptr, nullptr, 0, token, signal_kind::set, round, next),
                status::ok);
      if (self.me() == 0) {
        ASSERT_EQ(self.wait([&] { return __atomic_load_n(token, __ATOMIC_ACQUIRE) == round; }),
                  status::ok);
      }
    }
  });
}

TEST(job, heaps_of_neighbours_are_parts_of_files) {
  constexpr pe_index count = 3;
  auto options = small_options();
  options.keeps_descriptors = true;
  with_pes(count, options, [](job &self) {
    context ctx{self.map(), nullptr};
    auto *const word = reinterpret_cast<uint64_t *>(self.heap().data());
    for (pe_index pe = 0; pe < count; pe++) {
      auto const part = self.heap_file(pe);
      uint64_t const written = uint64_t(self.me()) + 100;
      ASSERT_EQ(pwrite(part.descriptor,
                       &written,
                       sizeof written,
                       off_t(part.offset + 8 * size_t(self.me()))),
                8);
      uint64_t back = 0;
      ASSERT_EQ(ctx.get_value(back, word + self.me(), pe), status::ok);
      EXPECT_EQ(back, written);
    }
  });
  with_pes(1, small_options(), [](job &self) { EXPECT_EQ(self.heap_file(0).descriptor, -1); });
}

// The same without shared memory.
TEST(job, strangers_pass_a_token_and_count_together) {
  constexpr pe_index count = 3;
  auto options = small_options();
  options.node = "none";
  with_pes(count, options, [](job &self) {
    ASSERT_EQ(self.node_pes().size(), 1u);
    auto lane = self.lane_acquire(false);
    ASSERT_TRUE(lane.ok());
    {
      context ctx{self.map(), lane.value()};
      auto *const token = reinterpret_cast<uint64_t *>(self.heap().data());
      auto *const counter = token + 1;
      auto *const text = self.heap().data() + 64;
      pe_index const next = (self.me() + 1) % count;
      for (uint64_t round = 1; round <= 50; round++) {
        auto const is_my_turn = [&] {
          return __atomic_load_n(token, __ATOMIC_ACQUIRE) == round;
        };
        if (self.me() != 0) {
          ASSERT_EQ(self.wait(is_my_turn), status::ok);
          ASSERT_EQ(text[99], std::byte(round)) << "the signal arrived before its data";
        }
        uint64_t before = 0;
        ASSERT_EQ(
            ctx.update(seams::fabric_atomic::add, counter, uint64_t{1}, uint64_t{0}, &before, 0),
            status::ok);
        ASSERT_EQ(before, (round - 1) * count + uint64_t(self.me()));
        std::array<std::byte, 100> words;
        words.fill(std::byte(round));
        ASSERT_EQ(
            ctx.put_signal(text, words.data(), words.size(), token, signal_kind::set, round, next),
            status::ok);
        if (self.me() == 0) {
          ASSERT_EQ(self.wait(is_my_turn), status::ok);
        }
      }
      ASSERT_EQ(ctx.quiet(), status::ok);
    }
    self.lane_release(lane.value());
  });
}

TEST(job, strangers_reach_what_is_offered_of_control_memory) {
  auto options = small_options();
  options.node = "none";
  options.control_size = 3 * 4096;
  options.control_exposed_size = 4096;
  with_pes(2, options, [](job &self) {
    auto lane = self.lane_acquire(false);
    ASSERT_TRUE(lane.ok());
    {
      context ctx{self.map(), lane.value()};
      auto *const words = reinterpret_cast<uint64_t *>(self.control().data());
      uint64_t before = 1;
      ASSERT_EQ(ctx.update(seams::fabric_atomic::add,
                           words + 4096 / 8 - 1,
                           uint64_t{1},
                           uint64_t{0},
                           &before,
                           1 - self.me()),
                status::ok);
      EXPECT_EQ(before, 0u);
      EXPECT_NE(ctx.update(seams::fabric_atomic::add,
                           words + 4096 / 8,
                           uint64_t{1},
                           uint64_t{0},
                           &before,
                           1 - self.me()),
                status::ok);
      EXPECT_EQ(words[4096 / 8], 0u);
    }
    self.lane_release(lane.value());
  });
}

TEST(job, strided_blocks_land_where_they_should) {
  with_pes(2, small_options(), [](job &self) {
    context ctx{self.map(), nullptr};
    auto *const field = self.heap().data() + 1024;
    if (self.me() == 0) {
      std::array<std::byte, 64> source;
      for (size_t i = 0; i < source.size(); i++)
        source[i] = std::byte(i);
      // Blocks of 3 bytes: 7 apart here, backwards and 5 apart at the target.
      strided_shape const shape{
          .block_size = 3, .count = 8, .target_stride = -5, .source_stride = 7};
      ASSERT_EQ(ctx.put_strided(field + 100, source.data(), shape, 1), status::ok);
      std::array<std::byte, 64> back{};
      ASSERT_EQ(
          ctx.get_strided(back.data(),
                          field + 100,
                          {.block_size = 3, .count = 8, .target_stride = 7, .source_stride = -5},
                          1),
          status::ok);
      for (size_t block = 0; block < 8; block++) {
        for (size_t i = 0; i < 3; i++)
          EXPECT_EQ(back[block * 7 + i], source[block * 7 + i]);
      }
      EXPECT_EQ(ctx.put_strided(self.heap().data() + 4, source.data(), shape, 1), status::range)
          << "leaves the heap at its beginning";
      EXPECT_EQ(ctx.put_strided(
                    field,
                    source.data(),
                    {.block_size = 1, .count = ~size_t{0}, .target_stride = 8, .source_stride = 1},
                    1),
                status::range);
    }
  });
}

TEST(job, accumulates_of_all_add_up) {
  constexpr pe_index count = 4;
  with_pes(count, small_options(), [](job &self) {
    context ctx{self.map(), nullptr};
    auto *const sums = reinterpret_cast<double *>(self.heap().data());
    std::array<double, 100> addends;
    for (size_t i = 0; i < addends.size(); i++)
      addends[i] = double(i);
    for (int round = 0; round < 200; round++) {
      ASSERT_EQ(ctx.accumulate(seams::fabric_element::f64, sums, addends.data(), sizeof addends, 0),
                status::ok);
    }
    ASSERT_EQ(self.finish(), status::ok);
    if (self.me() != 0)
      return;
    for (size_t i = 0; i < addends.size(); i++)
      EXPECT_EQ(sums[i], double(i) * 200 * count);
  });
}

TEST(job, a_dead_pe_ends_the_waits_of_others) {
  auto launchers = backends::bootstrap_local(2);
  std::atomic<bool> is_waiting{false};
  std::thread survivor{[&] {
    auto started = job::start(*launchers[0], small_options());
    ASSERT_TRUE(started.ok());
    is_waiting = true;
    EXPECT_EQ(started.value()->wait(
                  [] { return false; }, {}, started.value()->time().now_ns() + 10'000'000'000),
              status::peer_lost);
    EXPECT_EQ(started.value()->failed_pe(), 1);
  }};
  std::thread victim{[&] {
    auto started = job::start(*launchers[1], small_options());
    ASSERT_TRUE(started.ok());
    while (!is_waiting)
      std::this_thread::yield();
    launchers[1]->kill();
  }};
  survivor.join();
  victim.join();
}

TEST(job, unequal_heaps_are_refused) {
  auto launchers = backends::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; i++) {
    threads.emplace_back([&, i] {
      auto options = small_options();
      options.heap_size <<= i;
      EXPECT_EQ(job::start(*launchers[i], options).error(), status::invalid);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

}  // namespace
}  // namespace tanada::onesided
