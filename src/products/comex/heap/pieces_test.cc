#include "products/comex/heap/pieces.hpp"

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

struct counting_keeper final : keeper {
  bool make_room(size_t size) override {
    asked += size;
    return asked <= most;
  }
  void room_back(size_t size) noexcept override {
    back += size;
  }
  void forget(size_t offset, size_t size) noexcept override {
    forgotten.emplace_back(offset, size);
  }

  size_t asked = 0, back = 0, most = SIZE_MAX;
  std::vector<std::pair<size_t, size_t>> forgotten;
};

class heap_pieces : public testing::Test {
 protected:
  port::shared_memory shared =
      std::move(port::shared_memory::create("pieces", 16 * megabyte)).value();
  port::shared_mapping mapping =
      std::move(port::shared_mapping::map(shared.descriptor(), 16 * megabyte)).value();
  pieces heap{mapping.memory()};

  bool is_in_memory(const void *page) const {
    unsigned char is_there = 0;
    auto const at = reinterpret_cast<uintptr_t>(page) / port::page_size() * port::page_size();
    EXPECT_EQ(mincore(reinterpret_cast<void *>(at), port::page_size(), &is_there), 0);
    return (is_there & 1) != 0;
  }
};

TEST_F(heap_pieces, grow_where_they_are_or_are_refused) {
  auto *const one = static_cast<char *>(heap.allocate(1000));
  EXPECT_EQ(heap.size_of(one), 1024u);
  EXPECT_TRUE(heap.resize(one, 5000));
  void *next = heap.allocate(64, 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(next) % 4096, 0u);
  EXPECT_FALSE(heap.resize(one, megabyte));
  EXPECT_EQ(heap.size_of(one), 5056u);
  EXPECT_EQ(heap.size_of(one + 64), 0u);
  EXPECT_TRUE(heap.has(one + 64));
  EXPECT_FALSE(heap.has(&next));
  EXPECT_FALSE(heap.release(static_cast<void *>(&next)));
}

TEST_F(heap_pieces, a_keeper_is_asked_and_told) {
  counting_keeper who;
  heap.keeper_set(&who);
  who.most = 3 * megabyte;
  void *const one = heap.allocate(2 * megabyte);
  EXPECT_EQ(heap.allocate(2 * megabyte), nullptr);
  std::memset(one, 1, 2 * megabyte);
  EXPECT_TRUE(heap.release(one));
  ASSERT_EQ(who.forgotten.size(), 1u);
  EXPECT_EQ(who.forgotten[0].second, 2 * megabyte);
  EXPECT_FALSE(is_in_memory(one));
  EXPECT_EQ(who.back, 2 * megabyte);
  who.most = SIZE_MAX;
  void *const first = heap.allocate(64);
  EXPECT_EQ(heap.allocate(15 * megabyte, 16 * megabyte), nullptr);  // there is no such place
  EXPECT_EQ(heap.allocate(16 * megabyte + 1), nullptr);
  EXPECT_EQ(who.back, 17 * megabyte);
  auto *const two = heap.allocate(3000);
  EXPECT_TRUE(heap.resize(two, 1000));
  EXPECT_TRUE(heap.resize(two, 9000));
  EXPECT_FALSE(heap.resize(two, 0));
  EXPECT_TRUE(heap.release(two));
  EXPECT_TRUE(heap.release(first));
  EXPECT_EQ(who.asked, who.back + 2 * megabyte);
}

TEST_F(heap_pieces, what_is_cleared_is_zeros_to_its_edges) {
  auto *const all = static_cast<char *>(heap.allocate(megabyte));
  for (auto const &[offset, size] :
       {std::pair<size_t, size_t>{100, 300000}, {4096, 8192}, {5000, 100}, {0, 4095}}) {
    std::memset(all, 7, megabyte);
    heap.clear(all + offset, size);
    EXPECT_EQ(size_t(std::count(all, all + megabyte, 0)), size);
    EXPECT_TRUE(
        std::all_of(all + offset, all + offset + size, [](char each) { return each == 0; }));
  }
}

TEST_F(heap_pieces, threads_have_pieces_of_their_own) {
  std::vector<std::thread> threads;
  for (char mine = 1; mine <= 4; mine++) {
    threads.emplace_back([this, mine] {
      for (size_t i = 0; i < 2000; i++) {
        size_t const size = 64 + i * 37 % 9000;
        auto *const piece = static_cast<char *>(heap.allocate(size));
        ASSERT_NE(piece, nullptr);
        std::memset(piece, mine, size);
        ASSERT_TRUE(std::all_of(piece, piece + size, [=](char each) { return each == mine; }));
        ASSERT_TRUE(heap.release(piece));
      }
    });
  }
  for (auto &each : threads)
    each.join();
  EXPECT_EQ(heap.free_size(), heap.size());
}

TEST(heap_callers, mpi_and_the_system_are_known_by_their_files) {
  EXPECT_TRUE(is_name_of_system("/usr/lib/x86_64-linux-gnu/libmpi.so.40"));
  EXPECT_TRUE(is_name_of_system("/usr/lib/openmpi/mca_btl_vader.so"));
  EXPECT_TRUE(is_name_of_system("libfabric.so.1"));
  EXPECT_TRUE(is_name_of_system("/lib/x86_64-linux-gnu/libc.so.6"));
  EXPECT_TRUE(is_name_of_system("/opt/lib/libcomex.so.0"));
  EXPECT_FALSE(is_name_of_system("/usr/lib/libga.so.1"));
  EXPECT_FALSE(is_name_of_system("/usr/lib/libmp/libstdc++.so.6"));
  EXPECT_FALSE(is_name_of_system(""));
}

TEST(heap_callers, this_program_is_not_the_system) {
  EXPECT_FALSE(is_code_of_system(reinterpret_cast<const void *>(&is_name_of_system)));
  // As the linker has it: the program may have an address of its own for it.
  EXPECT_TRUE(is_code_of_system(dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
  int on_stack = 0;
  EXPECT_FALSE(is_code_of_system(&on_stack));
}

}  // namespace
}  // namespace tanada::comex::heap
