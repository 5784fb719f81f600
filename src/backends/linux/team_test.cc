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

namespace tanada::backends {
namespace {

unsigned three_idle_processors() {
  return 3;
}
unsigned no_idle_processors() {
  return 0;
}

TEST(team, does_each_once) {
  seams::team helpers{3, three_idle_processors};
  for (uint32_t count : {0u, 1u, 2u, 7u, 1000u}) {
    std::vector<int> done(
        count, 0);  // not atomic: a body that runs twice or late is a race, which TSan reports
    helpers.run(count, [&](uint32_t i) { done[i]++; });
    for (int const run_count : done)
      ASSERT_EQ(run_count, 1);
  }
}

TEST(team, waits_for_a_helper_that_is_slow) {
  seams::team helpers{1, three_idle_processors};
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
  seams::team helpers{3, three_idle_processors};
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> thread_ids;
  // Each of the four bodies waits until all have started, so there must be four threads.
  bool all_came = true;
  helpers.run(4, [&](uint32_t) {
    std::unique_lock lock{mutex};
    thread_ids.insert(std::this_thread::get_id());
    changed.notify_all();
    if (!changed.wait_for(lock, std::chrono::seconds{20}, [&] { return thread_ids.size() == 4; }))
      all_came = false;
  });
  EXPECT_TRUE(all_came);
}

TEST(team, asks_nobody_for_help_that_is_busy) {
  seams::team helpers{3, no_idle_processors};
  std::set<std::thread::id> thread_ids;
  helpers.run(100, [&](uint32_t) { thread_ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(thread_ids, std::set{std::this_thread::get_id()});
}

TEST(team, a_second_loop_meanwhile_is_its_callers_alone) {
  seams::team helpers{3, three_idle_processors};
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
  seams::team helpers{1, three_idle_processors};
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
  auto helpers = std::make_unique<seams::team>(3, three_idle_processors);
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
    cpu_set_t single;
    CPU_ZERO(&single);
    CPU_SET(sched_getcpu(), &single);
    ASSERT_EQ(sched_setaffinity(0, sizeof single, &single), 0);
    counted = seams::idle_processor_count();
  }}.join();
  EXPECT_EQ(counted, 0u);
}

}  // namespace
}  // namespace tanada::backends
