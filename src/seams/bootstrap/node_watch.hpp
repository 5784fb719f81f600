// seams/bootstrap/node_watch.hpp: detects at once when a process of this node ends, whether or not
// the launcher reports it.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"

namespace tanada::seams {

struct watched_process {
  int32_t rank;
  int64_t process;      // its ID, in the process namespace of the watching process
  int descriptor = -1;  // owned by the watch
};

struct node_watch_calls {
  std::function<bool(int32_t rank)> has_departed;  // whether one that ended did so in good order
  std::function<void(int32_t rank)> on_failure;    // called once for one that did not
};

// A thread that sleeps until a process ends. If the system cannot watch processes, it watches
// nothing.
class node_watch {
 public:
  node_watch() = default;
  ~node_watch();
  node_watch(const node_watch &) = delete;
  node_watch &operator=(const node_watch &) = delete;

  // To be called once. start(), check() or the watch's thread make both calls, one at a time.
  void start(std::vector<watched_process> watched, node_watch_calls calls);

  // Handles all ends so far, without waiting for the thread. A process whose end has closed its
  // connections counts, even if the system has not finished with it. Any thread.
  void check();

 private:
  void run();
  void end(int32_t rank);

  mutex mutex_;  // guards watched_
  std::vector<watched_process> watched_;
  node_watch_calls calls_;
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace tanada::seams
