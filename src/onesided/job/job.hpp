// onesided/job/job.hpp: a job's PEs, their symmetric memory, and waits for changes of it.
#pragma once

#include <tanada/status.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "onesided/job/symmetric_map.hpp"
#include "seams/bootstrap/bootstrap.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/thread.hpp"

namespace tanada::seams {
class shared_memory;
}

namespace tanada::onesided {

class active_message_server;
class lane;
class stager;
struct pe_contact;

inline constexpr uint32_t lane_count_cap = 64;

// How device memory is moved that no local queue reaches. direct: by the fabric. staged: through
// host memory of both sides. automatic: by the fabric where that is known to be safe and as fast.
// Memory that the fabric refuses is staged. See docs/pgas.md.
enum class device_path : uint32_t { automatic, direct, staged };
inline constexpr std::string_view device_path_names[] = {"auto", "direct", "staged"};
static_assert(std::size(device_path_names) == size_t(device_path::staged) + 1);

struct job_options {
  size_t heap_size = size_t{64} << 20;  // bytes of each PE's symmetric heap; equal in all PEs
  // Bytes of each PE's control memory, for coordination. Initially zero; equal in all PEs.
  size_t control_size = size_t{1} << 20;
  bool shares_program_data = true;  // the program's global and static variables are symmetric
  // Where the memory of PE 0 begins, shortly before its heap, in all processes that map it. The
  // memory of PE p begins p * heap_stride bytes further. Both are multiples of the large page size,
  // and equal in all PEs. Null: the system chooses, differently in each process.
  std::byte *heap_base = nullptr;
  size_t heap_stride = 0;  // bytes, with heap_base; invalid if a PE's memory is larger
  // Which PEs share memory. Empty: those of one node. "none": no PEs. Any other word: those of one
  // node that have the same word.
  std::string node = {};
  std::string fabric = {};  // libfabric's provider; empty: o2g if available, else tcp;ofi_rxm
  // Name or address of the network interface, or a host name. Empty: the provider chooses.
  std::string interface = {};
  uint64_t timeout_ns = 60'000'000'000;  // for the start, and for each operation on an unmapped PE
  // Memory of this device is symmetric, too, with sizes that are equal in all PEs. Either all PEs
  // have a device or none has. It outlives the job. Null: no device.
  seams::gpu *device = nullptr;
  size_t device_heap_size = 0;  // bytes
  // Bytes of each PE for coordination among kernels. Initially zero; equal in all PEs.
  size_t device_control_size = 0;
  // Carries out active messages of unmapped PEs. Outlives the job. Either all PEs have a server or
  // none has. Null: no server.
  active_message_server *message_server = nullptr;
  // Bytes of the staging buffer: host memory for active messages, and for transfers between devices
  // that do not reach one another.
  size_t staging_size = size_t{32} << 20;
  device_path device_transfer_path = device_path::automatic;
  // Endpoints that start operations, up to lane_count_cap. Further contexts share them.
  uint32_t lane_count_max = 8;

  bool keeps_descriptors = false;  // keep descriptors of mapped memory, for heap_file()
  // Whether unmapped PEs may access the heap, for which a fabric may pin it in DRAM. Operations on
  // memory that is not exposed are refused. If the heap is not, PEs send active messages instead.
  bool exposes_heap = true;
  size_t control_exposed_size = ~size_t{0};  // bytes of control memory, from its beginning

  // Overrides the members above by TND_PGAS_NODE, TND_PGAS_FABRIC, TND_PGAS_INTERFACE,
  // TND_PGAS_TIMEOUT, TND_PGAS_LANES, TND_PGAS_STAGING and TND_PGAS_DEVICE. An error has a message.
  status read_environment();
};

// A job. All PEs start it and destroy it, collectively. Its segments are, in this order: the heap,
// the program's data (if shared), the control memory, and the device heap (with a device).
//
// Thread safety: any thread, except start and finish.
class job {
 public:
  // timed_out, peer_lost, no_memory, no_plugin, or the system's error, with a message. The launcher
  // outlives the job.
  static result<std::unique_ptr<job>> start(seams::bootstrap &launcher, const job_options &options);
  ~job();  // after finish(), or when the process is about to end

