// onesided/job/job.hpp: a job's PEs, their symmetric memory, and waiting in it.
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

namespace tanada::pgas {

class call_server;
class lane;
class stager;
struct pe_contact;

inline constexpr uint32_t lane_count_cap = 64;

// How device memory that no queue here reaches is moved: by the fabric itself, through memory of
// both hosts, or by the fabric where that is known to be safe and as fast: see docs/pgas.md. What
// the fabric refuses is staged.
enum class device_way : uint32_t { automatic, direct, staged };
inline constexpr std::string_view device_way_names[] = {"auto", "direct", "staged"};

struct job_options {
  size_t heap_size = size_t{64} << 20;  // bytes of symmetric heap of each PE; equal in all
  size_t control_size =
      size_t{1}
      << 20;  // bytes of each PE for those who coordinate: zeros at the start; equal in all
  bool shares_program_data = true;  // global and static variables of the program are symmetric
  // Where the memory of PE 0 begins, a little before its heap, in all processes that map it; that
  // of PE p lies p * heap_stride bytes further on. Both multiples of large pages, and equal in all.
  // Null: wherever there is room, and elsewhere in each.
  std::byte *heaps_at = nullptr;
  size_t heap_stride = 0;  // bytes, with heaps_at; invalid if a PE's memory is larger
  // Which PEs share memory. Empty: those of one machine. "none": nobody. Any other word: those of
  // one machine that give the same.
  std::string node = {};
  std::string fabric = {};  // libfabric's provider; empty: o2g where it is, else tcp;ofi_rxm
  std::string interface =
      {};  // address or host name of the network interface; empty: the provider's choice
  uint64_t timeout_ns = 60'000'000'000;  // for the start, and for each operation on a PE elsewhere
  // Memory of this device is symmetric, too: so much of each PE's, equal in all, as all have one.
  // It outlives the job. Null: none.
  port::gpu *device = nullptr;
  size_t device_heap_size = 0;  // bytes
  size_t device_control_size =
      0;  // bytes of each PE for those who coordinate kernels: zeros at the start; equal in all
  // What PEs elsewhere may call here; outlives the job. All PEs have one, or none has. Null: none.
  call_server *calls = nullptr;
  size_t staging_size = size_t{32} << 20;  // bytes of host memory for what is under way of calls,
                                           // and between devices that do not reach one another
  device_way devices_by = device_way::automatic;
  uint32_t lane_count_max =
      8;  // up to lane_count_cap: endpoints that start operations; contexts past that share them

  bool keeps_descriptors = false;  // of the memory that is mapped, for heap_file()
  // To PEs elsewhere, for whom a fabric may hold it in DRAM. Operations on what is not offered are
  // refused: of the heap, they call.
  bool offers_heap = true;
  size_t control_offered_size = ~size_t{0};  // bytes of control memory, from its beginning

  // TND_PGAS_NODE, TND_PGAS_FABRIC, TND_PGAS_INTERFACE, TND_PGAS_TIMEOUT, TND_PGAS_LANES,
  // TND_PGAS_STAGING, TND_PGAS_DEVICE over the above. With a message.
  status read_environment();
};

// Collective: all PEs start it and destroy it. Its segments are, in this order, the heap, the
// program's data (unless it is not shared), and the control memory.
//
// Thread safety: all calls but start and finish, any thread.
class job {
 public:
  // timed_out, peer_lost, no_memory, no_plugin, or what the system said, with a message. The
  // launcher outlives the job.
  static result<std::unique_ptr<job>> start(port::bootstrap &launcher, const job_options &options);
  ~job();  // finish() has been called, or the process is about to end

  // Collective: nobody uses another's memory any more. Waits for all.
  status finish();
  // Instead, or before it, and not collective: nobody elsewhere asks for anything of ours any more,
  // nor we of them, as all know. The job's threads end; nothing that uses staging() is left.
  void retire() noexcept;

  const symmetric_map &map() const noexcept {
    return map_;
  }
  pe_index me() const noexcept {
    return map_.me();
  }
  pe_index count() const noexcept {
    return map_.count();
  }
  port::bootstrap &launcher() const noexcept {
    return launcher_;
  }

  // PEs whose memory is mapped here, ascending, this one among them.
  const std::vector<pe_index> &node_pes() const noexcept {
    return node_pes_;
  }
  bool is_one_node() const noexcept {
    return node_pes_.size() == size_t(count());
  }
  // More PEs here than processors they may use: who waits lets others run at once.
  bool is_crowded() const noexcept {
    return is_crowded_;
  }

