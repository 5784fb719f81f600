// core/base/mutex.hpp: the standard library's locks with clang's thread-safety annotations.
//
// TND_GUARDED_BY marks a member that a mutex guards. TND_REQUIRES marks a function whose caller
// must hold the mutex. `make lint` compiles the tree with clang's -Wthread-safety, which reports
// accesses without the lock as errors. GCC ignores the annotations.
//
// A mutex records its owner. TND_ASSERT(mutex.is_held()) checks at run time what the annotations
// state for the compiler, for functions that the analysis cannot follow.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "core/base/assert.hpp"

#if defined(__clang__)
#  define TND_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#  define TND_THREAD_ANNOTATION(attribute)
#endif

#define TND_CAPABILITY(name) TND_THREAD_ANNOTATION(capability(name))
#define TND_SCOPED_CAPABILITY TND_THREAD_ANNOTATION(scoped_lockable)
#define TND_GUARDED_BY(lock) TND_THREAD_ANNOTATION(guarded_by(lock))
#define TND_PT_GUARDED_BY(lock) TND_THREAD_ANNOTATION(pt_guarded_by(lock))
#define TND_REQUIRES(...) TND_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TND_REQUIRES_SHARED(...) TND_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define TND_ACQUIRE(...) TND_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TND_ACQUIRE_SHARED(...) TND_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define TND_RELEASE(...) TND_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TND_RELEASE_SHARED(...) TND_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define TND_RELEASE_GENERIC(...) TND_THREAD_ANNOTATION(release_generic_capability(__VA_ARGS__))
#define TND_TRY_ACQUIRE(...) TND_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TND_TRY_ACQUIRE_SHARED(...) \
  TND_THREAD_ANNOTATION(try_acquire_shared_capability(__VA_ARGS__))
#define TND_EXCLUDES(...) TND_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TND_ASSERT_HELD(...) TND_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
#define TND_RETURN_CAPABILITY(lock) TND_THREAD_ANNOTATION(lock_returned(lock))
// Each use needs a comment that explains why the analysis cannot follow the function.
#define TND_NO_THREAD_SAFETY_ANALYSIS TND_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace tanada {

// A std::mutex that records which thread holds it.
class TND_CAPABILITY("mutex") mutex {
 public:
  constexpr mutex() = default;
  mutex(const mutex &) = delete;
  mutex &operator=(const mutex &) = delete;

  void lock() TND_ACQUIRE() {
    native_.lock();
    set_owner();
  }
  bool try_lock() TND_TRY_ACQUIRE(true) {
    if (!native_.try_lock())
      return false;
    set_owner();
    return true;
  }
  void unlock() TND_RELEASE() {
    clear_owner();
    native_.unlock();
  }

  // Whether the calling thread holds it.
  bool is_held() const noexcept {
    return owner_.load(std::memory_order_relaxed) == this_thread();
  }

  // For functions that the analysis sees without their callers, such as the predicate of a wait.
  void assert_held() const TND_ASSERT_HELD() {
    TND_ASSERT(is_held());
  }

  // For the classes below, which keep the owner current.
  std::mutex &native() noexcept TND_RETURN_CAPABILITY(this) {
    return native_;
  }
  void set_owner() noexcept {
    owner_.store(this_thread(), std::memory_order_relaxed);
  }
  void clear_owner() noexcept {
    owner_.store(nullptr, std::memory_order_relaxed);
  }

 private:
  // Unlike std::this_thread::get_id(), it needs no call and leaves the constructor constexpr.
  static const void *this_thread() noexcept {
    return __builtin_thread_pointer();
  }

  std::mutex native_;
  std::atomic<const void *> owner_{nullptr};
};

class TND_CAPABILITY("shared_mutex") shared_mutex {
 public:
  shared_mutex() = default;
  shared_mutex(const shared_mutex &) = delete;
  shared_mutex &operator=(const shared_mutex &) = delete;

  void lock() TND_ACQUIRE() {
    native_.lock();
  }
  bool try_lock() TND_TRY_ACQUIRE(true) {
    return native_.try_lock();
  }
  void unlock() TND_RELEASE() {
    native_.unlock();
  }
  void lock_shared() TND_ACQUIRE_SHARED() {
    native_.lock_shared();
  }
  bool try_lock_shared() TND_TRY_ACQUIRE_SHARED(true) {
    return native_.try_lock_shared();
  }
  void unlock_shared() TND_RELEASE_SHARED() {
    native_.unlock_shared();
  }

 private:
  std::shared_mutex native_;
};

// Holds a mutex, or the exclusive side of a shared mutex, until the end of the scope.
template <class Mutex>
class TND_SCOPED_CAPABILITY lock_guard {
 public:
  explicit lock_guard(Mutex &held) TND_ACQUIRE(held) : mutex_{held} {
    mutex_.lock();
  }
  lock_guard(Mutex &held, std::adopt_lock_t) TND_REQUIRES(held) : mutex_{held} {}
  ~lock_guard() TND_RELEASE() {
    mutex_.unlock();
  }
  lock_guard(const lock_guard &) = delete;
  lock_guard &operator=(const lock_guard &) = delete;

 private:
  Mutex &mutex_;
};

