// products/poold/log/store_io.hpp: store operations with a callback for each completion.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "seams/clock/clock.hpp"
#include "seams/store/store.hpp"

namespace tanada::pool {

// Used by one thread at a time. The caller must bound the number of posted operations: those that
// the store's queue cannot take are kept here.
class store_io {
 public:
  using completion = seams::store_completion;
  using done_function = std::function<void(const completion &)>;

  store_io(std::unique_ptr<seams::store_queue> queue, seams::clock &clock, uint64_t timeout_ns)
      : queue_{std::move(queue)}, clock_{clock}, timeout_ns_{timeout_ns} {}

  // Start an operation. `done` is called exactly once, from a later poll(), unless this object is
  // destroyed before. The deadline is set here.
  void post(seams::store_op op, done_function done);

  // Run the callbacks of completed operations. Returns their number.
  size_t poll();

  bool is_idle() const noexcept {
    return running_.empty() && waiting_.empty();
  }

  // Post an operation and wait for it. No other operation may be outstanding.
  completion perform(seams::store_op op);

 private:
  void post_waiting();

  std::unordered_map<uint64_t, done_function> running_;  // by op_id
  std::deque<std::pair<seams::store_op, done_function>> waiting_;
  std::deque<std::pair<uint64_t, status>> rejected_;
  std::unique_ptr<seams::store_queue>
      queue_;  // destroyed before the callbacks, whose memory its operations may use
  seams::clock &clock_;
  uint64_t timeout_ns_, next_id_ = 1;
};

// Make operations on a URL or an open file, or with buffers.
seams::store_op make_url_op(seams::store_op_kind kind,
                            std::string url,
                            seams::store_open_flags flags = {});
seams::store_op make_file_op(seams::store_op_kind kind, seams::store_file file, uint64_t size = 0);
seams::store_op make_transfer_op(seams::store_op_kind kind,
                                 seams::store_file file,
                                 uint64_t offset,
                                 std::vector<seams::store_buffer> buffers);

}  // namespace tanada::pool
