// Transfers of all shapes between processes of one node and of several nodes.
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
INSTANTIATE_TEST_SUITE_P(nodes, transfers, testing::Values("", "none"), [](auto &which) {
  return which.param.empty() ? "one" : "each";
});

// Two processes with `size` zero bytes each; `part` gets the addresses of both.
template <class Part>
void with_pairs(size_t size, const std::string &node, Part part) {
  std::byte *buffers[2] = {};
  with_processes(2, node, [&](engine &self, auto barrier) {
    buffers[self.me()] = static_cast<std::byte *>(self.allocate(size));
    std::memset(static_cast<void *>(buffers[self.me()]), 0, size);
    barrier();
    part(self, 1 - self.me(), buffers, barrier);
  });
}

// Each of two processes has a model of the other's memory, which only it writes. Random shapes are
// moved both ways, in program order. Some are large, with many pieces in flight or with blocks that
// are not packed; half are unaligned.
TEST_P(transfers, random_shapes_arrive_as_in_a_model) {
  constexpr size_t size = size_t{1} << 20;
  with_pairs(
      size, GetParam(), [](engine &self, pe_index peer, std::byte *const *buffers, auto barrier) {
        std::mt19937 random{unsigned(self.me()) + 1};
        auto const below = [&](size_t mode) {
          return size_t(random()) % mode;
        };
        std::vector<std::byte> model(size), local(size), back(size);
        for (int round = 0; round < 400; round++) {
          size_t const word = below(2) == 0 ? 1 : 8;
          std::vector<int> counts{int(8 * (1 + below(round % 8 == 0 ? 10'000 : 40)))},
              remote_strides{}, local_strides{};
          int remote_reach = counts[0], local_reach = counts[0];
          for (size_t i = below(3); i > 0; i--) {
            counts.push_back(int(1 + below(round % 5 == 0 ? 20 : 5)));
            remote_strides.push_back(remote_reach + int(word * below(3)));
            local_strides.push_back(local_reach + int(word * below(3)));
            remote_reach = remote_strides.back() * counts.back();
            local_reach = local_strides.back() * counts.back();
          }
          if (size_t(remote_reach) > size || size_t(local_reach) > size)
            continue;
          int const levels = int(remote_strides.size());
          size_t const remote = below((size - size_t(remote_reach)) / word + 1) * word;
          for (size_t i = 0; i < size_t(local_reach); i++)
            local[i] = std::byte(random());
          auto const outbound = strided_shape::from_arguments(
                                    counts, local_strides.data(), remote_strides.data(), levels)
                                    .value();
          auto const inbound = strided_shape::from_arguments(
                                   counts, remote_strides.data(), local_strides.data(), levels)
                                   .value();
          completion_mode const mode =
              below(2) == 0 ? completion_mode::deferred : completion_mode::local;
          switch (below(3)) {
            case 0:
              ASSERT_EQ(self.put({local.data(), buffers[peer] + remote, peer}, outbound, mode),
                        status::ok);
              outbound.for_each([&](size_t s, size_t t) {
                std::memcpy(&model[remote + t], &local[s], outbound.block_size());
              });
              break;
            case 1: {
              int64_t const scale = 3;
              ASSERT_EQ(
                  self.accumulate(
                      element::i64, &scale, {local.data(), buffers[peer] + remote, peer}, outbound),
                  status::ok);
              outbound.for_each([&](size_t s, size_t t) {
                add_scaled(
                    element::i64, &scale, &model[remote + t], &local[s], outbound.block_size());
              });
              break;
            }
            default:
              ASSERT_EQ(self.get({buffers[peer] + remote, back.data(), peer}, inbound, mode),
                        status::ok);
              ASSERT_EQ(mode == completion_mode::deferred ? self.finish() : status::ok, status::ok);
              inbound.for_each([&](size_t s, size_t t) {
                ASSERT_EQ(std::memcmp(&back[t], &model[remote + s], inbound.block_size()), 0)
                    << round;
              });
          }
          ASSERT_EQ(mode == completion_mode::deferred ? self.finish() : status::ok, status::ok);
        }
        barrier();
        EXPECT_EQ(self.get({buffers[peer], back.data(), peer}, block(size), completion_mode::local),
                  status::ok);
        EXPECT_EQ(back, model);
        barrier();
      });
}

// Lists of pieces between contiguous transfers, with sizes that are sent in messages, read by the
// target, or moved by the fabric.
TEST_P(transfers, lists_of_pieces_arrive_as_in_a_model) {
  constexpr size_t size = size_t{1} << 20;
  with_pairs(
      size, GetParam(), [](engine &self, pe_index peer, std::byte *const *buffers, auto barrier) {
        std::mt19937 random{unsigned(self.me()) + 9};
        auto const below = [&](size_t mode) {
          return size_t(random()) % mode;
        };
        std::vector<std::byte> model(size), local(size), back(size);
        for (int round = 0; round < 150; round++) {
          size_t const piece = 8 * (1 + below(round % 20 == 0 ? 10'000 : round % 3 == 0 ? 200 : 2));
          size_t const places = size / piece - 1,
                       count = 1 + below(std::min<size_t>(places, 3'000)), misalignment = below(8);
          std::vector<void *> locals, remote;
          for (size_t i = 0; i < count; i++) {
            size_t const position = (i * 7919 + size_t(round)) % places * piece;
            locals.push_back(&local[i * piece]);
            remote.push_back(buffers[peer] + position + misalignment);
          }
          for (size_t i = 0; i < count * piece; i++)
            local[i] = std::byte(random());
          completion_mode const mode =
              below(2) == 0 ? completion_mode::deferred : completion_mode::local;
          int64_t const scale = -2;
          auto const for_each_piece = [&](auto &&run) {
            for (size_t i = 0; i < count; i++) {
              run(&model[size_t(static_cast<std::byte *>(remote[i]) - buffers[peer])],
                  &local[i * piece]);
            }
          };
          switch (below(3)) {
            case 0:
              ASSERT_EQ(
                  self.put(piece_list{locals.data(), remote.data(), count, piece}, peer, mode),
                  status::ok);
              for_each_piece([&](std::byte *model_bytes, const std::byte *local_bytes) {
                std::memcpy(model_bytes, local_bytes, piece);
              });
              break;
            case 1:
              ASSERT_EQ(self.accumulate(element::i64,
                                        &scale,
                                        piece_list{locals.data(), remote.data(), count, piece},
                                        peer),
                        status::ok);
              for_each_piece([&](std::byte *model_bytes, const std::byte *local_bytes) {
                add_scaled(element::i64, &scale, model_bytes, local_bytes, piece);
              });
              break;
            default:
              ASSERT_EQ(
                  self.get(piece_list{remote.data(), locals.data(), count, piece}, peer, mode),
                  status::ok);
              ASSERT_EQ(mode == completion_mode::deferred ? self.finish() : status::ok, status::ok);
              for_each_piece([&](std::byte *expected, const std::byte *actual) {
                ASSERT_EQ(std::memcmp(expected, actual, piece), 0) << round;
              });
          }
          ASSERT_EQ(mode == completion_mode::deferred ? self.finish() : status::ok, status::ok);
          ASSERT_EQ(
              self.put(
                  {local.data(), buffers[peer] + size - 8, peer}, block(8), completion_mode::local),
              status::ok);
          std::memcpy(&model[size - 8], local.data(), 8);
        }
        std::vector<void *> outside{buffers[peer] + self.heap_size(), buffers[peer]},
            local_pieces{local.data(), local.data() + 8};
        EXPECT_EQ(self.put(piece_list{local_pieces.data(), outside.data(), 2, 8},
                           peer,
                           completion_mode::local),
                  status::range);
        EXPECT_EQ(self.accumulate(element::c128,
                                  model.data(),
                                  piece_list{local_pieces.data(), local_pieces.data(), 2, 8},
                                  self.me()),
                  status::invalid);
        barrier();
        EXPECT_EQ(self.get({buffers[peer], back.data(), peer}, block(size), completion_mode::local),
                  status::ok);
        EXPECT_EQ(back, model);
        barrier();
      });
}

// Packed requests and operations of the fabric appear in program order: a get of either kind sees
// what was sent before it.
TEST_P(transfers, a_get_sees_what_was_sent_before_it_in_any_way) {
  constexpr size_t size = size_t{256} << 10;
  with_pairs(
      size, GetParam(), [](engine &self, pe_index peer, std::byte *const *buffers, auto barrier) {
        int const counts[] = {8, 1000}, wide[] = {16}, close[] = {8};
        auto const outbound = strided_shape::from_arguments(counts, close, wide, 1).value(),
                   inbound = strided_shape::from_arguments(counts, wide, close, 1).value();
        std::vector<int64_t> sent(size / 8), actual(size / 8);
        int64_t const unit = 1;
        for (int64_t round = 1; round <= 100; round++) {
          std::fill(sent.begin(), sent.end(), round);
          // A block of its own, packed blocks over it, an accumulate, and a small block; sometimes
          // a large block over all of them.
          ASSERT_EQ(
              self.put({sent.data(), buffers[peer], peer}, block(16'000), completion_mode::local),
              status::ok);
          std::fill(sent.begin(), sent.end(), -round);
          ASSERT_EQ(self.put({sent.data(), buffers[peer], peer}, outbound, completion_mode::local),
                    status::ok);
          ASSERT_EQ(
              self.accumulate(element::i64, &unit, {sent.data(), buffers[peer], peer}, outbound),
              status::ok);
          ASSERT_EQ(self.put({&round, buffers[peer], peer}, block(8), completion_mode::local),
                    status::ok);
          bool const is_covered = round % 4 == 0;
          size_t const covered = is_covered ? 100'000 : 0;
          ASSERT_EQ(
              self.put({sent.data(), buffers[peer], peer}, block(covered), completion_mode::local),
              status::ok);
          ASSERT_EQ(self.get({buffers[peer], actual.data(), peer},
                             round % 2 == 0 ? inbound : block(16'000),
                             completion_mode::local),
                    status::ok);
          size_t const step = round % 2 == 0 ? 1 : 2;
          ASSERT_EQ(actual[0], is_covered ? -round : round);
          for (size_t i = 1; i < 1000; i++) {
            ASSERT_EQ(actual[i * step], is_covered ? -round : -2 * round)
                << i << " in round " << round;
          }
          int64_t before = 0;
          ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, buffers[peer] + 16, 1, peer),
                    status::ok);
          ASSERT_EQ(before, is_covered ? -round : -2 * round);
        }
        barrier();
      });
}

// The target makes no calls for as long as the transfers take.
TEST(transfer, who_is_asked_need_not_call) {
  std::byte *buffer = nullptr;
  std::atomic<bool> is_over{false};
  with_processes(2, "none", [&](engine &self, auto barrier) {
    if (self.me() == 1)
      buffer = static_cast<std::byte *>(self.allocate(size_t{1} << 20));
    barrier();
    if (self.me() == 1) {
      auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
      while (!is_over && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      EXPECT_TRUE(is_over);
    } else {
      int const counts[] = {8, 40'000}, wide[] = {16}, close[] = {8};
      auto const outbound = strided_shape::from_arguments(counts, close, wide, 1).value(),
                 inbound = strided_shape::from_arguments(counts, wide, close, 1).value();
      std::vector<double> sent(40'000, 1.5), actual(40'000);
      double const two = 2;
      EXPECT_EQ(self.put({sent.data(), buffer, 1}, outbound, completion_mode::local), status::ok);
      EXPECT_EQ(self.accumulate(element::f64, &two, {sent.data(), buffer, 1}, outbound),
                status::ok);
      EXPECT_EQ(self.get({buffer, actual.data(), 1}, inbound, completion_mode::local), status::ok);
      EXPECT_EQ(std::count(actual.begin(), actual.end(), 4.5), 40'000);
      is_over = true;
    }
    barrier();
  });
}

// The target's endpoints are closed while requests are in flight.
TEST(transfer, waits_for_who_is_gone_end) {
  std::byte *buffer = nullptr;
  auto launchers = backends::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      settings chosen = small_settings("none");
      chosen.job.timeout_ns = 5'000'000'000;  // also of the start
      auto started = engine::start(*launcher, chosen);
      ASSERT_TRUE(started.ok()) << last_message();
      auto &self = *started.value();
      if (self.me() == 1)
        buffer = static_cast<std::byte *>(self.allocate(size_t{4} << 20));
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      if (self.me() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
        return;
      }
      int const counts[] = {8, 200'000}, wide[] = {16}, close[] = {8};
      auto const outbound = strided_shape::from_arguments(counts, close, wide, 1).value(),
                 inbound = strided_shape::from_arguments(counts, wide, close, 1).value();
      std::vector<double> local_pieces(200'000, 1);
      double const unit = 1;
      auto const begin = std::chrono::steady_clock::now();
      status code = status::ok;
      while (code == status::ok &&
             std::chrono::steady_clock::now() - begin < std::chrono::seconds{40}) {
        code = self.accumulate(element::f64, &unit, {local_pieces.data(), buffer, 1}, outbound);
        if (code == status::ok)
          code = self.finish();
      }
      EXPECT_TRUE(code == status::peer_lost || code == status::timed_out) << int(code);
      EXPECT_NE(self.get({buffer, local_pieces.data(), 1}, inbound, completion_mode::local),
                status::ok);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{30});
      (void)self.finish();
    });
  }
  for (auto &thread : threads)
    thread.join();
}

// Processes of the same node and of another one accumulate to one heap; locks order them.
TEST(transfer, neighbours_and_others_add_to_one_heap) {
  constexpr pe_index count = 4;
  constexpr size_t number_count = 6000;
  static std::byte *buffer;
  auto launchers = backends::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto started = engine::start(*launcher, small_settings(launcher->rank() < 2 ? "one" : "two"));
      ASSERT_TRUE(started.ok()) << last_message();
      auto &self = *started.value();
      if (self.me() == 0)
        buffer = static_cast<std::byte *>(self.allocate(number_count * 8 + 4));
      if (self.me() == 0)
        std::memset(static_cast<void *>(buffer), 0, number_count * 8 + 4);
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      std::vector<double> const sent(number_count, 1);
      double const scale = 2;
      // Unaligned, and across the boundaries of locks.
      for (int round = 0; round < 30; round++) {
        EXPECT_EQ(self.accumulate(
                      element::f64, &scale, {sent.data(), buffer + 4, 0}, block(number_count * 8)),
                  status::ok);
      }
      EXPECT_EQ(self.finish(), status::ok);
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      std::vector<double> actual(number_count);
      EXPECT_EQ(
          self.get({buffer + 4, actual.data(), 0}, block(number_count * 8), completion_mode::local),
          status::ok);
      EXPECT_EQ(std::count(actual.begin(), actual.end(), 2.0 * 30 * count),
                ptrdiff_t(number_count));
      ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      EXPECT_EQ(self.stop(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

}  // namespace
}  // namespace tanada::comex
