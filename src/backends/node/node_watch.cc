// Watching the processes of a node for their end.
#include "seams/bootstrap/node_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::seams {
namespace {

constexpr int ending_ms_max = 1'000;  // from closing its files to the end of a process

// The kernel closes a process's files some time before it reports the process's end, so other
// processes may notice the closed connection first. From then on the process's record in /proc
// shows it: the state Z, or PF_EXITING among its flags.
bool is_ending(int64_t process) {
  constexpr unsigned exiting = 0x4;
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(process));
  int const file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  ssize_t const size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0)
    return false;
  text[size] = 0;
  // The process's name precedes the state. It may contain anything, but ends at the last
  // parenthesis.
  const char *const after_name = std::strrchr(text, ')');
  char state = 0;
  unsigned flags = 0;
  bool const is_read =
      after_name != nullptr &&
      std::sscanf(after_name + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2;
  return is_read && (state == 'Z' || state == 'X' || (flags & exiting) != 0);
}

}  // namespace

void node_watch::start(std::vector<watched_process> watched, node_watch_calls calls) {
  TND_ASSERT(!thread_.joinable() && watched_.empty());
  calls_ = std::move(calls);
  TND_ASSERT(calls_.has_departed && calls_.on_failure);
  for (auto &entry : watched) {
    // pidfd_open sets close-on-exec.
    entry.descriptor = int(syscall(SYS_pidfd_open, pid_t(entry.process), 0u));
    if (entry.descriptor >= 0)
      watched_.push_back(entry);
    else if (errno == ESRCH)
      end(entry.rank);  // it ended before it could be watched
    else
      log(log_level::debug, "rank {} is not watched: {}", entry.rank, std::strerror(errno));
  }
  if (watched_.empty())
    return;
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0)
    return;
  // The program's threads handle all signals.
  sigset_t all_signals, before;
  sigfillset(&all_signals);
  pthread_sigmask(SIG_SETMASK, &all_signals, &before);
  thread_ = std::thread{[this] {
    run();
  }};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

node_watch::~node_watch() {
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  if (wake_ >= 0)
    close(wake_);
  for (auto const &entry : watched_)
    close(entry.descriptor);
}

void node_watch::end(int32_t rank) {
  if (!calls_.has_departed(rank))
    calls_.on_failure(rank);
}

void node_watch::run() {
  for (;;) {
    std::vector<pollfd> polled{{wake_, POLLIN, 0}};
    {
      lock_guard const lock{mutex_};
      for (auto const &entry : watched_)
        polled.push_back({entry.descriptor, POLLIN, 0});
    }
    if (poll(polled.data(), polled.size(), -1) > 0 && polled[0].revents != 0)
      return;
    check();
  }
}

void node_watch::check() {
  lock_guard const lock{mutex_};
  for (size_t i = watched_.size(); i-- > 0;) {
    TND_ASSERT(watched_[i].descriptor >= 0);
    pollfd polled{watched_[i].descriptor, POLLIN, 0};
    if (poll(&polled, 1, is_ending(watched_[i].process) ? ending_ms_max : 0) <= 0)
      continue;
    int32_t const rank = watched_[i].rank;
    close(watched_[i].descriptor);
    watched_.erase(watched_.begin() + ptrdiff_t(i));
    end(rank);
  }
}

}  // namespace tanada::seams
