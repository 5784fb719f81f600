// Registration of kernel modules, and the running job's device service.
#include "products/shmem/device_side.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/device_service.hpp"
#include "products/shmem/fatal.hpp"
#include "products/shmem/teams.hpp"

namespace tanada::shmem {
namespace {

using module_update = int (*)(const void *view, size_t size);

// The executors that kernel modules were compiled for. Programs register theirs before main().
struct module_list {
  tanada::mutex mutex;
  std::vector<module_update> hosts TND_GUARDED_BY(mutex);
  std::vector<module_update> cudas TND_GUARDED_BY(mutex);
};
module_list &modules() {
  static module_list list;
  return list;
}

std::unique_ptr<device_service> service;  // of the running job
std::atomic<void (*)()> executor_wake{nullptr};

constexpr const char *site_names[] = {"",       "put",        "get",    "p",        "g",
                                      "atomic", "put_signal", "signal", "wait",     "test",
                                      "fence",  "quiet",      "sync",   "barrier",  "iput",
                                      "iget",   "broadcast",  "reduce", "fcollect", "alltoall"};
static_assert(std::size(site_names) == size_t(device::site::count));

// Passes the view to all modules of the job's executor; null: the job ends.
status update_modules(bool is_cuda, const device::view *view) {
  auto &list = modules();
  tanada::lock_guard const lock{list.mutex};
  for (auto const update : is_cuda ? list.cudas : list.hosts) {
    if (update(view, sizeof *view) != 0)
      return fail(status::invalid,
                  "cannot set up the program's kernels: they were compiled for another libshmem, "
                  "or CUDA reported an error");
  }
  return status::ok;
}

// Sets variables that CUDA reads when it starts; the user's own values are kept.
//
// By default a kernel is loaded at its first launch. Loading waits for running kernels and holds a
// driver lock: a kernel that waits for the host, which must copy for it, would never end. Streams
// that share a device work queue wait for one another's kernels. A job uses more streams than the
// default of 8 queues.
void prepare_cuda() {
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

bool is_cuda_job(runtime &current) {
  return current.options.job.device->info().is_cuda;
}

}  // namespace

result<seams::gpu_choice> device_choice() {
  auto &list = modules();
  tanada::lock_guard const lock{list.mutex};
  if (!list.hosts.empty() && !list.cudas.empty()) {
    return fail(
        status::invalid,
        "the program has kernels for CUDA and for the host executor: a job runs one or the other");
  }
  if (!list.hosts.empty())
    return seams::gpu_choice::host;
  return list.cudas.empty() ? seams::gpu_choice::automatic : seams::gpu_choice::cuda;
}

size_t device_control_size(onesided::pe_index pe_count) noexcept {
  auto const count = u32(pe_count);
  return device::control_shape{count, device::control_shape::box_size_for(count)}.size();
}

status device_start(runtime &current) {
  TND_ASSERT(service == nullptr && current.device_shared != nullptr);
  device_options options;
  TND_TRY(options.read_environment());
  auto started = device_service::start(*current.job, *current.options.job.device, options);
  if (!started.ok())
    return started.error();
  service = std::move(started).value();
  auto const &shared = *current.device_shared;
  TND_TRY(service->team_set(1, {shared.members().pes, shared.me()}));
  const char *const loading = std::getenv("CUDA_MODULE_LOADING");
  if (service->view().has_unmapped != 0 && is_cuda_job(current) &&
      (loading == nullptr || std::string_view{loading} != "EAGER")) {
    log(log_level::warning,
        "CUDA_MODULE_LOADING is not EAGER: a kernel's first launch may wait for ever for kernels "
        "that call other PEs");
  }
  return update_modules(is_cuda_job(current), &service->view());
}

void device_stop(runtime &current) noexcept {
  if (service == nullptr)
    return;
  // Kernels end before the view and the service are destroyed. device_check() then reports their
  // faults.
  if (update_modules(is_cuda_job(current), nullptr) != status::ok)
    fatal("shmem_finalize",
          "cannot detach kernels: some are still running, or CUDA reported an error");
  device_check(current, "shmem_finalize");
  service.reset();
}

status device_team_add(runtime &, size_t slot, const device_members &members) {
  TND_ASSERT(slot < device_team_slots);
  return service == nullptr ? status::ok : service->team_set(slot + 2, members);
}
status device_team_remove(runtime &, size_t slot) {
  TND_ASSERT(slot < device_team_slots);
  return service == nullptr ? status::ok : service->team_clear(slot + 2);
}

result<shmem_ctx_t> device_context_add(runtime &, const device_members &members) {
  if (service == nullptr)
    return fail(status::bad_state,
                "this job has no kernel support: request SHMEM_DEVICE_KERNEL_INIT at init");
  auto const index = service->context_set(members);
  if (!index.ok())
    return index.error();
  return reinterpret_cast<shmem_ctx_t>(device_context_first + result{index}.value());
}

status device_context_remove(runtime &, shmem_ctx_t handle) {
  if (service == nullptr)
    return status::ok;  // device contexts ended with the service
  if (!is_device_context(handle) || handle == SHMEM_DEVICE_CTX_DEFAULT)
    return status::invalid;
  return service->context_clear(size_t(reinterpret_cast<uintptr_t>(handle) - device_context_first));
}

void wake_kernels() noexcept {
  if (auto *const wake = executor_wake.load(std::memory_order_relaxed))
    wake();
}

// What a fault means for its call.
std::string reason_of(const device::fault_record &fault, onesided::pe_index failed_pe) {
  switch (status(fault.code)) {
    case status::range:
      return "the memory is not symmetric";
    case status::peer_lost:
      return failed_pe >= 0 ? fmt::format("PE {} has failed", failed_pe)
                            : tnd_status_text(fault.code);
    default:
      return tnd_status_text(fault.code);
  }
}

void device_check(runtime &current, const char *call) {
  if (service == nullptr)
    return;
  auto const &fault = service->fault();
  if (__atomic_load_n(&fault.filled, __ATOMIC_ACQUIRE) == 0)
    return;
  auto const where = std::min(fault.call_site, u32(device::site::count) - 1);
  fatal(call,
        "in a kernel, {} failed (PE {}, address {}; block {}, thread {}): {}: {}",
        site_names[where],
        int(fault.words[1]),
        reinterpret_cast<void *>(fault.words[0]),
        fault.block,
        fault.thread,
        tnd_status_name(fault.code),
        reason_of(fault, current.job->failed_pe()));
}

}  // namespace tanada::shmem

using namespace tanada::shmem;

extern "C" [[gnu::visibility("default")]] void shmemx_executor_register(void (*wake_kernels)()) {
  executor_wake.store(wake_kernels, std::memory_order_relaxed);
}

// Kernels end before the service does.
extern "C" [[gnu::visibility("default")]] void shmemx_service_wake() {
  TND_ASSERT(service != nullptr);
  service->wake();
}

extern "C" [[gnu::visibility("default")]] int shmemx_module_register(int is_cuda,
                                                                     int (*update)(const void *view,
                                                                                   size_t size)) {
  auto &list = modules();
  {
    tanada::lock_guard const lock{list.mutex};
    // Modules of the program register before main(). Those loaded later find other threads running,
    // and CUDA may have started.
    if (is_cuda != 0 && list.cudas.empty() && service == nullptr)
      prepare_cuda();
    (is_cuda != 0 ? list.cudas : list.hosts).push_back(update);
  }
  if (service == nullptr)
    return 0;
  int const refused = update(&service->view(), sizeof service->view());
  end_before_later_libraries();
  return refused;
}
