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

namespace tanada::port {

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
  // Three means, then those that run or could, this thread among them, of all that there are.
  long running = 0;
  if (std::sscanf(text, "%*s %*s %*s %ld/", &running) != 1)
    return 0;
  long const idle = sysconf(_SC_NPROCESSORS_ONLN) - std::max(running, 1L);
  return unsigned(std::clamp<long>(idle, 0, allowed_count - 1));
}

struct team::crew {
  ~crew();

  // False: there is not a single helper.
  bool grow(unsigned helper_count);
  void share(uint32_t count, const body &one, unsigned helper_count);
  void help();
  void take_part(const body &one);

  pid_t const owner = getpid();
  std::vector<std::thread> threads;
  std::atomic<uint32_t> next{0};
  uint32_t count = 0;  // of the loop at work; written while nobody is in it

  tanada::mutex mutex;  // guards what follows; never held while a body runs
  condition_variable work, done;
  const body *loop = nullptr;
  unsigned invited = 0, busy = 0;  // helpers that may join the loop, that are in it
  bool stopping = false;
};

team::crew::~crew() {
  {
    lock_guard lock{mutex};
    stopping = true;
  }
  work.notify_all();
  for (std::thread &one : threads)
    one.join();
}

bool team::crew::grow(unsigned helper_count) {
  signals_blocked const blocked;
  while (threads.size() < helper_count) {
    try {
      threads.emplace_back([this] { help(); });
    } catch (const std::system_error &) {
      break;  // no more threads for this process: those that are there must do
    }
  }
  return !threads.empty();
}

void team::crew::share(uint32_t loop_count, const body &one, unsigned helper_count) {
  {
    lock_guard lock{mutex};
    loop = &one;
    count = loop_count;
    invited = helper_count;
    next.store(0, std::memory_order_relaxed);
  }
  for (unsigned i = 0; i < helper_count; i++)
    work.notify_one();
  take_part(one);
  unique_lock lock{mutex};
  invited = 0;
  done.wait(lock, [this] { return busy == 0; });
  loop = nullptr;
}

void team::crew::take_part(const body &one) {
  auto const take = [this] {
    return next.fetch_add(1, std::memory_order_relaxed);
  };
  for (uint32_t i = take(); i < count; i = take())
    one(i);
}

void team::crew::help() {
  // The bodies touch memory of the program's, which may bring it in, or forgive that it is gone, in
  // a handler of its own: a fault while its signal is blocked would end the process.
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  unique_lock lock{mutex};
  for (;;) {
    work.wait(lock, [this] { return stopping || invited > 0; });
    if (stopping)
      return;
    invited--;
    busy++;
    const body &one = *loop;
    lock.unlock();
    take_part(one);
    lock.lock();
    if (--busy == 0)
      done.notify_one();
  }
}

team::team(unsigned helper_count_max, std::function<unsigned()> idle)
    : helper_count_max_{helper_count_max}, idle_{std::move(idle)} {}

team::~team() {
  // In a forked process there are no threads to wait for, and what they wait at can never be taken
  // down.
  if (crew_ != nullptr && crew_->owner != getpid())
    (void)crew_.release();
}

void team::run(uint32_t count, const body &one) {
  unsigned const wanted = count < 2 ? 0 : std::min({helper_count_max_, count - 1, idle_()});
  bool const is_mine = wanted > 0 && !taken_.exchange(true, std::memory_order_acquire);
  if (is_mine && crew_ == nullptr)
    crew_ = std::make_unique<crew>();
  if (is_mine && crew_->owner == getpid() && crew_->grow(wanted))
    crew_->share(count, one, wanted);
  else
    for (uint32_t i = 0; i < count; i++)
      one(i);
  if (is_mine)
    taken_.store(false, std::memory_order_release);
}

}  // namespace tanada::port
