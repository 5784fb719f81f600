// products/o2g/handover_lock.hpp: a lock with deferred work: a caller that must not wait hands its
// work to the holder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::o2g {

// Deferred work runs under the lock, in the order of each caller. It runs before the lock is free,
// and before anything that the same caller does under the lock later.
//
// A caller that defers work and then finds the lock held relies on the holder, which checks for
// work after it has released the lock. For this reason accesses to `state_`, `waiting_count_` and
// `newest_` are sequentially consistent, except the checks in run_jobs() and is_locked().
//
// A holder that has run job_count_max jobs accepts no more. Otherwise callers that defer work
// faster than it runs would occupy the holder without end.
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
    TND_ASSERT(!is_locked() && waiting_count_.load() == 0);
    delete_all(newest_.load());
  }
  handover_lock(const handover_lock &) = delete;
  handover_lock &operator=(const handover_lock &) = delete;

  void lock() noexcept {
    if (!try_acquire()) {
      waiting_count_.fetch_add(1);
      while (!try_acquire()) {
        state const observed = state_.load();
        if (observed != state::free)
          state_.wait(observed);
      }
      waiting_count_.fetch_sub(1);
    }
    run_jobs_after_acquire();
  }

  bool try_lock() noexcept {
    if (!try_acquire())
      return false;
    run_jobs_after_acquire();
    return true;
  }

  void unlock() noexcept {
    TND_ASSERT(is_locked());
    uint32_t run_count = 0;
    do {
      run_jobs(run_count);
      state_.store(state::free);
      if (waiting_count_.load() != 0)
        state_.notify_one();
    } while (newest_.load() != nullptr && try_acquire());
  }

  // Runs `work`, or hands it to the holder, which runs it before the lock is free. Never waits.
  // False: too many jobs are deferred, or the holder accepts no more; the caller keeps `work`.
  // `ignore_limits`: never returns false.
  bool defer(std::unique_ptr<job> &work, bool ignore_limits = false) noexcept {
    TND_ASSERT(work != nullptr);
    if (state_.load() == state::held_closed && !ignore_limits)
      return false;
    if (job_count_.fetch_add(1) >= job_count_max && !ignore_limits) {
      job_count_.fetch_sub(1);
      return false;
    }
    job *const deferred = work.release();
    deferred->older_ = newest_.load();
    while (!newest_.compare_exchange_weak(deferred->older_, deferred))
      continue;
    if (try_acquire())
      unlock();
    return true;
  }

  // Whether a thread holds the lock, for assertions in the code that it protects.
  bool is_locked() const noexcept {
    return state_.load(std::memory_order_relaxed) != state::free;
  }

  // Whether other threads wait for the lock or have deferred work: the holder should release it
  // soon.
  bool is_contended() const noexcept {
    return waiting_count_.load() != 0 || newest_.load() != nullptr;
  }

 private:
  enum class state : int {  // a size that the kernel can wait on
    free,
    held,
    held_closed,  // the holder accepts no more work
  };

  bool try_acquire() noexcept {
    state expected = state::free;
    return state_.load() == state::free && state_.compare_exchange_strong(expected, state::held);
  }

  void run_jobs_after_acquire() noexcept {
    uint32_t run_count = 0;
    run_jobs(run_count);
    if (run_count >= job_count_max)
      state_.store(state::held);
  }

  // `run_count`: the number of jobs that this call of the holder has run.
  void run_jobs(uint32_t &run_count) noexcept {
    TND_ASSERT(is_locked());
    while (newest_.load(std::memory_order_relaxed) != nullptr) {
      job *next = reversed(newest_.exchange(nullptr));
      while (next != nullptr) {
        if (++run_count >= job_count_max)
          state_.store(state::held_closed);
        std::unique_ptr<job> const current{std::exchange(next, next->older_)};
        current->run();
        uint32_t const count_before = job_count_.fetch_sub(1);
        TND_ASSERT(count_before != 0);
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
