#include "onesided/swap/own_faults.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <set>

#include "seams/os/shared_memory.hpp"

namespace tanada::comex::swap {
namespace {

// Memory of which each page that is touched comes with its number in it.
struct own_faults_test : testing::Test {
  static constexpr uint32_t count = 256;

  void SetUp() override {
    auto made = port::shared_memory::create("test", count * page_size);
    ASSERT_TRUE(made.ok());
    memory.emplace(std::move(made).value());
    mine = static_cast<std::byte *>(mmap(nullptr, count * page_size, PROT_READ | PROT_WRITE,
                                         MAP_SHARED, memory->descriptor(), 0));
    written = written_pages::create({mine, count * page_size});
    if (!written->is_exact() || written->touches() < 0)
      GTEST_SKIP() << "the system does not let touches be seen";
    faults.emplace(
        *written, std::span{mine, count * page_size}, stored,
        [this](uint32_t page) { return touched(page); }, [] { FAIL(); });
  }
  void TearDown() override {
    faults.reset();
    written.reset();
    munmap(mine, count * page_size);
  }

  // As others write it: not by this mapping.
  void bring(uint32_t page) {
    std::vector<uint32_t> const content(page_size / sizeof(uint32_t), page);
    ASSERT_EQ(pwrite(memory->descriptor(), content.data(), page_size, off_t(page * page_size)),
              ssize_t(page_size));
  }
  status touched(uint32_t page) {
    {
      std::lock_guard const lock{mutex};
      seen.insert(page);
    }
    if (page >= never_written)
      return faults->give(page);
    if (!is_here)
      bring(page);
    return faults->give(page);
  }
  std::multiset<uint32_t> touches() {
    std::lock_guard const lock{mutex};
    return seen;
  }
  volatile uint32_t &word(uint32_t page) {
    return *reinterpret_cast<volatile uint32_t *>(mine + page * page_size);
  }

  static constexpr uint32_t never_written = 200;
  std::optional<port::shared_memory> memory;
  std::byte *mine = nullptr;
  std::unique_ptr<written_pages> written;
  std::vector<page_bits::word> words = std::vector<page_bits::word>(page_bits::word_count(count));
  page_bits stored{words.data(), count};
  std::mutex mutex;
  std::multiset<uint32_t> seen;
  std::atomic<bool> is_here{false};
  std::optional<own_faults> faults;
};

TEST_F(own_faults_test, pages_come_when_they_are_touched) {
  ASSERT_TRUE(faults->watch());
  EXPECT_EQ(word(7), 7u);
  EXPECT_EQ(word(7), 7u);
  word(9) = 1;
  EXPECT_EQ(word(201), 0u);
  EXPECT_EQ(touches(), (std::multiset<uint32_t>{7, 9, 201}));
}

TEST_F(own_faults_test, pages_in_memory_are_touched_too_when_they_were_taken) {
  ASSERT_TRUE(faults->watch());
  bring(3);  // for others
  is_here = true;
  EXPECT_EQ(word(3), 3u);
  word(3) = 30;
  faults->take(3);
  EXPECT_EQ(word(3), 30u);
  EXPECT_EQ(touches().count(3), 2u);
}

TEST_F(own_faults_test, calls_of_the_system_touch) {
  ASSERT_TRUE(faults->watch());
  int const zeros = open("/dev/zero", O_RDWR);
  EXPECT_EQ(read(zeros, mine + 5 * page_size, 4), 4);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], mine + 6 * page_size, 4), 4);
  uint32_t got = 0;
  EXPECT_EQ(read(ends[0], &got, sizeof got), ssize_t(sizeof got));
  EXPECT_EQ(got, 6u);
  EXPECT_EQ(word(5), 0u);
  EXPECT_EQ(*(&word(5) + 1), 5u);
  for (int const each : {zeros, ends[0], ends[1]})
    close(each);
}

TEST_F(own_faults_test, when_all_came_back_nobody_waits_and_writes_are_known) {
  ASSERT_TRUE(faults->watch());
  EXPECT_EQ(word(1), 1u);
  for (uint32_t page = 2; page < 100; page++)
    bring(page);
  stored.set({0, 100});
  stored.clear({1, 1});
  faults->arm();
  faults->give_all();
  EXPECT_EQ(word(50), 50u);
  word(60) = 0;
  word(180) = 0;
  EXPECT_EQ(touches(), (std::multiset<uint32_t>{1}));
  written->collect(stored, count);
  EXPECT_TRUE(stored.test(50));
  EXPECT_FALSE(stored.test(60));
  EXPECT_EQ(stored.count_set({0, count}), 98u);
}

// A thread that runs on while another's touch brings all: between the end of the one watch and the
// start of the other.
TEST_F(own_faults_test, what_is_in_the_page_table_before_it_is_protected_counts_as_written) {
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

// Blocks that are always written are in no watched range; touches of them are seen while the memory
// is away all the same.
TEST_F(own_faults_test, blocks_that_are_always_written_come_when_they_are_touched) {
  constexpr uint32_t more = 3 * 512;
  auto made = port::shared_memory::create("test", more * page_size);
  ASSERT_TRUE(made.ok());
  auto const file = std::move(made).value();
  auto *const all = static_cast<std::byte *>(
      mmap(nullptr, more * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0));
  auto watch = written_pages::create({all, more * page_size});
  std::vector<page_bits::word> bits(page_bits::word_count(more));
  page_bits const known{bits.data(), more};
  std::atomic<uint32_t> touched_count{0};
  std::optional<own_faults> own;
  own.emplace(
      *watch, std::span{all, more * page_size}, known,
      [&](uint32_t page) {
        touched_count++;
        return own->give(page);
      },
      [] { FAIL(); });
  for (int round = 0; round < 8; round++) {
    ASSERT_TRUE(own->watch());
    ASSERT_EQ(madvise(all, more * page_size, MADV_DONTNEED), 0);  // of the page table alone
    uint32_t const before = touched_count;
    all[700 * page_size] = std::byte(round);
    EXPECT_EQ(touched_count, before + 1) << round;
    page_bits{known}.set({0, more});
    own->arm();
    own->give_all();
    for (uint32_t page = 512; page < 1024; page++)
      all[page * page_size + 1] = std::byte(round);
    all[5 * page_size] = std::byte(round);
    watch->collect(known, more);
    EXPECT_FALSE(known.test(5));
    EXPECT_EQ(known.count_set({512, 512}), 0u) << round;
    EXPECT_TRUE(known.test(6));
  }
  own.reset();
  watch.reset();
  munmap(all, more * page_size);
}

}  // namespace
}  // namespace tanada::comex::swap
