// products/o2g/calls/receive_service.hpp: the interface behind tanada/o2g.h. `receiver` implements
// it in the process, `driver` with the module o2g of the kernel. tests/e2e/o2g/paper_*_test.cc run
// on both.
#pragma once

#include <tanada/o2g.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::o2g::calls {

// The flags as the library has stored them.
inline uint32_t load_flags(const queue_entry &entry) noexcept {
  return std::atomic_ref{const_cast<queue_entry &>(entry).flags}.load(std::memory_order_acquire);
}

inline bool is_done(uint32_t flags) noexcept {
  return (flags & (O2G_RECEIVED | O2G_FAILED)) != 0;
}

// invalid: the entry cannot be put. `flags`: its current ones.
status check_expected(const queue_entry &entry, uint32_t flags);

// invalid: the entry does not name a source, tag and context to search.
status check_pattern(const queue_entry &entry);

// The contract of each function is that of the call of tanada/o2g.h.
class receive_service {
 public:
  receive_service() = default;
  receive_service(const receive_service &) = delete;
  receive_service &operator=(const receive_service &) = delete;
  virtual ~receive_service() = default;  // o2g_fini()

  virtual status add_socket(int socket, int rank) = 0;
  virtual status set_dump_area(std::span<std::byte> memory) = 0;
  virtual status start_threads(uint32_t count) = 0;

  virtual status put(queue_entry &entry) = 0;
  virtual status cancel(queue_entry &entry) = 0;
  virtual status free(queue_entry &entry) = 0;
  virtual status find(queue_entry &request, queue_entry *&match) = 0;
  virtual queue_entry *next(const queue_entry *after) = 0;
  virtual uint64_t sequence() const noexcept = 0;
  virtual uint32_t flags(queue_entry &entry) noexcept {
    return load_flags(entry);
  }

  // `event_count`: the count that the caller has seen; null: use the one of o2g_poll().
  virtual status poll(uint64_t *event_count, uint64_t timeout_ns) = 0;

  virtual status rank_status(int rank) = 0;
  virtual void count(o2g_statistics &statistics) = 0;
};

}  // namespace tanada::o2g::calls