  // Collective: waits for all PEs. The caller no longer uses other PEs' memory.
  status finish();
  // Called before finish(), or instead of it. Not collective. Unmapped PEs no longer access this
  // PE's memory, nor does it access theirs, as all PEs know. Ends the job's threads. Nothing that
  // uses staging() may be left.
  void shut_down() noexcept;

  const symmetric_map &map() const noexcept {
    return map_;
  }
  pe_index me() const noexcept {
    return map_.me();
  }
  pe_index count() const noexcept {
    return map_.count();
  }
  seams::bootstrap &launcher() const noexcept {
    return launcher_;
  }

  // PEs whose memory is mapped in this process, ascending, including this one.
  const std::vector<pe_index> &node_pes() const noexcept {
    return node_pes_;
  }
  // The lowest of the PEs that share memory with `pe`.
  pe_index first_pe_of_node(pe_index pe) const noexcept {
    TND_ASSERT(size_t(pe) < first_pes_of_nodes_.size());
    return first_pes_of_nodes_[size_t(pe)];
  }
  bool is_one_node() const noexcept {
    return node_pes_.size() == size_t(count());
  }
  // This node has more PEs than processors that they may use, so waits yield at once.
  bool is_oversubscribed() const noexcept {
    return is_oversubscribed_;
  }

  // Some machine of the job has more PEs than processors that they may use. Equal in all PEs.
  bool has_oversubscribed_machine() const noexcept {
    return has_oversubscribed_machine_;
  }

  std::span<std::byte> heap() const noexcept {
    return {map_.segment_at(0).base, map_.segment_at(0).size};
  }
  // A power of two, equal in all PEs: the address of each PE's own heap is a multiple of it. It is
  // the heap's size rounded up, at most 1 GiB. With options.heap_base it is the large page size.
  size_t heap_alignment() const noexcept;
  std::span<std::byte> control() const noexcept {
    return control_;
  }

  // The heap of a mapped PE, as part of a file that lives as long as the job. With it a caller can
  // query which pages exist, read and write them without a mapping, and free them. -1: the PE is
  // not mapped, or the options did not request descriptors.
  struct file_part {
    int descriptor = -1;
    uint64_t offset = 0;  // bytes
  };
  file_part heap_file(pe_index pe) const noexcept;

  // Device memory: the heap of this PE, and the address at which kernels of this device reach a
  // PE's control memory (null: they do not). Empty without a device.
  std::span<std::byte> device_heap() const noexcept;
  std::byte *device_control(pe_index pe) const noexcept;
  // A queue for a context. Null without a device.
  result<std::unique_ptr<seams::device_queue>> device_queue_open() const;
  // The stager for a context. Null where all devices reach one another, or there is no device, and
  // no unmapped PE accepts active messages. Lives as long as the job.
  stager *staging() const noexcept;

  // A lane for a context. Null when all PEs are mapped. Lives as long as the job.
  // `is_exclusive`: not shared while there are fewer than lane_count_max.
  result<lane *> lane_acquire(bool is_exclusive);
  void lane_release(lane *released);

  // Wakes a PE that may wait for a change of its mapped memory. To be called after a change by
  // other means than a context's operations. `addr`: this process's address of the symmetric
  // memory.
  void wake(pe_index pe, const void *addr, size_t size) const noexcept {
    if (map_.has_sleepers(pe)) [[unlikely]]
      map_.wake(pe, map_.locate(addr, size, pe), size);
  }

  // Serves other PEs where nothing else does, and dispatches what has arrived for this PE. Cheap.
  // Every wait calls it.
  void progress() const;

  // A PE that is known to have failed, or -1. Cheap.
  pe_index failed_pe() const noexcept;

