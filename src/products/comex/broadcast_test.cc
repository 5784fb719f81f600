// Broadcasts: contents, roots that run ahead, and mismatched calls.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "products/comex/testing.hpp"

namespace tanada::comex {
namespace {

// bytes: more than a root publishes before others read
constexpr size_t size_max = size_t{700} << 10;

std::byte value_at(size_t index, uint64_t salt) noexcept {
  return std::byte((index * 7 + index / 251 + salt * 13) & 0xff);
}

// Broadcasts `size` bytes of the root; checks all of them, and the byte after them.
void try_once(
    engine &self, std::vector<std::byte> &bytes, size_t size, pe_index root, uint64_t salt) {
  for (size_t i = 0; i < size; i++)
    bytes[i] = self.me() == root ? value_at(i, salt) : std::byte{0xaa};
  bytes[size] = std::byte{0xbb};
  ASSERT_EQ(self.broadcast({bytes.data(), size}, root), status::ok) << last_message();
  for (size_t i = 0; i < size; i++) {
    ASSERT_EQ(bytes[i], value_at(i, salt)) << "byte " << i << " of " << size << " from " << root;
  }
  ASSERT_EQ(bytes[size], std::byte{0xbb});
}

size_t random_size(std::mt19937_64 &random) {
  constexpr size_t edges[] = {0, 1, 8, 40, 41, 4096, size_t{32} << 10, (size_t{32} << 10) + 1};
  switch (random() % 8) {
    case 0:
      return edges[random() % std::size(edges)];
    case 1:
      return random() % size_max;
    case 2:
      return random() % 20'000;
    default:
      return random() % 64;
  }
}

// All processes draw the same random numbers, but pause at different times.
void try_many(pe_index count, uint64_t seed) {
  with_processes(count, "", [&](engine &self, auto) {
    std::mt19937_64 random{seed}, pause_random{seed + uint64_t(self.me())};
    std::vector<std::byte> bytes(size_max + 1);
    for (uint64_t i = 0; i < 600 && !testing::Test::HasFatalFailure(); i++) {
      auto const root =
          pe_index(random() % 4 == 0 ? random() % uint64_t(count) : i / 200 % uint64_t(count));
      try_once(self, bytes, random_size(random), root, i);
      if (random() % 50 == 0) {
        ASSERT_EQ(self.node_barrier(), status::ok);
      }
      if (pause_random() % 100 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(pause_random() % 500));
    }
    EXPECT_EQ(self.node_barrier(), status::ok);
  });
}

TEST(broadcast, all_have_the_bytes_whatever_sizes_and_roots) {
  for (pe_index const count : {1, 2, 3, 5}) {
    SCOPED_TRACE(count);
    try_many(count, 7 + uint64_t(count));
  }
}

// A root does not wait for readers as long as few parts are unread.
TEST(broadcast, a_root_goes_on_before_others_have_read) {
  std::atomic<bool> has_published{false};
  with_processes(3, "", [&](engine &self, auto) {
    std::vector<std::byte> bytes(10'001);
    if (self.me() != 1) {
      while (!has_published)
        std::this_thread::yield();
    }
    for (uint64_t i = 0; i < 40; i++) {
      try_once(self, bytes, i < 7 ? 10'000 : 8, 1, i);
    }
    has_published = true;
    EXPECT_EQ(self.node_barrier(), status::ok);
  });
}

// Nor does it wait for readers of parts that others have published meanwhile.
TEST(broadcast, a_root_goes_on_behind_another) {
  constexpr uint64_t calls_per_root = 60;  // together more than can be in flight
  std::atomic<int> published_count{0};
  with_processes(3, "", [&](engine &self, auto) {
    std::vector<std::byte> bytes(9);
    while (self.me() == 2 && published_count != 2)
      std::this_thread::yield();
    for (uint64_t i = 0; i < 2 * calls_per_root; i++) {
      try_once(self, bytes, 8, i < calls_per_root ? 0 : 1, i);
    }
    published_count++;
    EXPECT_EQ(self.node_barrier(), status::ok);
  });
}

TEST(broadcast, who_has_the_bytes_sees_what_was_put_before) {
  std::array<std::byte *, 2> buffers{};
  with_processes(2, "", [&buffers](engine &self, auto barrier) {
    constexpr size_t size = size_t{1} << 20;
    buffers[size_t(self.me())] = static_cast<std::byte *>(self.allocate(size));
    barrier();
    std::byte byte{};
    for (int i = 1; i < 50; i++) {
      std::vector<std::byte> const values(size, std::byte(i));
      if (self.me() == 0) {
        ASSERT_EQ(self.put({values.data(), buffers[1], 1}, block(size), completion_mode::local),
                  status::ok);
      }
      ASSERT_EQ(self.broadcast({&byte, 1}, 0), status::ok);
      if (self.me() == 1) {
        ASSERT_EQ(std::memcmp(buffers[1], values.data(), size), 0);
      }
      ASSERT_EQ(self.broadcast({&byte, 1}, 1), status::ok);
    }
    EXPECT_EQ(self.node_barrier(), status::ok);
  });
}

// Runs a different `part` in two processes, and expects the given `message` in process 1. Process 0
// gets an error, too, or is about to enter a barrier.
void try_different(void (*part)(engine &self, std::vector<std::byte> &bytes, status &code),
                   const char *message) {
  with_processes(2, "", [&](engine &self, auto barrier) {
    std::vector<std::byte> bytes(64);
    status code = status::ok;
    part(self, bytes, code);
    if (self.me() == 1) {
      EXPECT_EQ(code, status::invalid);
      EXPECT_EQ(last_message(), message);
      EXPECT_EQ(self.node_barrier(), status::ok);
    }
    barrier();
  });
}

TEST(broadcast, another_size_is_told) {
  try_different(
      [](engine &self, auto &bytes, status &code) {
        code = self.broadcast({bytes.data(), self.me() == 0 ? size_t{8} : 16}, 0);
        if (self.me() == 0) {
          EXPECT_EQ(self.node_barrier(), status::ok);
        }
      },
      "size mismatch: 16 bytes, rank 0 has 8");
}

TEST(broadcast, a_barrier_instead_of_what_a_root_gives_is_told) {
  try_different(
      [](engine &self, auto &bytes, status &code) {
        code = self.me() == 0 ? self.node_barrier() : self.broadcast({bytes.data(), 8}, 0);
      },
      "rank 0 makes a different call");
}

TEST(broadcast, a_barrier_instead_of_reading_is_told) {
  try_different(
      [](engine &self, auto &bytes, status &code) {
        if (self.me() == 0) {
          EXPECT_EQ(self.node_barrier(), status::ok);
        }
        for (int i = 0; i < 1000 && self.me() == 1 && code == status::ok; i++)
          code = self.broadcast({bytes.data(), 8}, 1);
      },
      "rank 0 makes a different call");
}

TEST(broadcast, a_barrier_between_is_told) {
  try_different(
      [](engine &self, auto &bytes, status &code) {
        if (self.me() == 0) {
          code = self.broadcast({bytes.data(), 8}, 0);
          EXPECT_EQ(self.node_barrier(), status::ok);
          EXPECT_EQ(self.node_barrier(), status::ok);
        } else {
          EXPECT_EQ(self.node_barrier(), status::ok);
          code = self.broadcast({bytes.data(), 8}, 0);
        }
      },
      "rank 0 makes a different call");
}

TEST(broadcast, processes_that_wait_for_one_another_are_told) {
  for (pe_index const count : {2, 3, 4}) {
    with_processes(count, "", [&](engine &self, auto barrier) {
      std::byte byte{};
      EXPECT_EQ(self.broadcast({&byte, 1}, (self.me() + 1) % count), status::invalid);
      EXPECT_NE(last_message().find("makes a different call"), std::string::npos) << last_message();
      barrier();
    });
  }
}

}  // namespace
}  // namespace tanada::comex
