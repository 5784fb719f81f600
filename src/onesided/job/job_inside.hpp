// onesided/job/job_inside.hpp: what a job owns and its callers need not see. For job*.cc alone.
#pragma once

#include <atomic>
#include <optional>

#include "core/base/mutex.hpp"
#include "onesided/job/job.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/responder.hpp"
#include "onesided/job/staging.hpp"
#include "seams/bootstrap/descriptor_exchange.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::pgas {

inline constexpr size_t large_page = size_t{2} << 20;  // bytes

enum class device_kind : uint32_t { none, host_executor, cuda };

// What each PE tells all others before anything is shared. Sent between processes of one program:
// plain bytes.
struct pe_card {
  uint32_t version = 4;
  device_kind device = device_kind::none;
  uint64_t heap_size = 0, control_size = 0, data_size = 0, device_size = 0;
  std::array<uint64_t, 16> processors{};
  std::array<char, 64> kernel{};  // PEs with equal words share processors; ends with a zero
  std::array<char, 192> node{};   // PEs with equal words share memory; ends with a zero
  std::array<char, 16> gpu{};     // gpu_info::bus_id, for PEs with equal `kernel`; ends with a zero
};
static_assert(sizeof(pe_card) == 440);

// A warning if `me` is the lowest PE whose GPU is another PE's, too. Otherwise empty.
std::string shared_gpu_warning(std::span<const pe_card> cards, pe_index me);

// Where a PE is reached by the fabric.
struct pe_contact {
  std::array<char, 64> provider{};
  uint64_t address_size = 0;
  std::array<std::byte, port::fabric_address_size_max> address{};
  std::array<port::fabric_remote, symmetric_map::segment_count_max> segments{};
};

struct job::inside {
  std::vector<pe_card> cards;                // by PE
  port::shared_mapping own;                  // control memory, heap
  std::vector<port::shared_mapping> others;  // of PEs of the node
  port::descriptor_list files;  // by PE, where they are kept: of what is mapped; -1: none
  uint64_t heap_offset = 0;     // in each, bytes
  // Device memory: the control memory, then the heap, of each PE that our device reaches, by PE.
  port::shared_block device_own;
  std::vector<std::byte *> devices;
  std::byte *staging_area = nullptr;  // the device's host memory where there is one
  bool is_device_busy =
      false;  // at the end, with what a stager has asked it for: its memory stays where it is
  std::unique_ptr<stager> staging;  // null: nobody needs it
  std::atomic<pe_index> lost{-1};
  std::atomic<bool> is_finishing{false};

  std::string provider;
  // Who answers for our memory: the first lane where the fabric progresses alone, else a responder.
  std::unique_ptr<pgas::responder> answering;
  lane *home = nullptr;
  std::vector<port::fabric_address> addresses;  // by PE, of the endpoints that answer
  mutex lanes_mutex;
  struct leased {
    std::unique_ptr<lane> made;
    uint32_t users = 0;
  };
  std::vector<leased> lanes;  // the first is shared by all that do not ask for their own
  // The same, for who looks after them: only ever grows while the job lives.
  std::array<std::atomic<lane *>, lane_count_cap> attended{};

  bool attend_lanes() noexcept;
  // One look in four: each takes about a microsecond from who waits for something else.
  bool is_staging_due() noexcept {
    return looks.fetch_add(1, std::memory_order_relaxed) % 4 == 0;
  }
  std::atomic<uint32_t> looks{0};
  // busy: nobody sleeps in it.
  status rest(uint64_t deadline_ns) noexcept {
    if (home != nullptr)
      return home->rest(deadline_ns);
    return answering ? answering->rest(deadline_ns) : status::busy;
  }
};

}  // namespace tanada::pgas
