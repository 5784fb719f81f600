// products/gfile/host/mappings.hpp: the mapper of an instance: files mapped and registered in a
// thread of its own, since pinning the pages of a large one takes long.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/file/mapped_file.hpp"
#include "products/gfile/host/mapper.hpp"
#include "seams/gpu/gpu.hpp"
#include <tanada/device/detail/gfile/state.hpp>

namespace tanada::gfile {

// Lock: mutex_ guards the slots and the queue; it is held neither while pages are pinned nor while
// `done` is called.
class mappings final : public mapper {
 public:
  // Says whether the mapping is wanted; called by the thread.
  using done_function = std::function<bool(const map_request &, const map_outcome &)>;

  // A mapping is lost: somebody cuts the file or opens it to write, and waits until this returns.
  // Called by the thread.
  using lost_function = std::function<void(const map_request &, u32 slot)>;

  // `ranges`: mapped_range_count entries in device memory; `nodes` likewise, one a file.
  mappings(port::gpu &gpu, mapped_range *ranges, node *nodes, uint64_t size_max, done_function done,
           lost_function lost);
  // No kernel runs any more.
  ~mappings();

  bool post_map(const map_request &asked) override;
  void retire(u32 number) override;

  // Slots retired so far: once every kernel launched before this call has ended, collect(that) lets
  // them go.
  std::vector<u32> retired();
  void collect(const std::vector<u32> &slots);

 private:
  enum class state : uint8_t { free, making, used, retired };
  struct slot {
    state now = state::free;
    uint64_t size = 0;  // bytes
    port::mapped_file file;
    port::store_memory memory;  // of a file that its store has mapped
    int descriptor = -1;        // of a file that is not mapped but read by system calls
    int leased = -1;            // of a mapped file that could be cut: see watch_leases()
    map_request asked{};        // of that file
    const std::byte *registered = nullptr;  // memory that the GPU knows
  };

  void run();
  bool started();
  map_outcome make(map_request &asked, u32 index);
  std::string map(map_request &asked, slot &to, mapped_range &range);
  std::string read_by_calls(const map_request &asked, slot &to, mapped_range &range);
  status publish(const map_request &asked, u32 index);
  std::string lease(const map_request &asked, slot &to);
  void watch_leases(unique_lock<mutex> &lock);
  void give_up_lease(slot &of);
  void let_go(slot &of);

  port::gpu &gpu_;
  mapped_range *ranges_;  // device memory
  node *nodes_;           // device memory
  uint64_t size_max_;
  done_function done_;
  lost_function lost_;
  uint32_t lease_count_ = 0;  // guarded by mutex_
  mutex mutex_;
  condition_variable wake_;
  std::vector<slot> slots_;
  std::deque<std::pair<map_request, u32>> queue_;  // and the index of the slot
  uint64_t size_ = 0;                              // bytes of all slots
  bool stopping_ = false;
  std::thread thread_;  // started with the first request
};

}  // namespace tanada::gfile