  std::span<std::byte> heap() const noexcept {
    return {map_.at(0).base, map_.at(0).size};
  }
  // A power of two, equal in all PEs: each PE's own heap begins at a multiple of it. The heap's
  // size rounded up, but 1 GiB at most; that of large pages if options.heaps_at says where the
  // heaps are.
  size_t heap_alignment() const noexcept;
  std::span<std::byte> control() const noexcept {
    return control_;
  }

  // The heap of a PE that is mapped, as part of a file that lives as long as the job: whoever has
  // it can ask the system which pages are there, read and write them without mapping them, and give
  // them back. -1: it is not mapped, or the options did not ask for it.
  struct file_part {
    int descriptor = -1;
    uint64_t offset = 0;  // bytes
  };
  file_part heap_file(pe_index pe) const noexcept;

  // Memory of the device: the segment's, and where PEs' control memory is reached by kernels here
  // (null: it is not). Empty without a device.
  std::span<std::byte> device_heap() const noexcept;
  std::byte *device_control(pe_index pe) const noexcept;
  // For a context: null without a device.
  result<std::unique_ptr<port::device_queue>> device_queue_open() const;
  // For a context: null where all devices reach one another, or there are none, and nobody may be
  // called who is elsewhere. Lives as long as the job.
  stager *staging() const noexcept;

  // For a context: null when all PEs are mapped. Lives as long as the job. `own`: not shared with
  // another while there are fewer than lane_count_max.
  result<lane *> lane_acquire(bool own);
  void lane_release(lane *which);

  // Who changes mapped memory of a PE by other means than a context's operations rings: it may be
  // waiting. `addr`: as the PE itself is told of it, i.e. our address of that memory; symmetric.
  void ring(pe_index pe, const void *addr, size_t size) const noexcept {
    if (map_.is_asleep(pe)) [[unlikely]]
      map_.ring(pe, map_.locate(addr, size, pe), size);
  }

  // What this PE owes others, where nothing else does it, and what came for it. Cheap; called by
  // all that wait.
  void attend() const;

  // A PE that has died, -1 while none is known to have. Cheap.
  pe_index lost() const noexcept;

  // Wait until ready() is true. Looks, then lets others run, then sleeps until somebody rings for
  // the memory `on`, or for any if none is given; attends meanwhile. A ring may be missed, and what
  // comes by the fabric rings nobody: it looks again each millisecond, or after nap_ns if that is
  // longer, and sleeps at once then. ok; timed_out at the deadline (of the job's clock); peer_lost
  // when a PE died.
  template <class Ready>
  status wait(Ready &&ready, std::span<const std::byte> on = {},
              uint64_t deadline_ns = TND_NO_DEADLINE, uint64_t nap_ns = 0) const {
    for (uint32_t i = 0; i < looks_; i++) {
      if (ready()) [[likely]]
        return status::ok;
      if (answers_) {
        attend();
      } else if (i >= looks_quick) {
        port::spin_pause();
      }
    }
    return wait_long(std::ref(ready), on, deadline_ns, nap_ns);
  }

  port::clock &time() const noexcept {
    return *time_;
  }

 private:
  job(port::bootstrap &launcher, const job_options &options);

  status start_node();
  status map_node();
  status map_devices();
  void unmap_devices() noexcept;
  status start_staging();
  result<std::byte *> allocate_staging(size_t size);
  status open_staging();
  port::fabric_memory heap_view(const port::fabric_endpoint &endpoint) const;
  void close_staging() noexcept;
  status start_fabric();
  status register_segments(port::fabric_endpoint &endpoint, pe_contact &contact) const;
  result<std::unique_ptr<port::fabric_endpoint>> open_endpoint(bool needs_cuda = false);
  lane *add_lane(std::unique_ptr<port::fabric_endpoint> endpoint, bool answers);
  static constexpr uint32_t looks_quick =
      64;  // without a pause, which takes as long as a neighbour's store

  status wait_long(const std::function<bool()> &ready, std::span<const std::byte> on,
                   uint64_t deadline_ns, uint64_t nap_ns) const;
  bool sleep(const std::function<bool()> &ready, const port::alarm_range &on,
             uint64_t timeout_ns) const;

  port::bootstrap &launcher_;
  job_options options_;
  symmetric_map map_;
  std::vector<pe_index> node_pes_;
  std::span<std::byte> control_;
  bool is_crowded_ = false;
  port::shared_alarm *alarm_ = nullptr;  // ours
  uint32_t looks_ = 1;
  bool answers_ = false;   // to PEs elsewhere
  bool has_both_ = false;  // and has neighbours, too
  port::clock *time_;
  struct inside;
  std::unique_ptr<inside> inside_;
};

}  // namespace tanada::pgas
