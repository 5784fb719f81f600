// Transfers of all shapes: among neighbours, by loads and stores, and with processes of other
// nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>

#include "products/comex/testing.hpp"

namespace tanada::comex {
namespace {

class transfers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(nodes, transfers, testing::Values("", "none"),
                         [](auto &which) { return which.param.empty() ? "one" : "each"; });

// Two processes, and `size` bytes of zeros of each: `part` knows where both lie.
template <class Part>
void with_pairs(size_t size, const std::string &node, Part part) {
  std::byte *given[2] = {};
  with_processes(2, node, [&](engine &self, auto everybody) {
    given[self.me()] = static_cast<std::byte *>(self.allocate(size));
    std::memset(static_cast<void *>(given[self.me()]), 0, size);
    everybody();
    part(self, 1 - self.me(), given, everybody);
  });
}

// Two processes, each with a model of the other's memory that only it writes: random shapes there
// and back, in the order of a program. Some are large, of many pieces on their way or of blocks
// that go by themselves; half lie anywhere.
TEST_P(transfers, random_shapes_arrive_as_in_a_model) {
  constexpr size_t size = size_t{1} << 20;
  with_pairs(
      size, GetParam(), [](engine &self, pe_index other, std::byte *const *given, auto everybody) {
        std::mt19937 random{unsigned(self.me()) + 1};
        auto const below = [&](size_t end) {
          return size_t(random()) % end;
        };
        std::vector<std::byte> model(size), local(size), back(size);
        for (int round = 0; round < 400; round++) {
          size_t const word = below(2) == 0 ? 1 : 8;
          std::vector<int> counts{int(8 * (1 + below(round % 8 == 0 ? 10'000 : 40)))}, far{},
              near{};
          int reach_far = counts[0], reach_near = counts[0];
          for (size_t i = below(3); i > 0; i--) {
            counts.push_back(int(1 + below(round % 5 == 0 ? 20 : 5)));
            far.push_back(reach_far + int(word * below(3)));
            near.push_back(reach_near + int(word * below(3)));
            reach_far = far.back() * counts.back();
            reach_near = near.back() * counts.back();
          }
          if (size_t(reach_far) > size || size_t(reach_near) > size)
            continue;
          int const levels = int(far.size());
          size_t const there = below((size - size_t(reach_far)) / word + 1) * word;
          for (size_t i = 0; i < size_t(reach_near); i++)
            local[i] = std::byte(random());
          auto const out = strided_shape::of(counts, near.data(), far.data(), levels).value();
          auto const in = strided_shape::of(counts, far.data(), near.data(), levels).value();
          until const end = below(2) == 0 ? until::later : until::source_is_free;
          switch (below(3)) {
            case 0:
              ASSERT_EQ(self.put({local.data(), given[other] + there, other}, out, end),
                        status::ok);
              out.for_each([&](size_t s, size_t t) {
                std::memcpy(&model[there + t], &local[s], out.block_size());
              });
              break;
            case 1: {
              int64_t const scale = 3;
              ASSERT_EQ(self.accumulate(element::i64, &scale,
                                        {local.data(), given[other] + there, other}, out),
                        status::ok);
              out.for_each([&](size_t s, size_t t) {
                add_scaled(element::i64, &scale, &model[there + t], &local[s], out.block_size());
              });
              break;
            }
            default:
              ASSERT_EQ(self.get({given[other] + there, back.data(), other}, in, end), status::ok);
              ASSERT_EQ(end == until::later ? self.finish() : status::ok, status::ok);
              in.for_each([&](size_t s, size_t t) {
                ASSERT_EQ(std::memcmp(&back[t], &model[there + s], in.block_size()), 0) << round;
              });
          }
          ASSERT_EQ(end == until::later ? self.finish() : status::ok, status::ok);
        }
        everybody();
        EXPECT_EQ(self.get({given[other], back.data(), other}, block(size), until::source_is_free),
                  status::ok);
        EXPECT_EQ(back, model);
        everybody();
      });
}

// Lists of pieces, too, among transfers of one piece; sizes that go by messages, by reads, and by
// themselves.
TEST_P(transfers, lists_of_pieces_arrive_as_in_a_model) {
  constexpr size_t size = size_t{1} << 20;
  with_pairs(
      size, GetParam(), [](engine &self, pe_index other, std::byte *const *given, auto everybody) {
        std::mt19937 random{unsigned(self.me()) + 9};
        auto const below = [&](size_t end) {
          return size_t(random()) % end;
        };
        std::vector<std::byte> model(size), local(size), back(size);
        for (int round = 0; round < 150; round++) {
          size_t const piece = 8 * (1 + below(round % 20 == 0 ? 10'000 : round % 3 == 0 ? 200 : 2));
          size_t const places = size / piece - 1,
                       count = 1 + below(std::min<size_t>(places, 3'000)), from = below(8);
          std::vector<void *> here, there;
          for (size_t i = 0; i < count; i++) {
            size_t const at = (i * 7919 + size_t(round)) % places * piece;
            here.push_back(&local[i * piece]);
            there.push_back(given[other] + at + from);
          }
          for (size_t i = 0; i < count * piece; i++)
            local[i] = std::byte(random());
          until const end = below(2) == 0 ? until::later : until::source_is_free;
          int64_t const scale = -2;
          auto const each = [&](auto &&run) {
            for (size_t i = 0; i < count; i++)
              run(&model[size_t(static_cast<std::byte *>(there[i]) - given[other])],
                  &local[i * piece]);
          };
          switch (below(3)) {
            case 0:
              ASSERT_EQ(self.put(piece_list{here.data(), there.data(), count, piece}, other, end),
                        status::ok);
              each([&](std::byte *to, const std::byte *with) { std::memcpy(to, with, piece); });
              break;
            case 1:
              ASSERT_EQ(self.accumulate(element::i64, &scale,
                                        piece_list{here.data(), there.data(), count, piece}, other),
                        status::ok);
              each([&](std::byte *to, const std::byte *with) {
                add_scaled(element::i64, &scale, to, with, piece);
              });
              break;
            default:
              ASSERT_EQ(self.get(piece_list{there.data(), here.data(), count, piece}, other, end),
                        status::ok);
              ASSERT_EQ(end == until::later ? self.finish() : status::ok, status::ok);
              each([&](std::byte *of, const std::byte *seen) {
                ASSERT_EQ(std::memcmp(of, seen, piece), 0) << round;
              });
          }
          ASSERT_EQ(end == until::later ? self.finish() : status::ok, status::ok);
          ASSERT_EQ(self.put({local.data(), given[other] + size - 8, other}, block(8),
                             until::source_is_free),
                    status::ok);
          std::memcpy(&model[size - 8], local.data(), 8);
        }
        std::vector<void *> outside{given[other] + self.heap_size(), given[other]},
            mine{local.data(), local.data() + 8};
        EXPECT_EQ(
            self.put(piece_list{mine.data(), outside.data(), 2, 8}, other, until::source_is_free),
            status::range);
        EXPECT_EQ(self.accumulate(element::c128, model.data(),
                                  piece_list{mine.data(), mine.data(), 2, 8}, self.me()),
                  status::invalid);
        everybody();
        EXPECT_EQ(self.get({given[other], back.data(), other}, block(size), until::source_is_free),
                  status::ok);
        EXPECT_EQ(back, model);
        everybody();
      });
}

// What is sent by requests and by the fabric alone is seen in its order: here by a get that
// follows, of every kind.
TEST_P(transfers, a_get_sees_what_was_sent_before_it_in_any_way) {
  constexpr size_t size = size_t{256} << 10;
  with_pairs(
      size, GetParam(), [](engine &self, pe_index other, std::byte *const *given, auto everybody) {
        int const counts[] = {8, 1000}, wide[] = {16}, close[] = {8};
        auto const out = strided_shape::of(counts, close, wide, 1).value(),
                   in = strided_shape::of(counts, wide, close, 1).value();
        std::vector<int64_t> sent(size / 8), seen(size / 8);
        int64_t const one = 1;
        for (int64_t round = 1; round <= 100; round++) {
          std::fill(sent.begin(), sent.end(), round);
          // A whole block by itself, a part packed over it, a sum, a small block; and a large one
          // over all again.
          ASSERT_EQ(
              self.put({sent.data(), given[other], other}, block(16'000), until::source_is_free),
              status::ok);
          std::fill(sent.begin(), sent.end(), -round);
          ASSERT_EQ(self.put({sent.data(), given[other], other}, out, until::source_is_free),
                    status::ok);
          ASSERT_EQ(self.accumulate(element::i64, &one, {sent.data(), given[other], other}, out),
                    status::ok);
          ASSERT_EQ(self.put({&round, given[other], other}, block(8), until::source_is_free),
                    status::ok);
          bool const is_covered = round % 4 == 0;
          size_t const covered = is_covered ? 100'000 : 0;
          ASSERT_EQ(
              self.put({sent.data(), given[other], other}, block(covered), until::source_is_free),
              status::ok);
          ASSERT_EQ(self.get({given[other], seen.data(), other},
                             round % 2 == 0 ? in : block(16'000), until::source_is_free),
                    status::ok);
          size_t const step = round % 2 == 0 ? 1 : 2;
          ASSERT_EQ(seen[0], is_covered ? -round : round);
          for (size_t i = 1; i < 1000; i++)
            ASSERT_EQ(seen[i * step], is_covered ? -round : -2 * round)
                << i << " in round " << round;
          int64_t before = 0;
          ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, given[other] + 16, 1, other),
                    status::ok);
          ASSERT_EQ(before, is_covered ? -round : -2 * round);
        }
        everybody();
      });
}

// Nobody over there calls anything for as long as it takes.
TEST(transfer, who_is_asked_need_not_call) {
  std::byte *given = nullptr;
  std::atomic<bool> is_over{false};
  with_processes(2, "none", [&](engine &self, auto everybody) {
    if (self.me() == 1)
      given = static_cast<std::byte *>(self.allocate(size_t{1} << 20));
    everybody();
    if (self.me() == 1) {
      auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
      while (!is_over && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      EXPECT_TRUE(is_over);
    } else {
      int const counts[] = {8, 40'000}, wide[] = {16}, close[] = {8};
      auto const out = strided_shape::of(counts, close, wide, 1).value(),
                 in = strided_shape::of(counts, wide, close, 1).value();
      std::vector<double> sent(40'000, 1.5), seen(40'000);
      double const two = 2;
      EXPECT_EQ(self.put({sent.data(), given, 1}, out, until::source_is_free), status::ok);
      EXPECT_EQ(self.accumulate(element::f64, &two, {sent.data(), given, 1}, out), status::ok);
      EXPECT_EQ(self.get({given, seen.data(), 1}, in, until::source_is_free), status::ok);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 4.5), 40'000);
      is_over = true;
    }
    everybody();
  });
}

// Its endpoints close in the middle of what others ask it for.
TEST(transfer, waits_for_who_is_gone_end) {
  std::byte *given = nullptr;
  auto launchers = port::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      settings chosen = small("none");
      chosen.job.timeout_ns = 5'000'000'000;  // of the start, too
      auto made = engine::start(*launcher, chosen);
      ASSERT_TRUE(made.ok()) << last_message();
      auto &self = *made.value();
      if (self.me() == 1)
        given = static_cast<std::byte *>(self.allocate(size_t{4} << 20));
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      if (self.me() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
        return;
      }
      int const counts[] = {8, 200'000}, wide[] = {16}, close[] = {8};
      auto const out = strided_shape::of(counts, close, wide, 1).value(),
                 in = strided_shape::of(counts, wide, close, 1).value();
      std::vector<double> mine(200'000, 1);
      double const one = 1;
      auto const begin = std::chrono::steady_clock::now();
      status code = status::ok;
      while (code == status::ok &&
             std::chrono::steady_clock::now() - begin < std::chrono::seconds{40}) {
        code = self.accumulate(element::f64, &one, {mine.data(), given, 1}, out);
        if (code == status::ok)
          code = self.finish();
      }
      EXPECT_TRUE(code == status::peer_lost || code == status::timed_out) << int(code);
      EXPECT_NE(self.get({given, mine.data(), 1}, in, until::source_is_free), status::ok);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{30});
      (void)self.finish();
    });
  }
  for (auto &each : threads)
    each.join();
}

// Sums by neighbours, and by those elsewhere, of one heap: locks hold them apart.
TEST(transfer, neighbours_and_others_add_to_one_heap) {
  constexpr pe_index count = 4;
  constexpr size_t number_count = 6000;
  static std::byte *given;
  auto launchers = port::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto made = engine::start(*launcher, small(launcher->rank() < 2 ? "one" : "two"));
      ASSERT_TRUE(made.ok()) << last_message();
      auto &self = *made.value();
      if (self.me() == 0)
        given = static_cast<std::byte *>(self.allocate(number_count * 8 + 4));
      if (self.me() == 0)
        std::memset(static_cast<void *>(given), 0, number_count * 8 + 4);
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      std::vector<double> const sent(number_count, 1);
      double const scale = 2;
      // Not at a multiple of their size, across the pieces of locks.
      for (int round = 0; round < 30; round++) {
        EXPECT_EQ(self.accumulate(element::f64, &scale, {sent.data(), given + 4, 0},
                                  block(number_count * 8)),
                  status::ok);
      }
      EXPECT_EQ(self.finish(), status::ok);
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      std::vector<double> seen(number_count);
      EXPECT_EQ(
          self.get({given + 4, seen.data(), 0}, block(number_count * 8), until::source_is_free),
          status::ok);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 2.0 * 30 * count), ptrdiff_t(number_count));
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      EXPECT_EQ(self.stop(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
}

}  // namespace
}  // namespace tanada::comex
