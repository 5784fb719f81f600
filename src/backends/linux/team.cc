// backends/linux/team.cc: a loop that idle processors help with.
#include "seams/os/team.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::seams {

unsigned idle_processor_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return 0;
  int const allowed_count = CPU_COUNT(&allowed);
  if (allowed_count < 2)
    return 0;
  int const file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  char text[128];
  ssize_t const size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0)
    return 0;
  text[size] = '\0';
  // The format: three averages, then the runnable threads, including this one, and all threads.
  long running = 0;
  if (std::sscanf(text, "%*s %*s %*s %ld/", &running) != 1)
    return 0;
  long const idle = sysconf(_SC_NPROCESSORS_ONLN) - std::max(running, 1L);
  return unsigned(std::clamp<long>(idle, 0, allowed_count - 1));
}

struct team::helper_set {
  ~helper_set();

  // Returns false if there is no helper.
  bool grow(unsigned helper_count);
  void share(uint32_t count, const body &loop_body, unsigned helper_count);
  void help();
  void take_part(const body &loop_body);

  pid_t const owner = getpid();
  std::vector<std::thread> threads;
  std::atomic<uint32_t> next{0};
  uint32_t count = 0;  // iterations of the current loop; written while no helper is in it

  tanada::mutex mutex;  // never held while a body runs
  condition_variable work, done;
  const body *loop TND_GUARDED_BY(mutex) = nullptr;
  unsigned invited_count TND_GUARDED_BY(mutex) = 0;  // helpers that may join the loop
  unsigned busy_count TND_GUARDED_BY(mutex) = 0;     // helpers in the loop
  bool stopping TND_GUARDED_BY(mutex) = false;
};

team::helper_set::~helper_set() {
  {
    lock_guard lock{mutex};
    stopping = true;
  }
  work.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

bool team::helper_set::grow(unsigned helper_count) {
  signals_blocked const blocked;
  while (threads.size() < helper_count) {
    try {
      threads.emplace_back([this] { help(); });
    } catch (const std::system_error &) {
      break;  // the process cannot create more threads; use the existing ones
    }
  }
  return !threads.empty();
}

void team::helper_set::share(uint32_t loop_count, const body &loop_body, unsigned helper_count) {
  {
    lock_guard lock{mutex};
    TND_ASSERT(loop == nullptr && busy_count == 0 && !stopping);
    loop = &loop_body;
    count = loop_count;
    invited_count = helper_count;
    next.store(0, std::memory_order_relaxed);
  }
  for (unsigned i = 0; i < helper_count; i++)
    work.notify_one();
  take_part(loop_body);
  unique_lock lock{mutex};
  invited_count = 0;
  done.wait(lock, [this] {
    mutex.assert_held();
    return busy_count == 0;
  });
  loop = nullptr;
}

void team::helper_set::take_part(const body &loop_body) {
  auto const take = [this] {
    return next.fetch_add(1, std::memory_order_relaxed);
  };
  for (uint32_t i = take(); i < count; i = take())
    loop_body(i);
}

void team::helper_set::help() {
  // The bodies access the program's memory. The program may handle faults there, to page memory in
  // or to survive its loss. A fault while its signal is blocked would end the process.
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  unique_lock lock{mutex};
  for (;;) {
    work.wait(lock, [this] {
      mutex.assert_held();
      return stopping || invited_count > 0;
    });
    if (stopping)
      return;
    TND_ASSERT(loop != nullptr);
    invited_count--;
    busy_count++;
    const body &loop_body = *loop;
    lock.unlock();
    take_part(loop_body);
    lock.lock();
    TND_ASSERT(busy_count != 0);
    if (--busy_count == 0)
      done.notify_one();
  }
}

team::team(unsigned helper_count_max, std::function<unsigned()> idle)
    : helper_count_max_{helper_count_max}, idle_{std::move(idle)} {
  TND_ASSERT(idle_ != nullptr);
}

team::~team() {
  // A forked process has no helper threads to join, and the condition variables that they wait at
  // cannot be destroyed.
  if (helpers_ != nullptr && helpers_->owner != getpid())
    (void)helpers_.release();
}

void team::run(uint32_t count, const body &loop_body) {
  unsigned const wanted = count < 2 ? 0 : std::min({helper_count_max_, count - 1, idle_()});
  bool const has_crew = wanted > 0 && !is_running_.exchange(true, std::memory_order_acquire);
  if (has_crew && helpers_ == nullptr)
    helpers_ = std::make_unique<helper_set>();
  if (has_crew && helpers_->owner == getpid() && helpers_->grow(wanted))
    helpers_->share(count, loop_body, wanted);
  else
    for (uint32_t i = 0; i < count; i++)
      loop_body(i);
  if (has_crew)
    is_running_.store(false, std::memory_order_release);
}

}  // namespace tanada::seams
