// onesided/swap/residence.hpp: a process's side of the board: where it waits, and how it reaches
// the memory of others.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "onesided/swap/access_queue.hpp"
#include "onesided/swap/need_history.hpp"

namespace tanada::comex::swap {

// Of a process that runs while its memory is away: who touches a page waits until it is given. See
// own_faults.hpp.
class absent_pages {
 public:
  virtual ~absent_pages() = default;
  virtual bool watch() = 0;                // from now on; false: it cannot be
  virtual status give(uint32_t page) = 0;  // it is in DRAM, or was never touched. What the system
                                           // says, with a message
  virtual void take(uint32_t page) = 0;    // who touches it after that waits once more
  // All came back, in place of own_memory::arm(): what other threads of the process write meanwhile
  // is known, too. Those who wait go on after give_all().
  virtual void arm() = 0;
  virtual void give_all() = 0;
};

// What a process does with its own memory; see written_pages.hpp.
struct own_memory {
  std::function<void()>
      collect;  // clear in `stored` what was written since the last time, and watch for more
  std::function<void()> arm;       // watch, after all of it came back
  std::function<uint64_t()> here;  // bytes in DRAM
  absent_pages *absent = nullptr;  // null: this process never runs without its memory
};

// Thread safety: one thread at a time, but for what says otherwise.
class residence {
 public:
  // `stored`: of all ranks; both outlive it.
  residence(board &shared, uint32_t rank, std::span<page_bits> stored, own_memory mine);

  // Before and after everything else. start: it runs when this returns.
  status start(int32_t process_id);
  void finish();

  // Around a wait, in this order: leave(), attend() about each millisecond and when rung, enter().
  // Between leave() and enter() nothing of swappable memory is touched, unless it is `held` or
  // `served`. They nest: an inner pair does nothing. enter: running, and its memory is whole;
  // peer_lost or io when the board has failed, with its text as the message.
  void leave(wait_kind kind);
  void attend();
  status enter();
  bool is_in() const noexcept {
    return depth_ == 0;
  }

  // Where own_memory::absent is there, a process whose memory is away when its wait is over goes on
  // without: a page that it touches comes by itself, and when it touches many, all of it. Many
  // waits follow one another with nothing in between but some variables looked at. The board has it
  // as swapped meanwhile.
  bool is_bare() const noexcept {
    return is_bare_.load(std::memory_order_acquire);
  }
  // All of its memory is here when this returns, before something is done with it that pages that
  // come one by one are no good for; then what enter() says. Any thread.
  status be_whole() {
    if (is_bare())
      return come_back();
    if (!is_needed_.load(std::memory_order_relaxed))
      is_needed_.store(true, std::memory_order_relaxed);
    return status::ok;
  }
  void never_bare();              // from now on; any thread
  status touched(uint32_t page);  // somebody waits for this page of its own. One thread, which is
                                  // none that touches

  // For calls that programs repeat without ever waiting: makes way if asked to. Cheap.
  status offer() {
    return shared_.is_asked(rank_) ? make_way() : status::ok;
  }

  // Before memory is allocated, and after it is given back. no_memory, with a message: the budget
  // is less than that. Waits for room as `kind`.
  status reserve(uint64_t bytes, wait_kind kind = wait_kind::others);
  void release(uint64_t bytes) {
    shared_.release(rank_, bytes);
  }

  // As access_queue's, by who is whole.
  template <class Part>
  bool try_direct(uint32_t target, bool is_writing, std::span<const extent> extents, Part &&part) {
    TND_ASSERT(!is_bare());
    return asks_.try_direct(target, is_writing, extents, std::forward<Part>(part));
  }

  // Begins what is to be done: at once where the memory is here. False: it is under way, and what
  // it uses stays the caller's until complete().
  bool begin(access what);
  // All that was begun is done. Waits as `served`: this process's own memory stays.
  status complete();
  bool is_complete() const noexcept {
    return asks_.is_empty();
  }
  void poll() {
    asks_.poll();
  }  // never waits

  board &shared() noexcept {
    return shared_;
  }
  uint32_t rank() const noexcept {
    return rank_;
  }

 private:
  // Timeouts of waits that the agent ends by an alarm: a lost alarm delays a rank by no more.
  static constexpr uint64_t sleep_ns = 1'000'000, queue_sleep_ns = 10'000'000;

  status make_way();
  bool go_bare();
  status come_back();
  status come_back_locked();
  bool leave_bare();
  void return_lent();
  void learn(uint64_t here);

  board &shared_;
  uint32_t const rank_;
  std::span<page_bits> stored_;
  own_memory mine_;
  uint32_t depth_ = 0;
  access_queue asks_;

  // Pages of its own that it has while it is bare.
  struct lent {
    request *from;
    std::vector<uint32_t> given;
  };
  std::atomic<bool> is_bare_{false};  // changed with the mutex, which guards these
  std::mutex bare_;
  bool can_be_bare_ = true;
  need_history needs_;  // memory that comes at once does so in larger pieces than what is touched
  bool has_come_back_ = false;
  std::vector<lent> lent_;

  std::atomic<bool> is_needed_{false};  // all of it, since it was there; any thread
  uint64_t came_ns_ = 0;                // since when it runs
};

}  // namespace tanada::comex::swap
