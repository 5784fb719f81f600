#include "seams/os/team.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace tanada::port {
namespace {

unsigned three() {
  return 3;
}
unsigned none() {
  return 0;
}

TEST(team, does_each_once) {
  team helpers{3, three};
  for (uint32_t count : {0u, 1u, 2u, 7u, 1000u}) {
    std::vector<int> done(
        count, 0);  // no atomics: a body that ran twice, or late, is a race that TSan tells, too
    helpers.run(count, [&](uint32_t i) { done[i]++; });
    for (int const one : done)
      ASSERT_EQ(one, 1);
  }
}

TEST(team, waits_for_a_helper_that_is_slow) {
  team helpers{1, three};
  std::thread::id const caller = std::this_thread::get_id();
  std::mutex mutex;
  std::condition_variable changed;
  bool has_begun = false, has_ended = false;
  helpers.run(2, [&](uint32_t) {
    std::unique_lock lock{mutex};
    if (std::this_thread::get_id() == caller) {
      changed.wait_for(lock, std::chrono::seconds{20}, [&] { return has_begun; });
      return;
    }
    has_begun = true;
    changed.notify_all();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    lock.lock();
    has_ended = true;
  });
  std::lock_guard lock{mutex};
  EXPECT_TRUE(has_begun && has_ended);
}

TEST(team, shares_the_loop) {
  team helpers{3, three};
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> who;
  // Each of four bodies waits for all of them to have begun: so there must be four threads.
  bool all_came = true;
  helpers.run(4, [&](uint32_t) {
    std::unique_lock lock{mutex};
    who.insert(std::this_thread::get_id());
    changed.notify_all();
    if (!changed.wait_for(lock, std::chrono::seconds{20}, [&] { return who.size() == 4; }))
      all_came = false;
  });
  EXPECT_TRUE(all_came);
}

TEST(team, asks_nobody_for_help_that_is_busy) {
  team helpers{3, none};
  std::set<std::thread::id> who;
  helpers.run(100, [&](uint32_t) { who.insert(std::this_thread::get_id()); });
  EXPECT_EQ(who, std::set{std::this_thread::get_id()});
}

TEST(team, a_second_loop_meanwhile_is_its_callers_alone) {
  team helpers{3, three};
  std::atomic<int> inner{0};
  helpers.run(8, [&](uint32_t) {
    std::thread::id const caller = std::this_thread::get_id();
    helpers.run(10, [&](uint32_t) { inner += std::this_thread::get_id() == caller ? 1 : 1000; });
  });
  EXPECT_EQ(inner.load(), 80);
}

std::byte *hidden_page = nullptr;

void show_page(int) {
  (void)mprotect(hidden_page, 4096, PROT_READ | PROT_WRITE);
}

TEST(team, a_fault_in_a_helper_is_the_programs_to_handle) {
  hidden_page =
      static_cast<std::byte *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(hidden_page, MAP_FAILED);
  struct sigaction shows{}, before{};
  shows.sa_handler = show_page;
  ASSERT_EQ(sigaction(SIGSEGV, &shows, &before), 0);
  std::mutex mutex;
  std::condition_variable changed;
  bool has_touched = false;
  team helpers{1, three};
  std::thread::id const caller = std::this_thread::get_id();
  helpers.run(2, [&](uint32_t) {
    bool const is_caller = std::this_thread::get_id() == caller;
    if (!is_caller)
      *const_cast<volatile std::byte *>(hidden_page) = std::byte{7};
    std::unique_lock lock{mutex};
    if (is_caller)
      changed.wait_for(lock, std::chrono::seconds{20}, [&] { return has_touched; });
    else {
      has_touched = true;
      changed.notify_all();
    }
  });
  EXPECT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
  std::lock_guard lock{mutex};
  EXPECT_TRUE(has_touched && *hidden_page == std::byte{7});
  munmap(hidden_page, 4096);
}

TEST(team, a_forked_process_neither_waits_for_helpers_nor_gets_any) {
  auto helpers = std::make_unique<team>(3, three);
  helpers->run(8, [](uint32_t) {});
  pid_t const child = fork();
  if (child == 0) {
    alarm(20);
    int done = 0;
    helpers->run(8, [&](uint32_t) { done++; });
    helpers.reset();
    _exit(done == 8 ? 0 : 1);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
}

TEST(team, a_thread_with_one_processor_has_no_idle_ones) {
  unsigned counted = 99;
  std::thread{[&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    counted = idle_processor_count();
  }}.join();
  EXPECT_EQ(counted, 0u);
}

}  // namespace
}  // namespace tanada::port
