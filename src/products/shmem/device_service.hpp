// products/shmem/device_service.hpp: the view of one job's kernels, and the thread that answers
// them and tells them of PEs that are lost.
#pragma once

#include <atomic>
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
      true;  // kernels load and store where they reach a PE's memory; else the host does everything
  bool is_strict =
      false;  // what kernels name of their own is memory of the job's devices, or refused

  // TND_SHMEM_DEVICE_TIMEOUT, TND_SHMEM_DEVICE_DIRECT, TND_SHMEM_DEVICE_STRICT over the above. With
  // a message.
  status read_environment();
};

// Thread safety: fault(), any thread; the others one at a time.
class device_service final : rpc::server::handler {
 public:
  // The job has device memory. `device` and job outlive it.
  static result<std::unique_ptr<device_service>> start(pgas::job &job, port::gpu &device,
                                                       const device_options &options);
  ~device_service();

  const device::view &view() const noexcept {
    return view_;
  }
  const device::fault_record &fault() const noexcept {
    return *fault_;
  }

  // By index in the view's table. The first is set already; the second is set before view() is
  // told.
  status team_set(size_t index, const device_members &who);
  status team_clear(size_t index);
  result<size_t> context_set(const device_members &who);
  status context_clear(size_t index);

 private:
  device_service(pgas::job &job, port::gpu &device, const device_options &options);

  status allocate();
  status set_view();
  status set_first_teams();
  template <class T>
  status allocate_zeros(T *&made, size_t count);
  void run();
  bool serve();
  void watch();

  void on_request(u32 slot, const rpc::request &asked, std::string_view text) override;
  void on_finished(u32, bool) override {}
  result<std::byte *> own_memory(const rpc::request &asked, u32 slot, u64 word, u64 size) const;
  status move(const rpc::request &asked, u32 slot, pgas::pe_index pe);
  status put_signal(const rpc::request &asked, u32 slot, pgas::pe_index pe);
  status update(const rpc::request &asked, u32 unit, pgas::pe_index pe, u64 &before);
  status move_rows(const rpc::request &asked, u32 slot, pgas::pe_index pe);

  pgas::job &job_;
  port::gpu &gpu_;
  device_options options_;
  device::view view_{};
  std::vector<void *> device_memory_, host_memory_;
  device::team_entry *teams_ = nullptr;  // device memory, as what follows
  device::context_entry *contexts_ = nullptr;
  int *team_pes_ = nullptr, *context_pes_ = nullptr;  // a row of as many as there are PEs for each
  device::fault_record *fault_ = nullptr;             // host memory that kernels reach
  rpc::mailbox *mail_ = nullptr;
  std::unique_ptr<rpc::server> server_;
  std::optional<pgas::context> context_;  // the thread's
  pgas::lane *lane_ = nullptr;
  std::vector<bool> context_used_;
  bool is_told_ = false;  // kernels know that a PE is lost
  mutex mutex_;
  condition_variable wake_;
  bool is_stopping_ = false;  // under the mutex
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace tanada::shmem
