// products/comex/heap/allocator_test.cc: heap allocation, memory accounting and classification of
// callers.
#include "products/comex/heap/allocator.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "products/comex/heap/callers.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::comex::heap {
namespace {

constexpr size_t megabyte = size_t{1} << 20;

struct counting_account final : memory_account {
  bool reserve_memory(size_t size) override {
    reserved += size;
    return reserved <= reserve_max;
  }
  void return_memory(size_t size) noexcept override {
    returned += size;
  }
  void pages_discarded(size_t offset, size_t size) noexcept override {
    discarded.emplace_back(offset, size);
  }

  size_t reserved = 0, returned = 0, reserve_max = SIZE_MAX;
  std::vector<std::pair<size_t, size_t>> discarded;
};

class heap_pieces : public testing::Test {
 protected:
  seams::shared_memory shared =
      std::move(seams::shared_memory::create("pieces", 16 * megabyte)).value();
  seams::shared_mapping mapping =
      std::move(seams::shared_mapping::map(shared.descriptor(), 16 * megabyte)).value();
  allocator heap{mapping.memory()};

  bool is_in_memory(const void *page) const {
    unsigned char is_there = 0;
    auto const page_address =
        reinterpret_cast<uintptr_t>(page) / seams::page_size() * seams::page_size();
    EXPECT_EQ(mincore(reinterpret_cast<void *>(page_address), seams::page_size(), &is_there), 0);
    return (is_there & 1) != 0;
  }
};

TEST_F(heap_pieces, grow_where_they_are_or_are_refused) {
  auto *const piece = static_cast<char *>(heap.allocate(1000));
  EXPECT_EQ(heap.size_of(piece), 1024u);
  EXPECT_TRUE(heap.resize(piece, 5000));
  void *next = heap.allocate(64, 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(next) % 4096, 0u);
  EXPECT_FALSE(heap.resize(piece, megabyte));
  EXPECT_EQ(heap.size_of(piece), 5056u);
  EXPECT_EQ(heap.size_of(piece + 64), 0u);
  EXPECT_TRUE(heap.has(piece + 64));
  EXPECT_FALSE(heap.has(&next));
  EXPECT_FALSE(heap.release(static_cast<void *>(&next)));
}

TEST_F(heap_pieces, a_keeper_is_asked_and_told) {
  counting_account account;
  heap.set_account(&account);
  account.reserve_max = 3 * megabyte;
  void *const piece = heap.allocate(2 * megabyte);
  EXPECT_EQ(heap.allocate(2 * megabyte), nullptr);
  std::memset(piece, 1, 2 * megabyte);
  EXPECT_TRUE(heap.release(piece));
  ASSERT_EQ(account.discarded.size(), 1u);
  EXPECT_EQ(account.discarded[0].second, 2 * megabyte);
  EXPECT_FALSE(is_in_memory(piece));
  EXPECT_EQ(account.returned, 2 * megabyte);
  account.reserve_max = SIZE_MAX;
  void *const first = heap.allocate(64);
  EXPECT_EQ(heap.allocate(15 * megabyte, 16 * megabyte), nullptr);  // no range has that alignment
  EXPECT_EQ(heap.allocate(16 * megabyte + 1), nullptr);
  EXPECT_EQ(account.returned, 17 * megabyte);
  auto *const two = heap.allocate(3000);
  EXPECT_TRUE(heap.resize(two, 1000));
  EXPECT_TRUE(heap.resize(two, 9000));
  EXPECT_FALSE(heap.resize(two, 0));
  EXPECT_TRUE(heap.release(two));
  EXPECT_TRUE(heap.release(first));
  EXPECT_EQ(account.reserved, account.returned + 2 * megabyte);
}

TEST_F(heap_pieces, what_is_cleared_is_zeros_to_its_edges) {
  auto *const block = static_cast<char *>(heap.allocate(megabyte));
  for (auto const &[offset, size] :
       {std::pair<size_t, size_t>{100, 300000}, {4096, 8192}, {5000, 100}, {0, 4095}}) {
    std::memset(block, 7, megabyte);
    heap.clear(block + offset, size);
    EXPECT_EQ(size_t(std::count(block, block + megabyte, 0)), size);
    EXPECT_TRUE(
        std::all_of(block + offset, block + offset + size, [](char each) { return each == 0; }));
  }
}

TEST_F(heap_pieces, threads_have_pieces_of_their_own) {
  std::vector<std::thread> threads;
  for (char fill = 1; fill <= 4; fill++) {
    threads.emplace_back([this, fill] {
      for (size_t i = 0; i < 2000; i++) {
        size_t const size = 64 + i * 37 % 9000;
        auto *const piece = static_cast<char *>(heap.allocate(size));
        ASSERT_NE(piece, nullptr);
        std::memset(piece, fill, size);
        ASSERT_TRUE(std::all_of(piece, piece + size, [=](char each) { return each == fill; }));
        ASSERT_TRUE(heap.release(piece));
      }
    });
  }
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(heap.free_size(), heap.size());
}

TEST(heap_callers, mpi_and_the_system_are_known_by_their_files) {
  EXPECT_TRUE(is_system_library("/usr/lib/x86_64-linux-gnu/libmpi.so.40"));
  EXPECT_TRUE(is_system_library("/usr/lib/openmpi/mca_btl_vader.so"));
  EXPECT_TRUE(is_system_library("libfabric.so.1"));
  EXPECT_TRUE(is_system_library("/lib/x86_64-linux-gnu/libc.so.6"));
  EXPECT_TRUE(is_system_library("/opt/lib/libcomex.so.0"));
  EXPECT_FALSE(is_system_library("/usr/lib/libga.so.1"));
  EXPECT_FALSE(is_system_library("/usr/lib/libmp/libstdc++.so.6"));
  EXPECT_FALSE(is_system_library(""));
}

TEST(heap_callers, this_program_is_not_the_system) {
  EXPECT_FALSE(is_system_code(reinterpret_cast<const void *>(&is_system_library)));
  // The dynamic linker's address, because the program may use its own for the function.
  EXPECT_TRUE(is_system_code(dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
  int on_stack = 0;
  EXPECT_FALSE(is_system_code(&on_stack));
}

}  // namespace
}  // namespace tanada::comex::heap
