// Tests of write tracking, with a real userfaultfd where the kernel has it.
#include "onesided/swap/written_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "seams/os/shared_memory.hpp"

namespace tanada::onesided::swap {
namespace {

struct written_pages_test : testing::Test {
  static constexpr uint32_t count = 1024;

  void SetUp() override {
    auto created = seams::shared_memory::create("test", count * page_size);
    ASSERT_TRUE(created.ok());
    memory.emplace(std::move(created).value());
    mapped = map();
    std::memset(mapped, 1, count * page_size);
    watch = written_pages::create({mapped, count * page_size});
  }
  void TearDown() override {
    watch.reset();
    munmap(mapped, count * page_size);
  }
  std::byte *map() {
    return static_cast<std::byte *>(mmap(
        nullptr, count * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor(), 0));
  }
  std::byte &page(uint32_t index) {
    return mapped[index * page_size];
  }
  void rearm() {
    stored.set({0, count});
    watch->arm(stored, count);
  }

  std::optional<seams::shared_memory> memory;
  std::byte *mapped = nullptr;
  std::unique_ptr<written_pages> watch;
  std::vector<page_bits::word> words = std::vector<page_bits::word>(page_bits::word_count(count));
  page_bits stored{words.data(), count};
};

#define SKIP_UNLESS_EXACT() \
  if (!watch->is_exact())   \
  GTEST_SKIP() << watch->reason()

TEST_F(written_pages_test, are_those_that_were_written) {
  SKIP_UNLESS_EXACT();
  rearm();
  page(3) = std::byte{7};
  for (uint32_t i = 100; i < 130; i++)
    page(i) = std::byte{7};
  volatile std::byte const read = page(50);
  (void)read;
  watch->collect(stored, count);
  for (uint32_t i = 0; i < count; i++) {
    ASSERT_EQ(stored.test(i), i != 3 && (i < 100 || i >= 130)) << i;
  }
  page(200) = std::byte{7};
  watch->collect(stored, count);
  EXPECT_FALSE(stored.test(200));
  EXPECT_TRUE(stored.test(201));
}

TEST_F(written_pages_test, the_system_writes_too) {
  SKIP_UNLESS_EXACT();
  rearm();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  ASSERT_EQ(read(ends[0], &page(9), 1), 1);
  close(ends[0]);
  close(ends[1]);
  watch->collect(stored, count);
  EXPECT_FALSE(stored.test(9));
  EXPECT_EQ(stored.count_set(), count - 1);
}

// Pages that another mapping filled again were not written by their owner.
TEST_F(written_pages_test, memory_that_went_and_came_back_is_clean) {
  SKIP_UNLESS_EXACT();
  std::byte *const second_mapping = map();
  for (int time = 0; time < 2; time++) {
    rearm();
    watch->collect(stored, count);
    EXPECT_EQ(stored.count_set(), count);
    ASSERT_EQ(madvise(second_mapping, count * page_size, MADV_REMOVE), 0);
    std::memset(second_mapping, 5, count * page_size);
  }
  rearm();
  EXPECT_EQ(page(8), std::byte{5});
  page(8) = std::byte{6};
  watch->collect(stored, count);
  EXPECT_EQ(stored.count_set(), count - 1);
  munmap(second_mapping, count * page_size);
}

TEST_F(written_pages_test, pages_that_are_not_stored_are_not_watched) {
  SKIP_UNLESS_EXACT();
  stored.set({10, 10});
  watch->arm(stored, count);
  page(12) = std::byte{1};
  page(30) = std::byte{1};
  watch->collect(stored, count);
  EXPECT_EQ(stored.count_set(), 9u);
  EXPECT_FALSE(stored.test(12));
}

TEST_F(written_pages_test, blocks_that_are_always_written_are_spared) {
  SKIP_UNLESS_EXACT();
  auto const live = [&](bool writes) {
    rearm();
    uint32_t const watched = stored.count_set();
    for (uint32_t i = 0; writes && i < count / 2; i++)
      page(i) = std::byte{9};
    watch->collect(stored, count);
    return watched;
  };
  EXPECT_EQ(live(true), count);
  EXPECT_EQ(live(false), count);  // not always
  EXPECT_EQ(live(true), count);
  EXPECT_EQ(live(true), count);
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(live(true), count / 2) << i;
  }
  EXPECT_EQ(live(false), count);  // watched again
  EXPECT_EQ(stored.count_set(), count);
  // Blocks that are full again are spared for longer.
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(live(true), count) << i;
  }
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(live(true), count / 2) << i;
  }
  EXPECT_EQ(live(true), count);
  for (int i = 0; i < 8; i++) {
    EXPECT_EQ(live(true), count / 2) << i;
  }
  EXPECT_EQ(live(true), count);
  // A page written while nobody watches never counts as stored.
  rearm();
  page(5) = std::byte{7};
  watch->collect(stored, count);
  EXPECT_FALSE(stored.test(5));
}

// Memory that one object watches cannot be watched by another.
TEST_F(written_pages_test, without_the_system_all_pages_count_as_written) {
  SKIP_UNLESS_EXACT();
  auto const second = written_pages::create({mapped, count * page_size});
  EXPECT_FALSE(second->is_exact());
  EXPECT_NE(second->reason(), "");
  stored.set({0, count});
  second->collect(stored, count / 2);
  EXPECT_EQ(stored.count_set(), count / 2);
  second->arm(stored, count);
  EXPECT_EQ(stored.count_set(), 0u);
}

// Two periods without a touch make a page cold. What a second collect() sees belongs to the same
// period.
TEST_F(written_pages_test, pages_are_cold_when_they_were_not_touched_twice) {
  SKIP_UNLESS_EXACT();
  std::vector<page_bits::word> cold_words(page_bits::word_count(count));
  page_bits cold{cold_words.data(), count};
  auto const touch_until = [&](uint32_t end) {
    ASSERT_EQ(madvise(mapped, count * page_size, MADV_DONTNEED), 0);
    rearm();
    for (uint32_t i = 0; i < end; i++)
      (void)*const_cast<volatile std::byte *>(&page(i));
    for (int times = 0; times < 2; times++) {
      watch->collect(stored, count);
      watch->find_cold(cold, stored, count);
    }
  };
  touch_until(0);
  EXPECT_EQ(cold.count_set(), 0u);
  touch_until(100);
  EXPECT_EQ(cold.count_set(), count - 100);
  touch_until(10);
  EXPECT_EQ(cold.count_set(), count - 100);
  EXPECT_EQ(cold.find(true, 0, count), 100u);
  touch_until(10);
  EXPECT_EQ(cold.count_set(), count - 10);
  stored.clear({500, 1});
  watch->find_cold(cold, stored, count);
  EXPECT_FALSE(cold.test(500));
}

}  // namespace
}  // namespace tanada::onesided::swap
