// products/gfile/host/mappings.hpp: the mapper of an instance. It maps and registers files in a
// thread of its own, because pinning the pages of a large file takes long.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/file/mapped_file.hpp"
#include "products/gfile/host/mapper.hpp"
#include "seams/gpu/gpu.hpp"
#include <tanada/device/detail/gfile/state.hpp>

namespace tanada::gfile {

// Lock: mutex_ guards the slots and the queue. It is held neither while pages are pinned nor while
// `done` is called.
class mappings final : public mapper {
 public:
  // Bytes that are registered at a time. Meanwhile the driver blocks launches on every GPU of the
  // process, for some milliseconds at this size.
  static constexpr size_t part_size = size_t{64} << 20;

  // Returns whether the mapping is wanted; called by the thread.
  using done_function = std::function<bool(const map_request &, const map_outcome &)>;

  // Called by the thread when a mapping is lost: another process truncates the file or opens it for
  // writing, and is blocked until this returns.
  using lost_function = std::function<void(const map_request &, u32 slot)>;

  // `ranges`: mapped_range_count entries in device memory. `nodes`: one for each file, also in
  // device memory.
  mappings(seams::gpu &gpu,
           mapped_range *ranges,
           node *nodes,
           uint64_t size_max,
           done_function done,
           lost_function lost);
  // No kernel may be running.
  ~mappings();

  bool post_map(const map_request &request) override;
  void retire(u32 number) override;

  // A slot, and which of all retirements it was: a slot may be used and retired again.
  struct retired_slot {
    u32 index;
    uint64_t retirement;
  };
  // The slots retired so far. Once every kernel launched before this call has ended, collect()
  // frees them, unless another thread has.
  std::vector<retired_slot> retired_slots();
  void collect(const std::vector<retired_slot> &slots);

 private:
  enum class state : uint8_t { free, making, used, retired, releasing };
  struct slot {
    state phase = state::free;
    uint64_t retirement = 0;
    uint64_t size = 0;  // bytes
    backends::mapped_file file;
    seams::store_memory memory;  // of a file that its store has mapped
    int descriptor = -1;         // of a file that is not mapped but read by system calls
    int lease_descriptor = -1;   // of a mapped file that could be truncated: see watch_leases()
    map_request request{};       // the request for that file
    std::vector<const std::byte *> registered;  // parts of the memory, registered with the GPU
  };

  void run();
  bool ensure_thread() TND_REQUIRES(mutex_);
  void set_retired(slot &entry) TND_REQUIRES(mutex_);
  bool begin_release(const retired_slot &retired);
  map_outcome make(map_request &request, u32 index);
  std::string map(map_request &request, slot &entry, mapped_range &range);
  std::string register_bytes(std::span<const std::byte> bytes, slot &entry, mapped_range &range);
  bool is_stopping() {
    lock_guard const lock{mutex_};
    return stopping_;
  }
  std::string prepare_cached_reads(const map_request &request, slot &entry, mapped_range &range);
  status publish(const map_request &request, u32 index);
  std::string lease(const map_request &request, slot &entry);
  void watch_leases(unique_lock<mutex> &lock) TND_REQUIRES(mutex_);
  void release_lease(slot &entry) TND_REQUIRES(mutex_);
  void release_slot(slot &entry);

  seams::gpu &gpu_;
  mapped_range *ranges_;  // device memory
  node *nodes_;           // device memory
  uint64_t size_max_;
  done_function done_;
  lost_function lost_;
  mutex mutex_;
  uint32_t lease_count_ TND_GUARDED_BY(mutex_) = 0;
  condition_variable wake_;
  std::vector<slot> slots_;
  // Requests, each with the index of its slot.
  std::deque<std::pair<map_request, u32>> queue_ TND_GUARDED_BY(mutex_);
  uint64_t size_ TND_GUARDED_BY(mutex_) = 0;  // bytes of all slots
  uint64_t retirement_count_ TND_GUARDED_BY(mutex_) = 0;
  bool stopping_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // started with the first request
};

}  // namespace tanada::gfile
