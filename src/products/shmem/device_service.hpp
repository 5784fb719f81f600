// products/shmem/device_service.hpp: the kernels' view of one job, and the thread that carries out
// their requests and reports failed PEs to them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "executor/event.hpp"
#include "onesided/job/context.hpp"
#include "products/shmem/device_side.hpp"
#include "rpc/post_reader.hpp"
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
  // The first fault that a kernel has recorded, or else that of a posted request.
  const device::fault_record &fault() const noexcept {
    bool const has_kernel_fault = __atomic_load_n(&fault_->filled, __ATOMIC_ACQUIRE) != 0;
    return has_kernel_fault ? *fault_ : post_fault_;
  }

  // Called by kernels on the host executor after a request. Thread safety: any thread.
  void wake() noexcept {
    wake_.signal();
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
  template <class T>
  status allocate_mapped(T *&target);
  void run();
  bool serve();
  void watch();

  // A request, and the memory that holds data of it.
  struct kernel_request {
    rpc::request body;
    std::span<std::byte> text;
  };
  void on_request(u32 slot, const rpc::request &body, std::string_view text) override;
  void on_finished(u32, bool) override {}
  result<std::byte *> own_memory(const kernel_request &request, u64 word, u64 size) const;
  // Bytes of rows without gaps. If they do not fit a text, a size that does not fit, either.
  static u64 rows_size(u64 unit, u64 count) noexcept {
    return unit != 0 && count <= rpc::post_text_size / unit ? unit * count : ~u64{0};
  }
  status put(const kernel_request &request);
  status put_rows(const kernel_request &request);
  status put_signal(const kernel_request &request);
  template <class T>
  status update(const rpc::request &request, u64 *before);
  status update_by_size(const rpc::request &request, u64 *before);
  status perform_post(const kernel_request &request);
  uint32_t perform_posts();
  void perform_posts_before(u64 limit);
  void record_post_fault(const rpc::request &request, status code);
  status start_get(const kernel_request &request);
  status start_get_word(const rpc::request &request, u64 &word);
  bool start_fetch(const kernel_request &request, u32 slot, status &code);
  void answer_fetches();
  status get_rows(const kernel_request &request);
  status quiet();

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
  std::optional<rpc::post_reader> posts_;
  // The first failure of a posted request, which every later fence and quiet returns.
  status post_status_ = status::ok;
  device::fault_record post_fault_{};
  std::vector<u32> fetches_;                  // slots that are answered when the context is quiet
  u64 fetched_words_[rpc::slot_count]{};      // by slot
  std::optional<onesided::context> context_;  // used only by the thread
  onesided::lane *lane_ = nullptr;
  std::vector<bool> context_used_;
  bool has_ended_waits_ = false;  // kernels have been notified of a failed PE
  bool do_kernels_wake_;          // as those on the host executor do
  simt::host::event wake_;
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace tanada::shmem
