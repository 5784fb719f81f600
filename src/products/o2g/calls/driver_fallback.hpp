// products/o2g/calls/driver_fallback.hpp: TND_O2G_DRIVER=auto with a driver. The first socket
// decides: the driver receives, or, if that socket is not a plain TCP socket, this process.
//
// Until then no message can arrive, so that the driver's state is only what the program has put
// into it: the dump area, the number of threads, and the queue.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "products/o2g/calls/driver.hpp"
#include "products/o2g/calls/receive_service.hpp"

namespace tanada::o2g::calls {

class driver_fallback final : public receive_service {
 public:
  driver_fallback(uint32_t socket_count_max, std::unique_ptr<driver> first);

  status add_socket(int socket, int rank) override;
  status set_dump_area(std::span<std::byte> memory) override;
  status start_threads(uint32_t count) override;

  status put(queue_entry &entry) override;
  status cancel(queue_entry &entry) override;
  status free(queue_entry &entry) override;
  status find(queue_entry &request, queue_entry *&match) override;
  queue_entry *next(const queue_entry *after) override;
  uint64_t sequence() const noexcept override;
  uint32_t flags(queue_entry &entry) noexcept override;

  status poll(uint64_t *event_count, uint64_t timeout_ns) override;

  status rank_status(int rank) override;
  void count(o2g_statistics &statistics) override;

 private:
  // Calls the service, and holds the lock meanwhile if it may still change.
  template <class Function>
  auto call(Function function) const;
  status replace() TND_REQUIRES(mutex_);

  uint32_t const socket_count_max_;
  mutable mutex mutex_;  // held by every call until a socket has been registered
  std::atomic<receive_service *> decided_ = nullptr;
  std::unique_ptr<driver> driver_ TND_GUARDED_BY(mutex_);
  std::unique_ptr<receive_service> receiver_ TND_GUARDED_BY(mutex_);
  std::span<std::byte> dump_area_ TND_GUARDED_BY(mutex_);
  uint32_t thread_count_ TND_GUARDED_BY(mutex_) = 0;
};

struct service_choice {
  std::unique_ptr<receive_service> service;
  std::string reason;  // which service it is, and why: a line for the log
};

// The service that `setting` selects: the value of TND_O2G_DRIVER, null or "" for "auto".
// no_device: the driver is required, and cannot be used.
result<service_choice> create_service(uint32_t socket_count_max,
                                      const char *setting,
                                      const char *path = O2G_DRIVER_PATH);

}  // namespace tanada::o2g::calls
