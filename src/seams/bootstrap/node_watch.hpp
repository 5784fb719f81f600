// seams/bootstrap/node_watch.hpp: sees at once when a process of this node ends, whether or not the
// launcher tells.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"

namespace tanada::port {

struct watched_process {
  int32_t rank;
  int64_t process;      // its number, in the process namespace of who watches
  int descriptor = -1;  // the watch's own
};

struct node_watch_calls {
  std::function<bool(int32_t rank)> has_left;  // of one that has ended: in good order?
  std::function<void(int32_t rank)> lose;      // of one that has not; once
};

// A thread that sleeps until a process ends. Where the system cannot watch processes, it watches
// nothing.
class node_watch {
 public:
  node_watch() = default;
  ~node_watch();
  node_watch(const node_watch &) = delete;
  node_watch &operator=(const node_watch &) = delete;

  // Once. Both calls are made by start(), look() or the watch's thread, one at a time.
  void start(std::vector<watched_process> watched, node_watch_calls calls);

  // Handle ends until now, without waiting for the thread. A process whose connections have been
  // closed by its end counts, even if the system is not through with it. By any thread.
  void look();

 private:
  void run();
  void end(int32_t rank);

  mutex mutex_;  // of watched_
  std::vector<watched_process> watched_;
  node_watch_calls calls_;
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace tanada::port
