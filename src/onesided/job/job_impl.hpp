// onesided/job/job_impl.hpp: private members of a job; included only by job*.cc.
#pragma once

#include <atomic>
#include <optional>

#include "core/base/mutex.hpp"
#include "onesided/job/access_watcher.hpp"
#include "onesided/job/job.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/responder.hpp"
#include "onesided/job/staging.hpp"
#include "seams/bootstrap/descriptor_exchange.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::onesided {

inline constexpr size_t large_page = size_t{2} << 20;  // bytes

enum class device_kind : uint32_t { no_device, host_executor, cuda };

// What each PE publishes before memory is shared. Sent as plain bytes between processes of one
// program.
struct pe_card {
  uint32_t version = 4;
  device_kind device = device_kind::no_device;
  uint64_t heap_size = 0, control_size = 0, data_size = 0, device_size = 0;
  std::array<uint64_t, 16> processors{};
  std::array<char, 64> kernel{};  // PEs with equal words share processors; ends with a zero
  std::array<char, 192> node{};   // PEs with equal words share memory; ends with a zero
  std::array<char, 16> gpu{};     // gpu_info::bus_id, for PEs with equal `kernel`; ends with a zero
};
static_assert(sizeof(pe_card) == 440 && std::is_trivially_copyable_v<pe_card>);
static_assert(offsetof(pe_card, version) == 0);  // also of other versions

// Returns a warning if `me` is the lowest PE whose GPU another PE also uses, otherwise an empty
// text.
std::string shared_gpu_warning(std::span<const pe_card> cards, pe_index me);

// How the fabric reaches a PE.
struct pe_contact {
  std::array<char, 64> provider{};
  uint64_t address_size = 0;
  std::array<std::byte, seams::fabric_address_size_max> address{};
  std::array<seams::fabric_remote, symmetric_map::segment_count_max> segments{};
};
static_assert(std::is_trivially_copyable_v<pe_contact>);  // sent as bytes

struct job::impl {
  std::vector<pe_card> cards;                        // by PE
  seams::shared_mapping own_mapping;                 // control memory and heap
  std::vector<seams::shared_mapping> peer_mappings;  // of the other PEs of the node
  seams::descriptor_list files;  // by PE: of mapped memory, if they are kept; -1: none
  uint64_t heap_offset = 0;      // in each file, in bytes
  // Device memory (the control memory, then the heap) of each PE that this device reaches, by PE.
  seams::shared_block own_device_block;
  std::vector<std::byte *> device_addrs;
  std::byte *staging_buffer = nullptr;  // allocated by the device if there is one
  // The device may still access memory of the job at its end. That memory is then kept.
  bool is_device_busy = false;
  std::unique_ptr<stager> staging;  // null: no PE needs one
  std::atomic<pe_index> failed_pe{-1};
  std::atomic<bool> is_finishing{false};

  std::string provider;
  // Serves this PE's memory: the first lane if the fabric has automatic progress, else a responder.
  std::unique_ptr<onesided::responder> serving_responder;
  lane *serving_lane = nullptr;
  // Sleeps in the first lane while waits sleep on the alarm. Null without both.
  std::unique_ptr<access_watcher> watcher;
  std::vector<seams::fabric_address> addresses;  // by PE: of the endpoints that serve
  mutex lanes_mutex;
  struct leased_lane {
    std::unique_ptr<lane> lane_ptr;
    uint32_t users = 0;
  };
  std::vector<leased_lane>
      lanes;  // the first is shared by all contexts that do not request their own
  // The same lanes, for progress without the mutex. The array only grows while the job lives.
  std::array<std::atomic<lane *>, lane_count_cap> active_lanes{};

  bool progress_lanes() noexcept;
  // One call in four: each takes about a microsecond, which delays other waits.
  bool is_staging_due() noexcept {
    return staging_poll_count.fetch_add(1, std::memory_order_relaxed) % 4 == 0;
  }
  std::atomic<uint32_t> staging_poll_count{0};
  // Returns busy if the caller cannot sleep in the endpoint.
  status wait_for_access(uint64_t deadline_ns) noexcept {
    if (serving_lane != nullptr)
      return serving_lane->wait_for_access(deadline_ns);
    return serving_responder ? serving_responder->wait_for_access(deadline_ns) : status::busy;
  }
};

}  // namespace tanada::onesided
