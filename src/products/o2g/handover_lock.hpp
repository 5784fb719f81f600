// products/o2g/handover_lock.hpp: a lock that callers who must not wait pass: they leave their work
// to its holder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::o2g {

// Work that is left runs under the lock, in the order of each caller, before the lock is free and
// before anything that the same caller does under the lock later. A caller who leaves work and then
// finds the lock held relies on its holder, who looks for work after it has released the lock. So
// accesses to `state_`, `waiting_count_` and `newest_` are sequentially consistent, except the look
// in run_jobs(). A holder who has run job_count_max jobs takes no more: callers who leave work
// faster than it runs would otherwise keep the holder for ever.
class handover_lock {
 public:
  class job {
   public:
    virtual ~job() = default;
    virtual void run() noexcept = 0;

   private:
    friend class handover_lock;
    job *older_ = nullptr;
  };
  static constexpr uint32_t job_count_max = 4096;

  handover_lock() = default;
  ~handover_lock() {
    delete_all(newest_.load());
  }
  handover_lock(const handover_lock &) = delete;
  handover_lock &operator=(const handover_lock &) = delete;

  void lock() noexcept {
    if (!take()) {
      waiting_count_.fetch_add(1);
      while (!take()) {
        state const seen = state_.load();
        if (seen != state::free)
          state_.wait(seen);
      }
      waiting_count_.fetch_sub(1);
    }
    run_jobs_of_taker();
  }

  bool try_lock() noexcept {
    if (!take())
      return false;
    run_jobs_of_taker();
    return true;
  }

  void unlock() noexcept {
    uint32_t run_count = 0;
    do {
      run_jobs(run_count);
      state_.store(state::free);
      if (waiting_count_.load() != 0)
        state_.notify_one();
    } while (newest_.load() != nullptr && take());
  }

  // Never waits. `work` has run when this returns, or runs before the lock is free. False: too much
  // is left already, or the holder takes no more, and `work` is kept by the caller. `must` passes
  // both.
  bool leave(std::unique_ptr<job> &work, bool must = false) noexcept {
    TND_ASSERT(work != nullptr);
    if (state_.load() == state::held_closed && !must)
      return false;
    if (job_count_.fetch_add(1) >= job_count_max && !must) {
      job_count_.fetch_sub(1);
      return false;
    }
    job *const left = work.release();
    left->older_ = newest_.load();
    while (!newest_.compare_exchange_weak(left->older_, left))
      continue;
    if (take())
      unlock();
    return true;
  }

  // Whether others want the lock, or have left work: the holder should be quick.
  bool is_wanted() const noexcept {
    return waiting_count_.load() != 0 || newest_.load() != nullptr;
  }

 private:
  enum class state : int {  // of a size that the kernel can wait on
    free,
    held,
    held_closed,  // the holder takes no more work
  };

  bool take() noexcept {
    state expected = state::free;
    return state_.load() == state::free && state_.compare_exchange_strong(expected, state::held);
  }

  void run_jobs_of_taker() noexcept {
    uint32_t run_count = 0;
    run_jobs(run_count);
    if (run_count >= job_count_max)
      state_.store(state::held);
  }

  // The lock is held. `run_count`: how many jobs this call of the holder has run.
  void run_jobs(uint32_t &run_count) noexcept {
    while (newest_.load(std::memory_order_relaxed) != nullptr) {
      job *next = reversed(newest_.exchange(nullptr));
      while (next != nullptr) {
        if (++run_count >= job_count_max)
          state_.store(state::held_closed);
        std::unique_ptr<job> const current{std::exchange(next, next->older_)};
        current->run();
        job_count_.fetch_sub(1);
      }
    }
  }

  static job *reversed(job *newest) noexcept {
    job *oldest = nullptr;
    while (newest != nullptr) {
      job *const older = std::exchange(newest->older_, oldest);
      oldest = std::exchange(newest, older);
    }
    return oldest;
  }

  static void delete_all(job *newest) noexcept {
    while (newest != nullptr)
      delete std::exchange(newest, newest->older_);
  }

  std::atomic<state> state_ = state::free;
  std::atomic<uint32_t> waiting_count_ = 0;
  std::atomic<uint32_t> job_count_ = 0;
  std::atomic<job *> newest_ = nullptr;
};

}  // namespace tanada::o2g
