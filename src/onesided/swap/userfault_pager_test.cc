// Tests of the demand-page handler with userfaultfd.
#include "onesided/swap/userfault_pager.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <set>

#include "seams/os/shared_memory.hpp"

namespace tanada::onesided::swap {
namespace {

// Memory in which each page that is touched is brought in with its number as content.
struct userfault_pager_test : testing::Test {
  static constexpr uint32_t count = 256;

  void SetUp() override {
    auto created = seams::shared_memory::create("test", count * page_size);
    ASSERT_TRUE(created.ok());
    memory.emplace(std::move(created).value());
    mapped = static_cast<std::byte *>(mmap(
        nullptr, count * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor(), 0));
    written = written_pages::create({mapped, count * page_size});
    if (!written->is_exact() || written->fault_descriptor() < 0)
      GTEST_SKIP() << "the system does not report page faults";
    faults.emplace(
        *written,
        std::span{mapped, count * page_size},
        stored,
        [this](uint32_t page) { return handle_fault(page); },
        [] { FAIL(); },
        left_out);
    written->set_left_out(left_out);
  }
  void TearDown() override {
    faults.reset();
    written.reset();
    munmap(mapped, count * page_size);
  }

  // As other processes write it: not through this mapping.
  void bring(uint32_t page) {
    std::vector<uint32_t> const content(page_size / sizeof(uint32_t), page);
    ASSERT_EQ(pwrite(memory->descriptor(), content.data(), page_size, off_t(page * page_size)),
              ssize_t(page_size));
  }
  status handle_fault(uint32_t page) {
    {
      std::lock_guard const lock{mutex};
      faults_seen.insert(page);
    }
    if (page >= never_written)
      return faults->grant(page);
    if (!is_present)
      bring(page);
    if (left_out.test(page)) {
      left_out.clear({page, 1});
      faults->resume({page, 1});
      return status::ok;
    }
    return faults->grant(page);
  }
  std::multiset<uint32_t> touches() {
    std::lock_guard const lock{mutex};
    return faults_seen;
  }
  volatile uint32_t &word(uint32_t page) {
    return *reinterpret_cast<volatile uint32_t *>(mapped + page * page_size);
  }

  static constexpr uint32_t never_written = 200;
  std::optional<seams::shared_memory> memory;
  std::byte *mapped = nullptr;
  std::unique_ptr<written_pages> written;
  std::vector<page_bits::word> words = std::vector<page_bits::word>(page_bits::word_count(count));
  page_bits stored{words.data(), count};
  std::vector<page_bits::word> left_out_words =
      std::vector<page_bits::word>(page_bits::word_count(count));
  page_bits left_out{left_out_words.data(), count};
  std::mutex mutex;
  std::multiset<uint32_t> faults_seen;
  std::atomic<bool> is_present{false};
  std::optional<userfault_pager> faults;
};

TEST_F(userfault_pager_test, pages_come_when_they_are_touched) {
  ASSERT_TRUE(faults->watch());
  EXPECT_EQ(word(7), 7u);
  EXPECT_EQ(word(7), 7u);
  word(9) = 1;
  EXPECT_EQ(word(201), 0u);
  EXPECT_EQ(touches(), (std::multiset<uint32_t>{7, 9, 201}));
}

TEST_F(userfault_pager_test, pages_in_memory_are_touched_too_when_they_were_taken) {
  ASSERT_TRUE(faults->watch());
  bring(3);  // for others
  is_present = true;
  EXPECT_EQ(word(3), 3u);
  word(3) = 30;
  faults->revoke(3);
  EXPECT_EQ(word(3), 30u);
  EXPECT_EQ(touches().count(3), 2u);
}

TEST_F(userfault_pager_test, calls_of_the_system_touch) {
  ASSERT_TRUE(faults->watch());
  int const zeros = open("/dev/zero", O_RDWR);
  EXPECT_EQ(read(zeros, mapped + 5 * page_size, 4), 4);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], mapped + 6 * page_size, 4), 4);
  uint32_t got = 0;
  EXPECT_EQ(read(ends[0], &got, sizeof got), ssize_t(sizeof got));
  EXPECT_EQ(got, 6u);
  EXPECT_EQ(word(5), 0u);
  EXPECT_EQ(*(&word(5) + 1), 5u);
  for (int const descriptor : {zeros, ends[0], ends[1]})
    close(descriptor);
}

