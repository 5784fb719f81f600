// products/shmem/device_service.hpp: the kernels' view of one job, and the thread that carries out
// their requests and reports failed PEs to them.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "onesided/job/context.hpp"
#include "products/shmem/device_side.hpp"
#include "rpc/server.hpp"
#include <tanada/device/detail/shmem/view.hpp>

namespace tanada::shmem {

struct device_options {
  uint64_t timeout_ns = ~uint64_t{0};  // of each wait in a kernel
  bool is_direct =
      true;  // kernels access mapped PEs' memory directly; otherwise the host does everything
  bool is_strict = false;      // kernels' local buffers must be memory of the job's devices
  bool takes_private = false;  // see device::view

  // Overrides the above by TND_SHMEM_DEVICE_TIMEOUT, TND_SHMEM_DEVICE_DIRECT,
  // TND_SHMEM_DEVICE_STRICT and TND_SHMEM_DEVICE_PRIVATE. On failure there is a message.
  status read_environment();
};

// Thread safety: fault(), any thread; the other calls are serialized by the caller.
class device_service final : rpc::server::handler {
 public:
  // The job has device memory. `device` and `job` outlive the service.
  static result<std::unique_ptr<device_service>> start(onesided::job &job,
                                                       seams::gpu &device,
                                                       const device_options &options);
  ~device_service();

  const device::view &view() const noexcept {
    return view_;
  }
  const device::fault_record &fault() const noexcept {
    return *fault_;
  }

  // Entries of the view's tables by index. start() sets team 0; the caller sets team 1 before it
  // passes view() to kernels.
  status team_set(size_t index, const device_members &members);
  status team_clear(size_t index);
  result<size_t> context_set(const device_members &members);
  status context_clear(size_t index);

 private:
  device_service(onesided::job &job, seams::gpu &device, const device_options &options);

  status allocate();
  status set_view();
  status set_distances();
  status set_first_teams();
  template <class T>
  status allocate_zeros(T *&target, size_t count);
  void run();
  void sleep_for(std::chrono::nanoseconds period);
  bool serve();
  void watch();

  void on_request(u32 slot, const rpc::request &request, std::string_view text) override;
  void on_finished(u32, bool) override {}
  result<std::byte *> own_memory(const rpc::request &request, u32 slot, u64 word, u64 size) const;
  status move(const rpc::request &request, u32 slot, onesided::pe_index pe);
  status put_signal(const rpc::request &request, u32 slot, onesided::pe_index pe);
  status update(const rpc::request &request, u32 unit, onesided::pe_index pe, u64 &before);
  status move_rows(const rpc::request &request, u32 slot, onesided::pe_index pe);

  onesided::job &job_;
  seams::gpu &gpu_;
  device_options options_;
  device::view view_{};
  std::vector<void *> device_memory_, host_memory_;
  device::team_entry *teams_ = nullptr;  // device memory, like the next three
  device::context_entry *contexts_ = nullptr;
  int *team_pes_ = nullptr, *context_pes_ = nullptr;  // a row of job.count() entries for each
  device::fault_record *fault_ = nullptr;             // host memory mapped for kernels
  rpc::mailbox *mail_ = nullptr;
  std::unique_ptr<rpc::server> server_;
  std::optional<onesided::context> context_;  // used only by the thread
  onesided::lane *lane_ = nullptr;
  std::vector<bool> context_used_;
  bool has_reported_loss_ = false;  // kernels have been notified of a failed PE
  mutex mutex_;
  condition_variable wake_;
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace tanada::shmem
