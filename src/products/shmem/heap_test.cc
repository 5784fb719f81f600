// Tests of the allocator of the symmetric heap.
#include "products/shmem/heap.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tanada::shmem {
namespace {

class heap_test : public testing::Test {
 protected:
  static constexpr size_t size = 64 * 1024;
  alignas(symmetric_heap::large_page) static inline std::byte memory[size];
  symmetric_heap heap{memory};
};

TEST_F(heap_test, no_bytes_are_no_piece) {
  EXPECT_EQ(heap.allocate(0), nullptr);
}

TEST_F(heap_test, pieces_share_no_cache_line) {
  auto *const first = static_cast<std::byte *>(heap.allocate(1)), *const two =
                                                                      static_cast<std::byte *>(
                                                                          heap.allocate(1));
  EXPECT_EQ(two - first, ptrdiff_t(symmetric_heap::granule));
}

TEST_F(heap_test, alignments_are_kept_or_refused) {
  ASSERT_NE(heap.allocate(1), nullptr);
  for (size_t alignment = 1; alignment < size; alignment *= 2) {
    void *const block = heap.allocate(8, alignment);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
    EXPECT_TRUE(heap.release(block));
  }
  EXPECT_EQ(heap.allocate(8, 2 * symmetric_heap::large_page), nullptr);
  EXPECT_EQ(heap.allocate(8, 48), nullptr);
}

TEST_F(heap_test, nothing_is_lost_by_asking_for_too_much) {
  EXPECT_EQ(heap.allocate(size + 1), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.free_size(), size);
  void *const whole = heap.allocate(size);
  EXPECT_EQ(whole, memory);
  EXPECT_EQ(heap.allocate(1), nullptr);
  EXPECT_TRUE(heap.release(whole));
  EXPECT_EQ(heap.free_size(), size);
}

TEST_F(heap_test, only_pieces_are_taken_back) {
  auto *const piece = static_cast<std::byte *>(heap.allocate(100));
  EXPECT_FALSE(heap.release(piece + 1));
  EXPECT_FALSE(heap.release(memory + size));
  EXPECT_FALSE(heap.release(&heap));
  EXPECT_TRUE(heap.release(piece));
  EXPECT_FALSE(heap.release(piece));
}

TEST_F(heap_test, stray_writes_break_no_books) {
  std::vector<void *> pieces;
  for (int i = 0; i < 10; i++)
    pieces.push_back(heap.allocate(1000));
  std::fill(std::begin(memory), std::end(memory), std::byte{0xff});
  for (void *const block : pieces)
    EXPECT_TRUE(heap.release(block));
  EXPECT_EQ(heap.free_size(), size);
  EXPECT_EQ(heap.allocate(size), memory);
}

TEST_F(heap_test, a_piece_grows_where_there_is_room_behind_it) {
  void *const first = heap.allocate(64);
  void *const two = heap.allocate(64);
  EXPECT_FALSE(heap.resize(first, 65));
  EXPECT_EQ(heap.size_of(first), 64u);
  EXPECT_TRUE(heap.resize(two, 4096));
  EXPECT_EQ(heap.size_of(two), 4096u);
  EXPECT_TRUE(heap.resize(two, 10));
  EXPECT_EQ(heap.size_of(two), 64u);
  EXPECT_FALSE(heap.resize(two, 0));
  EXPECT_FALSE(heap.resize(two, SIZE_MAX));
}

// All PEs rely on this: the address depends only on the calls.
TEST_F(heap_test, equal_calls_give_equal_places) {
  alignas(symmetric_heap::large_page) static std::byte other_memory[size];
  symmetric_heap other_heap{other_memory};
  std::vector<std::pair<void *, void *>> pieces;
  uint64_t random = 1;
  for (int i = 0; i < 5000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    if (pieces.size() > 20 || (random >> 60) < 6) {
      if (pieces.empty())
        continue;
      auto const index = (random >> 33) % pieces.size();
      EXPECT_TRUE(heap.release(pieces[index].first) && other_heap.release(pieces[index].second));
      pieces.erase(pieces.begin() + ptrdiff_t(index));
      continue;
    }
    size_t const bytes = (random >> 33) % 9000, alignment = size_t{1} << ((random >> 50) % 13);
    void *const first = heap.allocate(bytes, alignment), *const two =
                                                             other_heap.allocate(bytes, alignment);
    ASSERT_EQ(first == nullptr, two == nullptr);
    if (first == nullptr)
      continue;
    ASSERT_EQ(static_cast<std::byte *>(first) - memory,
              static_cast<std::byte *>(two) - other_memory);
    pieces.emplace_back(first, two);
  }
  for (auto const &[first, two] : pieces)
    EXPECT_TRUE(heap.release(first) && other_heap.release(two));
  EXPECT_EQ(heap.free_size(), size);
}

}  // namespace
}  // namespace tanada::shmem
