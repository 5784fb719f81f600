// onesided/job/responder.hpp: the endpoint through which remote PEs reach this PE's memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"

namespace tanada::onesided {

// Serves without calls of the program. Where the fabric has no automatic progress, a thread of this
// object waits in the endpoint. Callers that wait make progress themselves, at once, and the thread
// pauses until no caller has done so for `idle_ns`. It does not pause for callers that come so
// rarely that peers would wait for them.
//
// Thread safety: progress from any thread. The endpoint's regions are registered before start() and
// released after stop().
class responder {
 public:
  static constexpr uint64_t idle_ns = 1'000'000, frequent_interval_ns = 20'000, busy_ns = 200'000;

  responder(std::unique_ptr<seams::fabric_endpoint> endpoint, seams::clock &time);
  ~responder();  // stops the thread

  seams::fabric_endpoint &endpoint() noexcept {
    return *endpoint_;
  }

  void start();
  void stop() noexcept;

  // Serves what has arrived. Never blocks: it returns if another thread is serving.
  void progress() noexcept;

  // Sleeps until peers may have accessed this PE's memory, and serves them meanwhile. ok; timed_out
  // at the deadline; busy: another thread uses the endpoint.
  status wait_for_access(uint64_t deadline_ns) noexcept;

  // To be called before start(). The thread also calls `callback`. While that returns true, the
  // next call follows after at most `busy_ns`.
  void set_extra_progress(std::function<bool()> callback) {
    TND_ASSERT(!thread_.joinable());
    extra_progress_ = std::move(callback);
  }
  // Wakes the thread: the callback has work, and perhaps no caller makes progress.
  void wake_thread() noexcept;

 private:
  void serve();
  void pause(uint64_t duration_ns);

  std::unique_ptr<seams::fabric_endpoint> endpoint_;
  seams::clock &time_;
  bool const has_auto_progress_;               // the fabric needs no thread
  mutex mutex_;                                // held by the thread that uses the endpoint
  std::atomic<bool> is_waiting_{false};        // the thread, in the endpoint
  std::atomic<uint64_t> last_attempt_ns_{0};   // by any caller
  std::atomic<uint64_t> last_progress_ns_{0};  // by a caller that polls often
  std::atomic<bool> is_stopped_{true};
  std::function<bool()> extra_progress_;
  mutex pause_mutex_;
  condition_variable pause_changed_;  // wakes the thread from its pause
  std::thread thread_;
};

}  // namespace tanada::onesided
