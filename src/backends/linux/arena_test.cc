#include "seams/os/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tanada::backends {
namespace {

std::unique_ptr<seams::arena> make(std::span<std::byte> memory) {
  auto created = seams::arena::create(memory);
  return created.ok() ? std::move(created).value() : nullptr;
}

TEST(area, too_small) {
  std::vector<std::byte> memory(1024);
  EXPECT_EQ(seams::arena::create({}).error(), status::invalid);
  EXPECT_EQ(seams::arena::create({memory.data(), 8}).error(), status::invalid);
  EXPECT_NE(make(memory), nullptr);
  EXPECT_NE(make(std::span{memory}.subspan(3)), nullptr);  // unaligned memory
}

TEST(area, pieces_are_aligned_apart_and_inside) {
  std::vector<std::byte> memory(64 << 10);
  auto const pieces = make(memory);
  std::vector<std::byte *> allocated;
  for (size_t size = 1;; size = size % 700 + 37) {
    auto *const piece = static_cast<std::byte *>(pieces->allocate(size));
    if (piece == nullptr)
      break;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 16, 0u);
    ASSERT_TRUE(piece >= memory.data() && piece + size <= memory.data() + memory.size());
    for (std::byte *earlier : allocated)
      ASSERT_TRUE(earlier != piece);
    std::memset(piece, int(allocated.size()), size);
    allocated.push_back(piece);
  }
  EXPECT_GT(allocated.size(), 100u);
  for (size_t i = 0; i < allocated.size(); i++)
    EXPECT_EQ(*allocated[i], std::byte(i));
}

TEST(area, what_is_released_joins_again) {
  std::vector<std::byte> memory(64 << 10);
  auto const pieces = make(memory);
  size_t const initial_free = pieces->free_size();
  for (int round = 0; round < 3; round++) {
    std::vector<void *> allocated;
    while (void *const piece = pieces->allocate(1000))
      allocated.push_back(piece);
    EXPECT_LT(pieces->free_size(), 2000u);
    for (size_t i = 0; i < allocated.size(); i += 2)
      pieces->release(allocated[i]);
    EXPECT_EQ(pieces->allocate(2000), nullptr);  // no two free neighbours
    for (size_t i = 1; i < allocated.size(); i += 2)
      pieces->release(allocated[i]);
    EXPECT_EQ(pieces->free_size(), initial_free);
    void *const largest = pieces->allocate(60 << 10);
    ASSERT_NE(largest, nullptr);
    pieces->release(largest);
  }
}

TEST(area, sizes_that_nobody_has) {
  std::vector<std::byte> memory(4096);
  auto const pieces = make(memory);
  EXPECT_EQ(pieces->allocate(size_t{1} << 40), nullptr);
  EXPECT_EQ(pieces->allocate(~size_t{0} - 64), nullptr);
}

}  // namespace
}  // namespace tanada::backends
