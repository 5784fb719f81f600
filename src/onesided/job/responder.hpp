// onesided/job/responder.hpp: the endpoint by which PEs elsewhere reach this one's memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"

namespace tanada::pgas {

// Answers without a call of the program: where the fabric does not progress alone, a thread of this
// object's own waits in the endpoint. Callers that wait for something attend: they do the work
// themselves, at once, and the thread stands back until nobody has attended for `idle_ns`. It does
// not for those who come so seldom that somebody would wait for them.
//
// Thread safety: attend, any thread. The endpoint's regions are registered before start() and
// released after stop().
class responder {
 public:
  static constexpr uint64_t idle_ns = 1'000'000, seldom_ns = 20'000, busy_ns = 200'000;

  responder(std::unique_ptr<port::fabric_endpoint> endpoint, port::clock &time);
  ~responder();  // stops

  port::fabric_endpoint &endpoint() noexcept {
    return *endpoint_;
  }

  void start();
  void stop() noexcept;

  // Serve what has come. Never blocks: if somebody else is at it, that is enough.
  void attend() noexcept;

  // Sleep until peers may have used our memory, serving them meanwhile: ok; timed_out at the
  // deadline; busy: somebody else is at it.
  status rest(uint64_t deadline_ns) noexcept;

  // Before start(). What else the thread drives, as long as it returns true: it then comes back
  // after `busy_ns` at most.
  void drives(std::function<bool()> also) {
    also_ = std::move(also);
  }
  // There is something to drive from now on, and perhaps nobody who attends.
  void stir() noexcept;

 private:
  void serve();
  void stand_back(uint64_t duration_ns);

  std::unique_ptr<port::fabric_endpoint> endpoint_;
  port::clock &time_;
  bool const is_alone_;                   // the fabric needs nobody
  mutex mutex_;                           // who uses the endpoint
  std::atomic<bool> is_waiting_{false};   // the thread, in the endpoint
  std::atomic<uint64_t> looked_ns_{0};    // somebody attended
  std::atomic<uint64_t> attended_ns_{0};  // and had done so shortly before
  std::atomic<bool> is_stopped_{true};
  std::function<bool()> also_;
  mutex rest_mutex_;
  condition_variable rest_;  // of the thread, while others attend
  std::thread thread_;
};

}  // namespace tanada::pgas
