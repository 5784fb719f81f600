// onesided/job/access_watcher.hpp: a thread that sleeps in an endpoint for those that sleep on an
// alarm.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include <tanada/device/detail/base/status.hpp>
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::onesided {

// A thread sleeps in one place, but a PE that has mapped and unmapped peers has two sources of
// wake-ups: an alarm, and the fabric. Such a PE sleeps on the alarm, and this thread sleeps in the
// endpoint meanwhile. Without it the peers' requests would wait for the PE's next check.
//
// Thread safety: any thread may call arm() and access_count().
class access_watcher {
 public:
  // The longest sleep in the endpoint, and the pause while another thread uses it.
  static constexpr uint64_t slice_ns = 1'000'000, busy_pause_ns = 200'000;

  struct callbacks {
    // Sleeps in the endpoint, and serves peers, as lane::wait_for_access().
    std::function<status(uint64_t deadline_ns)> wait_for_access;
    // Wakes those that sleep on the alarm. Comes after a change of access_count(), and when the
    // endpoint was in use elsewhere.
    std::function<void()> wake;
  };

  access_watcher(callbacks chosen, seams::clock &time);
  ~access_watcher();  // stops the thread
  access_watcher(const access_watcher &) = delete;
  access_watcher &operator=(const access_watcher &) = delete;

  // To be called before a sleep on the alarm. Until then the thread leaves the endpoint to others.
  void arm();
  void stop() noexcept;

  // Sleeps in the endpoint that an access of a peer has ended.
  uint32_t access_count() const noexcept {
    return access_count_.load();
  }

 private:
  void run();
  void watch(unique_lock<mutex> &lock);

  callbacks const callbacks_;
  seams::clock &time_;
  std::atomic<uint32_t> access_count_{0};
  mutex mutex_;  // protects the rest
  condition_variable changed_;
  bool is_armed_ = false, is_parked_ = false, is_stopped_ = false;
  std::thread thread_;
};

}  // namespace tanada::onesided
