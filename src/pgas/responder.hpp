// pgas/responder.hpp: the endpoint by which PEs elsewhere reach this one's memory.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "port/clock/clock.hpp"
#include "port/fabric/fabric.hpp"

namespace tanada::pgas {

// Answers without a call of the program: where the fabric does not progress alone, a thread of this object's own waits in the
// endpoint. Callers that wait for something attend: they do the work themselves, at once, and the thread stands back until nobody has
// attended for `idle_ns`.
//
// Thread safety: attend, any thread. The endpoint's regions are registered before start() and released after stop().
class responder {
 public:
  static constexpr uint64_t idle_ns = 1'000'000;

  responder(std::unique_ptr<port::fabric_endpoint> endpoint, port::clock &time);
  ~responder();  // stops

  port::fabric_endpoint &endpoint() noexcept { return *endpoint_; }

  void start();
  void stop() noexcept;

  // Serve what has come. Never blocks: if somebody else is at it, that is enough.
  void attend() noexcept;

 private:
  void serve();

  std::unique_ptr<port::fabric_endpoint> endpoint_;
  port::clock &time_;
  std::mutex mutex_;  // who uses the endpoint
  std::atomic<uint64_t> attended_ns_{0};
  std::atomic<bool> is_stopped_{true};
  std::thread thread_;
};

}  // namespace tanada::pgas
