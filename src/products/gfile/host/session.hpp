// products/gfile/host/session.hpp: an instance: its device, its tiers, its core and engine.
#pragma once

#include <atomic>
#include <memory>

#include "backends/registry/store_registry.hpp"
#include "products/gfile/host/core.hpp"
#include "products/gfile/host/device_counters.hpp"
#include "products/gfile/host/engine.hpp"
#include "products/gfile/host/mappings.hpp"
#include "seams/gpu/gpu.hpp"

#include <tanada/gfile.h>

namespace tanada::gfile {

// The parts that a session is built on; simulations supply their own.
struct session_parts {
  std::unique_ptr<seams::gpu> gpu;
  std::unique_ptr<backends::store_registry> stores;
  seams::clock *clock = nullptr;
};

class session {
 public:
  // `settings` is checked (see configure()). With service_threads 0 the session has no threads and
  // no mappings, for simulations, which call service().step(0).
  static result<std::unique_ptr<session>> create(const tnd_gfile_config &settings,
                                                 session_parts parts);
  ~session();

  tnd_gfile_ref ref() const;
  status wait(uint64_t timeout_ns);
  uint64_t wait_timeout_ns() const {
    return settings_.wait_timeout_ns;
  }
  // Called before the process ends: write back what kernels have written, and log what could not be
  // written.
  void flush_at_exit();
  // Write back and close everything. If must_leak() is true afterwards, the session must be leaked,
  // because a kernel or a store may still access it.
  status shut_down();
  bool must_leak() const {
    return must_leak_;
  }
  status get_statistics(tnd_gfile_statistics &statistics);
  // One entry for every file that is open or remembered.
  status get_files(std::vector<tnd_gfile_file> &listing);
  void get_fault(tnd_gfile_fault &fault) const;
  engine &service() {
    return *engine_;
  }
  bool is_cuda() const {
    return parts_.gpu->info().is_cuda;
  }

 private:
  session(const tnd_gfile_config &settings, session_parts parts);
  status allocate();
  status allocate_window();
  status allocate_tiers(device_state &image);
  status allocate_device_arrays(device_state &image);
  status allocate_list_areas(device_state &image);
  status allocate_host_records(device_state &image);
  tier::geometry shape_of(uint64_t size) const;
  void start();
  core_options make_options();
  void start_mappings();
  core_frames make_frames();
  uint32_t page_shift() const;
  bool is_compatible_direct_wanted() const;
  status report_error(status fallback);
  void report_fault();
  status allocate_device(void *&addr, uint64_t size, const char *purpose, bool zero);
  status allocate_host(void *&addr, uint64_t size, const char *purpose);
  template <class Element>
  status allocate_array(Element *&array, uint64_t count, const char *purpose);
  template <class Record>
  status allocate_mapped(Record *&record, uint64_t size, const char *purpose);

  tnd_gfile_config settings_;
  session_parts parts_;
  int node_ = -1;  // memory node near the device, for threads and host tier; -1: any
  bool must_leak_ = false;
  std::vector<void *> device_memory_, host_memory_;
  device_state *state_ = nullptr;  // device memory
  device_counters counters_;
  mapped_range *ranges_ = nullptr;  // device memory
  node *nodes_ = nullptr;           // device memory
  u8 *window_frames_ = nullptr;     // device memory
  tier::geometry window_shape_{0, 0};
  std::vector<u64> window_table_;
  fault_record *fault_ = nullptr;
  std::atomic<bool> fault_reported_ = false;
  unsent_closes *unsent_ = nullptr;
  close_list *closes_ = nullptr;
  u8 *list_areas_ = nullptr;
  uint32_t list_area_count_ = 0, list_page_count_ = 0;
  rpc::mailbox *mail_ = nullptr;
  host_table host_table_{};
  u8 *host_frames_ = nullptr;
  std::unique_ptr<rpc::server> server_;
  std::unique_ptr<core> core_;
  std::unique_ptr<engine> engine_;
  std::unique_ptr<mappings> mappings_;
};

// Defaults, overridden by the caller's fields and by the environment, and checked. `config` may be
// null.
result<tnd_gfile_config> configure(const tnd_gfile_config *config);

}  // namespace tanada::gfile