// Holds the shared side of a shared mutex. It can be released before the end of the scope.
template <class Mutex>
class TND_SCOPED_CAPABILITY shared_lock {
 public:
  explicit shared_lock(Mutex &held) TND_ACQUIRE_SHARED(held) : mutex_{&held} {
    mutex_->lock_shared();
  }
  ~shared_lock() TND_RELEASE_GENERIC() {
    if (is_locked_)
      mutex_->unlock_shared();
  }
  shared_lock(const shared_lock &) = delete;
  shared_lock &operator=(const shared_lock &) = delete;

  void lock() TND_ACQUIRE_SHARED() {
    mutex_->lock_shared();
    is_locked_ = true;
  }
  void unlock() TND_RELEASE_GENERIC() {
    is_locked_ = false;
    mutex_->unlock_shared();
  }

 private:
  Mutex *mutex_;
  bool is_locked_ = true;
};

// Holds a mutex; it can be unlocked, locked again, moved, and used to wait on a condition_variable.
// The analysis follows scopes, not values. A function that returns a lock, or tries to lock with
// one, needs TND_NO_THREAD_SAFETY_ANALYSIS. A function that unlocks the lock of its caller takes it
// by reference and needs TND_REQUIRES.
template <class Mutex>
class TND_SCOPED_CAPABILITY unique_lock {
 public:
  explicit unique_lock(Mutex &held) TND_ACQUIRE(held) : mutex_{&held} {
    mutex_->lock();
    is_locked_ = true;
  }
  unique_lock(Mutex &held, std::adopt_lock_t) TND_REQUIRES(held)
      : mutex_{&held}, is_locked_{true} {}
  ~unique_lock() TND_RELEASE() {
    if (is_locked_)
      mutex_->unlock();
  }
  unique_lock() noexcept = default;
  unique_lock(Mutex &held, std::try_to_lock_t) : mutex_{&held}, is_locked_{held.try_lock()} {}
  unique_lock(unique_lock &&source) noexcept
      : mutex_{std::exchange(source.mutex_, nullptr)},
        is_locked_{std::exchange(source.is_locked_, false)} {}
  unique_lock &operator=(unique_lock &&) = delete;

  void lock() TND_ACQUIRE() {
    mutex_->lock();
    is_locked_ = true;
  }
  void unlock() TND_RELEASE() {
    is_locked_ = false;
    mutex_->unlock();
  }
  bool try_lock() TND_TRY_ACQUIRE(true) {
    is_locked_ = mutex_->try_lock();
    return is_locked_;
  }
  bool owns_lock() const noexcept {
    return is_locked_;
  }
  explicit operator bool() const noexcept {
    return is_locked_;
  }
  Mutex &held() const noexcept {
    return *mutex_;
  }

 private:
  Mutex *mutex_ = nullptr;
  bool is_locked_ = false;
};

// std::condition_variable for these locks. A predicate runs with the mutex held, which the analysis
// cannot know. A predicate that reads guarded members therefore begins with mutex.assert_held().
class condition_variable {
 public:
  void notify_one() noexcept {
    native_.notify_one();
  }
  void notify_all() noexcept {
    native_.notify_all();
  }

  void wait(unique_lock<mutex> &lock) {
    adopted_lock const held{lock.held()};
    native_.wait(held.native);
  }
  template <class Predicate>
  void wait(unique_lock<mutex> &lock, Predicate predicate) {
    while (!predicate())
      wait(lock);
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(unique_lock<mutex> &lock,
                            const std::chrono::time_point<Clock, Duration> &deadline) {
    adopted_lock const held{lock.held()};
    return native_.wait_until(held.native, deadline);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(unique_lock<mutex> &lock,
                  const std::chrono::time_point<Clock, Duration> &deadline,
                  Predicate predicate) {
    while (!predicate()) {
      if (wait_until(lock, deadline) == std::cv_status::timeout)
        return predicate();
    }
    return true;
  }
  template <class Rep, class Period>
  std::cv_status wait_for(unique_lock<mutex> &lock,
                          const std::chrono::duration<Rep, Period> &timeout) {
    adopted_lock const held{lock.held()};
    return native_.wait_for(held.native, timeout);
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(unique_lock<mutex> &lock,
                const std::chrono::duration<Rep, Period> &timeout,
                Predicate predicate) {
    adopted_lock const held{lock.held()};
    return native_.wait_for(held.native, timeout, [&] { return held.test(predicate); });
  }

 private:
  // Adapts the lock of the caller to the standard library for the duration of one wait.
  struct adopted_lock {
    explicit adopted_lock(mutex &held) : owner{held}, native{held.native(), std::adopt_lock} {
      owner.clear_owner();
    }
    ~adopted_lock() {
      native.release();
      owner.set_owner();
    }
    adopted_lock(const adopted_lock &) = delete;
    adopted_lock &operator=(const adopted_lock &) = delete;

    template <class Predicate>
    bool test(Predicate &predicate) const {
      owner.set_owner();
      bool const is_true = predicate();
      owner.clear_owner();
      return is_true;
    }

    mutex &owner;
    mutable std::unique_lock<std::mutex> native;
  };
  std::condition_variable native_;
};

}  // namespace tanada