  // Waits until ready() is true. It spins, then yields, then sleeps until another PE wakes it for
  // `memory`, or for any memory if that is empty. It makes progress meanwhile. A wake-up may be
  // missed, so it checks again each millisecond. If poll_interval_ns is longer than that, it sleeps
  // at once and checks at that interval. ok; timed_out at the deadline (of the job's clock);
  // peer_lost when a PE has failed.
  template <class Ready>
  status wait(Ready &&ready,
              std::span<const std::byte> memory = {},
              uint64_t deadline_ns = TND_NO_DEADLINE,
              uint64_t poll_interval_ns = 0) const {
    for (uint32_t i = 0; i < spin_count_; i++) {
      if (ready()) [[likely]]
        return status::ok;
      if (serves_remote_) {
        progress();
      } else if (i >= spin_count_unpaused) {
        seams::spin_pause();
      }
    }
    return wait_long(std::ref(ready), memory, deadline_ns, poll_interval_ns);
  }

  seams::clock &time() const noexcept {
    return *time_;
  }

 private:
  job(seams::bootstrap &launcher, const job_options &options);

  status start_node();
  status exchange_cards();
  void find_node_pes();
  // What the PEs map before their segments are known.
  struct node_segments;
  status map_node();
  status map_own_memory(const seams::shared_memory &memory, node_segments &segments);
  status map_peers(int descriptor, node_segments &segments);
  std::byte *node_address(pe_index pe) const noexcept;
  status map_devices();
  status map_peer_devices();
  void unmap_devices() noexcept;
  status start_staging();
  result<std::byte *> allocate_staging(size_t size);
  status open_staging();
  result<std::unique_ptr<stager>> create_stager(std::unique_ptr<seams::fabric_endpoint> endpoint,
                                                std::unique_ptr<seams::device_queue> queue,
                                                std::span<std::byte> buffer);
  std::span<std::byte> device_segment() const noexcept;
  status join_stagers(stager &added);
  seams::fabric_memory heap_view(const seams::fabric_endpoint &endpoint) const;
  void close_staging() noexcept;
  status start_fabric();
  void start_watcher();
  void start_responder(std::unique_ptr<seams::fabric_endpoint> endpoint);
  status exchange_contacts(const pe_contact &own_contact);
  status adopt_contact(pe_index pe, const pe_contact &contact, const pe_contact &own_contact);
  status register_segments(seams::fabric_endpoint &endpoint, pe_contact &contact) const;
  result<std::unique_ptr<seams::fabric_endpoint>> open_endpoint(bool needs_cuda = false);
  lane *add_lane(std::unique_ptr<seams::fabric_endpoint> endpoint, bool serves_remote);
  // Checks without a pause, which takes as long as a store by another PE of the node.
  static constexpr uint32_t spin_count_unpaused = 64;

  pe_index launcher_failed_pe() const noexcept;
  status wait_long(const std::function<bool()> &ready,
                   std::span<const std::byte> memory,
                   uint64_t deadline_ns,
                   uint64_t poll_interval_ns) const;
  bool sleep(const std::function<bool()> &ready,
             const seams::alarm_range &watched,
             uint64_t timeout_ns) const;
  bool sleep_watched(const std::function<bool()> &ready,
                     const seams::alarm_range &watched,
                     uint64_t timeout_ns) const;

  seams::bootstrap &launcher_;
  job_options options_;
  symmetric_map map_;
  std::vector<pe_index> node_pes_;
  std::vector<pe_index> first_pes_of_nodes_;  // by PE
  std::span<std::byte> control_;
  bool is_oversubscribed_ = false, has_oversubscribed_machine_ = false;
  seams::shared_alarm *alarm_ = nullptr;  // of this PE
  uint32_t spin_count_ = 1;
  bool serves_remote_ = false;          // unmapped PEs
  bool has_both_wake_sources_ = false;  // alarms wake it as well as the fabric
  seams::clock *time_;
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace tanada::onesided
