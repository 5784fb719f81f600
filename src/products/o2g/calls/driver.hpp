// products/o2g/calls/driver.hpp: the implementation of tanada/o2g.h by the module o2g of the
// kernel, whose calls are in tanada/o2g_driver.h.
//
// While an entry is in the driver, its state is in a slot of memory that the driver writes. flags()
// copies it into the entry.
//
// **Locking** `mutex_` covers the slots' owners and every change of an entry that is in the driver.
// It is held over calls of the driver that do not wait for messages or receive them.
#pragma once

#include <tanada/o2g_driver.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "products/o2g/calls/receive_service.hpp"
#include "seams/os/o2g_device.hpp"

namespace tanada::o2g::calls {

class driver final : public receive_service {
 public:
  // no_device: the driver cannot be used. too_many_files, no_memory.
  static result<std::unique_ptr<driver>> create(uint32_t socket_count_max,
                                                const char *path = O2G_DRIVER_PATH);
  ~driver() override;

  // not_supported: the driver cannot read this connected stream socket.
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

  // Removes the entries from the queue, and returns them in the order in which they were put. For a
  // driver that has never had a socket.
  std::vector<queue_entry *> take_queue();

 private:
  // An entry in a slot, and its number in the order of puts. No entry: the slot is free.
  struct owner {
    queue_entry *entry = nullptr;
    uint64_t put_number = 0;
  };
  // Slots, and what belongs to each: `owners` if they are for expected entries, else `entries`.
  struct chunk {
    o2g_slot *slots = nullptr;
    std::vector<owner> owners;
    std::vector<queue_entry> entries;
  };

  driver(uint32_t socket_count_max, seams::o2g_device device, o2g_shared *shared) noexcept;

  status failure(const char *call, int error) const;
  bool is_here(const queue_entry &entry) const noexcept;
  void bind(queue_entry &entry, uint32_t slot, o2g_slot &state) const noexcept;
  uint32_t refresh(queue_entry &entry) TND_REQUIRES(mutex_);

  result<chunk *> map_chunk(uint32_t index) TND_REQUIRES(mutex_);
  result<uint32_t> acquire_slot() TND_REQUIRES(mutex_);
  void release_slot(uint32_t slot) TND_REQUIRES(mutex_);
  result<uint64_t> occupy_slot(queue_entry &entry, uint32_t &slot);
  void withdraw(queue_entry &entry, uint32_t flags, tnd_status code);
  void refresh_put(queue_entry &entry, uint32_t slot, uint64_t put_number);
  result<queue_entry *> unexpected_entry(uint32_t slot);
  bool take_events(uint64_t *event_count) noexcept;
  void receive_for_driver() const noexcept;

  uint32_t const socket_count_max_;
  seams::o2g_device device_;
  o2g_shared *const shared_;
  uint64_t const mark_;                           // of entries that are in this driver
  std::atomic<uint64_t> polled_event_count_ = 0;  // that of the last return of o2g_poll()
  std::atomic<uint64_t> race_count_ = 0;          // those that the driver does not count

  mutex mutex_;
  std::array<std::unique_ptr<chunk>, O2G_CHUNK_COUNT_MAX> chunks_ TND_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_slots_ TND_GUARDED_BY(mutex_);
  uint64_t put_count_ TND_GUARDED_BY(mutex_) = 0;

  std::span<std::byte> dump_area_ TND_GUARDED_BY(mutex_);

  mutex setup_mutex_;  // locked before mutex_
  std::unordered_set<int32_t> ranks_ TND_GUARDED_BY(setup_mutex_);
  std::vector<std::thread> threads_ TND_GUARDED_BY(setup_mutex_);
};

}  // namespace tanada::o2g::calls
