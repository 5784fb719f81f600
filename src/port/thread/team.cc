#include "port/thread/team.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "port/store/signals_blocked.hpp"

namespace tanada::port {

unsigned idle_processor_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  int const allowed_count = CPU_COUNT(&allowed);
  if (allowed_count < 2) return 0;
  int const file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];
  ssize_t const size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  // Three means, then those that run or could, this thread among them, of all that there are.
  long running = 0;
  if (std::sscanf(text, "%*s %*s %*s %ld/", &running) != 1) return 0;
  long const idle = sysconf(_SC_NPROCESSORS_ONLN) - std::max(running, 1L);
  return unsigned(std::clamp<long>(idle, 0, allowed_count - 1));
}

team::team(unsigned helper_count_max, std::function<unsigned()> idle)
    : helper_count_max_{helper_count_max}, idle_{std::move(idle)} {}

team::~team() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread &one : threads_) one.join();
}

// False: there is not a single helper.
bool team::start(unsigned helper_count) {
  signals_blocked const blocked;
  while (threads_.size() < helper_count) {
    try {
      threads_.emplace_back([this] { help(); });
    } catch (const std::system_error &) {
      break;  // no more threads for this process: those that are there must do
    }
  }
  return !threads_.empty();
}

void team::run(uint32_t count, const body &one) {
  unsigned const wanted = count < 2 ? 0 : std::min({helper_count_max_, count - 1, idle_()});
  bool const is_mine = wanted > 0 && !taken_.exchange(true, std::memory_order_acquire);
  if (is_mine && start(wanted)) share(count, one, wanted);
  else for (uint32_t i = 0; i < count; i++) one(i);
  if (is_mine) taken_.store(false, std::memory_order_release);
}

void team::share(uint32_t count, const body &one, unsigned helper_count) {
  {
    std::lock_guard lock{mutex_};
    body_ = &one, count_ = count, invited_ = helper_count;
    next_.store(0, std::memory_order_relaxed);
  }
  for (unsigned i = 0; i < helper_count; i++) work_.notify_one();
  take_part(one);
  std::unique_lock lock{mutex_};
  invited_ = 0;
  done_.wait(lock, [this] { return busy_ == 0; });
  body_ = nullptr;
}

void team::take_part(const body &one) {
  for (uint32_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) one(i);
}

void team::help() {
  std::unique_lock lock{mutex_};
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || invited_ > 0; });
    if (stopping_) return;
    invited_--, busy_++;
    const body &one = *body_;
    lock.unlock();
    take_part(one);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace tanada::port
