#include "seams/os/guarded_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace tanada::backends {
namespace {

constexpr size_t page = 4096, page_count = 8, guarded_size = page * page_count;

// A mapped file of eight pages, all 'a', at a multiple of its size.
class guarded : public testing::Test {
 protected:
  void SetUp() override {
    file_ = memfd_create("guarded", MFD_CLOEXEC);
    ASSERT_GE(file_, 0);
    ASSERT_EQ(ftruncate(file_, page * page_count), 0);
    reserved_ = mmap(nullptr, 2 * guarded_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(reserved_, MAP_FAILED);
    uintptr_t const aligned =
        (reinterpret_cast<uintptr_t>(reserved_) + guarded_size - 1) / guarded_size * guarded_size;
    void *const addr = mmap(reinterpret_cast<void *>(aligned),
                            guarded_size,
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED,
                            file_,
                            0);
    ASSERT_NE(addr, MAP_FAILED);
    addr_ = static_cast<std::byte *>(addr);
    std::memset(addr_, 'a', page * page_count);
  }
  void TearDown() override {
    munmap(reserved_, 2 * guarded_size);
    close(file_);
  }
  void cut(size_t pages) {
    ASSERT_EQ(ftruncate(file_, off_t(pages * page)), 0);
  }
  char byte_of(size_t index) const {
    return char(addr_[index * page]);
  }

  int file_ = -1;
  void *reserved_ = nullptr;
  std::byte *addr_ = nullptr;
};

TEST_F(guarded, what_was_cut_off_reads_as_zeros_and_is_noted) {
  auto created = seams::guarded_memory::guard(addr_, page * page_count);
  ASSERT_TRUE(created.ok());
  seams::guarded_memory &guard = *created.value();
  EXPECT_EQ(guard.replaced_count(), 0u);
  cut(5);
  errno = 7;
  EXPECT_EQ(byte_of(6), 0);
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(guard.replaced_count(), 1u);
  std::memset(addr_ + 5 * page, 'b', page);  // a store
  EXPECT_EQ(byte_of(5), 'b');
  EXPECT_EQ(guard.replaced_count(), 2u);
  for (size_t i = 0; i < page_count; i++)
    EXPECT_EQ(guard.is_replaced(i), i == 5 || i == 6) << i;
  for (size_t i = 0; i < 5; i++)
    EXPECT_EQ(byte_of(i), 'a') << i;
}

TEST_F(guarded, a_system_call_gets_a_fault_there) {
  auto created = seams::guarded_memory::guard(addr_, page * page_count);
  ASSERT_TRUE(created.ok());
  cut(1);
  int const zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(zero, 0);
  EXPECT_EQ(read(zero, addr_ + 2 * page, page), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(read(zero, addr_, page), ssize_t(page));
  close(zero);
}

TEST_F(guarded, a_granule_of_several_pages_is_replaced_as_a_whole) {
  auto created = seams::guarded_memory::guard(addr_, page * page_count, 2 * page);
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created.value()->granule(), 2 * page);
  cut(5);
  EXPECT_EQ(byte_of(5), 0);
  EXPECT_EQ(byte_of(4), 0) << "it was intact, and is in the same granule";
  EXPECT_EQ(byte_of(3), 'a');
  EXPECT_EQ(created.value()->replaced_count(), 1u);
  for (size_t i = 0; i < page_count / 2; i++)
    EXPECT_EQ(created.value()->is_replaced(i), i == 2) << i;
}

// As the kernel does for a load of poisoned bytes.
TEST_F(guarded, memory_that_has_lost_its_bytes_is_replaced) {
  auto created = seams::guarded_memory::guard(addr_, page * page_count);
  ASSERT_TRUE(created.ok());
  siginfo_t about{};
  about.si_signo = SIGBUS;
  about.si_code = BUS_MCEERR_AR;
  about.si_addr = addr_ + 3 * page + 17;
  ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &about), 0);
  EXPECT_EQ(byte_of(3), 0);
  EXPECT_TRUE(created.value()->is_replaced(3));
  EXPECT_EQ(created.value()->replaced_count(), 1u);
}

TEST_F(guarded, many_threads_may_run_into_it) {
  auto created = seams::guarded_memory::guard(addr_, page * page_count);
  ASSERT_TRUE(created.ok());
  cut(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      for (size_t k = 0; k < page_count; k++)
        EXPECT_EQ(byte_of(k), 0);
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(created.value()->replaced_count(), page_count);
}

TEST_F(guarded, entries_are_used_again) {
  for (size_t i = 0; i < 3 * seams::guarded_memory_count_max; i++)
    ASSERT_TRUE(seams::guarded_memory::guard(addr_, page * page_count).ok());
  std::vector<std::unique_ptr<seams::guarded_memory>> held;
  for (size_t i = 0; i < seams::guarded_memory_count_max; i++) {
    auto created = seams::guarded_memory::guard(addr_, page * page_count);
    ASSERT_TRUE(created.ok());
    held.push_back(std::move(created).value());
  }
  EXPECT_EQ(seams::guarded_memory::guard(addr_, page * page_count).error(), status::no_space);
}

using guarded_death = guarded;

TEST_F(guarded_death, other_memory_still_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto made = seams::guarded_memory::guard(addr_, page * 2);
        cut(1);
        [[maybe_unused]] volatile char const read = byte_of(5);
      },
      "");
}

}  // namespace
}  // namespace tanada::backends