TEST_F(userfault_pager_test, when_all_came_back_nobody_waits_and_writes_are_known) {
  ASSERT_TRUE(faults->watch());
  EXPECT_EQ(word(1), 1u);
  for (uint32_t page = 2; page < 100; page++)
    bring(page);
  stored.set({0, 100});
  stored.clear({1, 1});
  faults->arm();
  faults->grant_all();
  EXPECT_EQ(word(50), 50u);
  word(60) = 0;
  word(180) = 0;
  EXPECT_EQ(touches(), (std::multiset<uint32_t>{1}));
  written->collect(stored, count);
  EXPECT_TRUE(stored.test(50));
  EXPECT_FALSE(stored.test(60));
  EXPECT_EQ(stored.count_set({0, count}), 98u);
}

// Another thread's fault swaps in all pages while a thread runs on, between the end of one watch
// and the start of the other.
TEST_F(userfault_pager_test, what_is_in_the_page_table_before_it_is_protected_counts_as_written) {
  for (uint32_t page = 0; page < 10; page++)
    bring(page);
  stored.set({0, 10});
  word(4) = 0;
  written->arm_among_others(stored, count);
  EXPECT_FALSE(stored.test(4));
  EXPECT_EQ(stored.count_set({0, count}), 9u);
  word(5) = 0;
  written->collect(stored, count);
  EXPECT_FALSE(stored.test(5));
}

// Blocks that are always written are not in a watched range. Faults in them are still reported
// while the process is swapped out.
TEST_F(userfault_pager_test, blocks_that_are_always_written_come_when_they_are_touched) {
  constexpr uint32_t more = 3 * 512;
  auto created = seams::shared_memory::create("test", more * page_size);
  ASSERT_TRUE(created.ok());
  auto const file = std::move(created).value();
  auto *const mapped_bytes = static_cast<std::byte *>(
      mmap(nullptr, more * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0));
  auto watch = written_pages::create({mapped_bytes, more * page_size});
  std::vector<page_bits::word> bits(page_bits::word_count(more));
  page_bits const known{bits.data(), more};
  std::atomic<uint32_t> touched_count{0};
  std::optional<userfault_pager> pager;
  pager.emplace(
      *watch,
      std::span{mapped_bytes, more * page_size},
      known,
      [&](uint32_t page) {
        touched_count++;
        return pager->grant(page);
      },
      [] { FAIL(); });
  for (int round = 0; round < 8; round++) {
    ASSERT_TRUE(pager->watch());
    ASSERT_EQ(madvise(mapped_bytes, more * page_size, MADV_DONTNEED),
              0);  // clears only the page table
    uint32_t const before = touched_count;
    mapped_bytes[700 * page_size] = std::byte(round);
    EXPECT_EQ(touched_count, before + 1) << round;
    page_bits{known}.set({0, more});
    pager->arm();
    pager->grant_all();
    for (uint32_t page = 512; page < 1024; page++)
      mapped_bytes[page * page_size + 1] = std::byte(round);
    mapped_bytes[5 * page_size] = std::byte(round);
    watch->collect(known, more);
    EXPECT_FALSE(known.test(5));
    EXPECT_EQ(known.count_set({512, 512}), 0u) << round;
    EXPECT_TRUE(known.test(6));
  }
  pager.reset();
  watch.reset();
  munmap(mapped_bytes, more * page_size);
}

TEST_F(userfault_pager_test, left_out_pages_come_when_they_are_touched_and_their_writes_are_known) {
  ASSERT_TRUE(faults->can_leave_out());
  for (int round = 0; round < 3; round++) {
    // The second round follows a time without its memory.
    if (round == 1)
      ASSERT_TRUE(faults->watch());
    ASSERT_EQ(madvise(mapped, count * page_size, MADV_REMOVE), 0);
    for (uint32_t page = 0; page < 64; page++)
      bring(page);
    stored.set({0, 128});
    left_out.set({64, 64});
    faults->arm();
    faults->grant_all();
    EXPECT_EQ(word(3), 3u);
    EXPECT_EQ(word(70), 70u);
    word(71) = 1;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], mapped + 72 * page_size, 4), 4);  // the system touches it
    for (int const descriptor : ends)
      close(descriptor);
    EXPECT_EQ(touches(), (std::multiset<uint32_t>{70, 71, 72}));
    faults_seen.clear();
    EXPECT_EQ(word(210), 0u);
    EXPECT_TRUE(touches().empty());
    written->collect(stored, count);
    EXPECT_TRUE(stored.test(70) && stored.test(72) && stored.test(100));
    EXPECT_FALSE(stored.test(71));
    EXPECT_EQ(left_out.count_set(), 61u);
    left_out.clear({0, count});
  }
}

}  // namespace
}  // namespace tanada::onesided::swap
