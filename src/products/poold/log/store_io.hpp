// products/poold/log/store_io.hpp: operations of a store with something to do when each is
// complete.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "seams/clock/clock.hpp"
#include "seams/store/store.hpp"

namespace tanada::pool {

// Used by one thread at a time. What is posted must stay bounded by the caller: what the queue has
// no room for waits here.
class store_io {
 public:
  using completion = port::store_completion;
  using done_function = std::function<void(const completion &)>;

  store_io(std::unique_ptr<port::store_queue> queue, port::clock &clock, uint64_t timeout_ns)
      : queue_{std::move(queue)}, clock_{clock}, timeout_ns_{timeout_ns} {}

  // `done` is called once, from a later poll; never when this object is destroyed before. The
  // deadline is set here.
  void post(port::store_op op, done_function done);

  // How many were completed.
  size_t poll();

  bool idle() const noexcept {
    return running_.empty() && waiting_.empty();
  }

  // Post and wait, while nothing else is posted.
  completion perform(port::store_op op);

 private:
  void post_waiting();

  std::unordered_map<uint64_t, done_function> running_;  // by op_id
  std::deque<std::pair<port::store_op, done_function>> waiting_;
  std::deque<std::pair<uint64_t, status>> refused_;
  std::unique_ptr<port::store_queue>
      queue_;  // goes first: what it still runs may use what the others hold
  port::clock &clock_;
  uint64_t timeout_ns_, next_id_ = 1;
};

// Operations by what they need.
port::store_op on_url(port::store_op_kind kind, std::string url, port::store_open_flags flags = {});
port::store_op on_file(port::store_op_kind kind, port::store_file file, uint64_t size = 0);
port::store_op transfer(port::store_op_kind kind, port::store_file file, uint64_t offset,
                        std::vector<port::store_buffer> buffers);

}  // namespace tanada::pool
