// products/gfile/host/api.cc: the C ABI of tanada/gfile.h: returns statuses, lets no exception
// through.
#include <tanada/gfile.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/gfile/host/exit_flush.hpp"
#include "products/gfile/host/publish.hpp"
#include "products/gfile/host/session.hpp"

struct tnd_gfile {
  std::unique_ptr<tanada::gfile::session> session;
  std::unique_ptr<tanada::gfile::publisher> publisher;
};

namespace tanada::gfile {
namespace {

struct module {
  bool is_cuda;
  tnd_gfile_module_update update;
};

// The modules that hold kernels, and the process's instance. The mutex covers both, and every
// update.
struct process_state {
  tanada::mutex mutex;
  std::vector<module> modules TND_GUARDED_BY(mutex);
  std::atomic<tnd_gfile *> instance{nullptr};
};

process_state &process() {
  static process_state *const state =
      new process_state;  // used by destructors of other objects, so never destroyed
  return *state;
}

template <class Function>
tnd_status guarded(Function function) noexcept {
  try {
    return tnd_status(function());
  } catch (const std::bad_alloc &) {
    return tnd_status(fail(status::no_memory, "out of host memory"));
  } catch (const std::system_error &error) {  // a thread that cannot be started
    return tnd_status(fail(
        error.code().value() > 0 ? status(-error.code().value()) : status::io, "{}", error.what()));
  } catch (const std::exception &error) {
    return tnd_status(fail(status::io, "{}", error.what()));
  }
}

seams::gpu_choice choose_device(uint32_t device) {
  if (device == TND_GFILE_DEVICE_HOST)
    return seams::gpu_choice::host;
  if (device == TND_GFILE_DEVICE_CUDA)
    return seams::gpu_choice::cuda;
  lock_guard const lock{process().mutex};
  auto const &modules = process().modules;
  size_t const cuda_count =
      size_t(std::count_if(modules.begin(), modules.end(), [](auto &m) { return m.is_cuda; }));
  if (modules.empty())
    return seams::gpu_choice::automatic;
  if (cuda_count == 0)
    return seams::gpu_choice::host;
  // The host executor cannot run what nvcc compiled, so such a program needs a GPU.
  return cuda_count == modules.size() ? seams::gpu_choice::cuda : seams::gpu_choice::automatic;
}

uint32_t default_threads(const seams::gpu_info &info) {
  uint32_t const processors = std::max(std::thread::hardware_concurrency(), 1u);
  return info.is_cuda ? std::clamp(processors, 1u, 16u) : std::clamp(processors / 4, 1u, 4u);
}

status create(const tnd_gfile_config *config, tnd_gfile **gfile) {
  if (gfile == nullptr)
    return fail(status::invalid, "tnd_gfile_create: gfile is NULL");
  TND_TRY(observe::trace::start_from_environment());
  auto settings = configure(config);
  if (!settings.ok())
    return settings.error();
  auto gpu = seams::gpu_open(choose_device(settings.value().device), settings.value().device_index);
  if (!gpu.ok())
    return gpu.error();
  if (settings.value().service_threads == 0)
    settings.value().service_threads = default_threads(gpu.value()->info());
  auto new_session = session::create(settings.value(),
                                     {std::move(gpu).value(),
                                      std::make_unique<backends::store_registry>(),
                                      &seams::monotonic_clock()});
  if (!new_session.ok())
    return new_session.error();
  auto published = publisher::create(*new_session.value(), settings.value());
  if (!published.ok())
    return published.error();
  *gfile = new tnd_gfile{std::move(new_session).value(), std::move(published).value()};
  exit_flush::add(*(*gfile)->session);
  return status::ok;
}

// Kernels or stores may still access the session's memory. It stays reachable until the process
// ends.
void leak_session(std::unique_ptr<session> unfinished) {
  static auto &sessions = *new std::vector<std::unique_ptr<session>>;
  static auto &mutex = *new tanada::mutex;
  lock_guard const lock{mutex};
  sessions.push_back(std::move(unfinished));
}

status destroy(tnd_gfile *gfile) {
  if (gfile == nullptr)
    return status::ok;
  status const code = gfile->session->shut_down();
  exit_flush::remove(*gfile->session);
  gfile->publisher.reset();
  if (gfile->session->must_leak())
    leak_session(std::move(gfile->session));
  delete gfile;
  return code;
}

// Update the modules of the instance's kind.
status update_modules(const tnd_gfile_ref &ref, bool is_cuda) TND_REQUIRES(process().mutex) {
  status first = status::ok;
  for (const module &entry : process().modules) {
    if (entry.update == nullptr || entry.is_cuda != is_cuda)
      continue;
    status const code = status(entry.update(&ref));
    if (first == status::ok)
      first = code;
  }
  return first;
}

status initialize(const tnd_gfile_config *config) {
  if (process().instance.load() != nullptr)
    return fail(status::busy, "ginitialize: already initialized");
  tnd_gfile *instance = nullptr;
  TND_TRY(create(config, &instance));
  lock_guard const lock{process().mutex};
  tnd_gfile *expected = nullptr;
  if (!process().instance.compare_exchange_strong(expected, instance)) {
    (void)destroy(instance);
    return fail(status::busy, "ginitialize: already initialized");
  }
  status const code = update_modules(instance->session->ref(), instance->session->is_cuda());
  if (code == status::ok)
    return code;
  (void)update_modules({nullptr, 0}, instance->session->is_cuda());  // the modules that accepted it
  process().instance.store(nullptr);
  (void)destroy(instance);
  return fail(code, "ginitialize: a module of the program refused the instance");
}

status finalize() {
  tnd_gfile *instance;
  {
    lock_guard const lock{process().mutex};  // a module that is registering now may be using it
    instance = process().instance.exchange(nullptr);
  }
  if (instance == nullptr)
    return fail(status::bad_state, "gfinalize: ginitialize has not been called");
  bool const is_cuda = instance->session->is_cuda();
  status const code = destroy(instance);
  lock_guard const lock{process().mutex};
  if (code != status::device_lost)
    (void)update_modules({nullptr, 0}, is_cuda);
  return code;
}

}  // namespace
}  // namespace tanada::gfile

using namespace tanada;
using namespace tanada::gfile;

tnd_status tnd_gfile_create(const tnd_gfile_config *config, tnd_gfile **gfile) noexcept {
  return guarded([&] { return create(config, gfile); });
}

tnd_gfile_ref tnd_gfile_get_ref(const tnd_gfile *gfile) noexcept {
  return gfile == nullptr ? tnd_gfile_ref{nullptr, 0} : gfile->session->ref();
}

tnd_status tnd_gfile_wait(tnd_gfile *gfile, uint64_t timeout_ns) noexcept {
  return guarded([&] {
    return gfile == nullptr ? fail(status::invalid, "tnd_gfile_wait: gfile is NULL")
                            : gfile->session->wait(timeout_ns);
  });
}

tnd_status tnd_gfile_destroy(tnd_gfile *gfile) noexcept {
  return guarded([&] { return destroy(gfile); });
}

tnd_status tnd_gfile_get_statistics(tnd_gfile *gfile, tnd_gfile_statistics *statistics) noexcept {
  return guarded([&] {
    constexpr size_t oldest = offsetof(tnd_gfile_statistics, mapped_copies);
    if (gfile == nullptr || statistics == nullptr || statistics->struct_size < oldest)
      return fail(status::invalid, "tnd_gfile_get_statistics: NULL, or struct_size too small");
    tnd_gfile_statistics current;
    TND_TRY(gfile->session->get_statistics(current));
    current.struct_size = std::min(statistics->struct_size, uint32_t(sizeof current));
    std::memcpy(statistics, &current, current.struct_size);
    return status::ok;
  });
}

tnd_status tnd_gfile_get_files(tnd_gfile *gfile,
                               tnd_gfile_file *files,
                               uint32_t capacity,
                               uint32_t *count) noexcept {
  return guarded([&] {
    if (gfile == nullptr || count == nullptr || (files == nullptr && capacity > 0))
      return fail(status::invalid, "tnd_gfile_get_files: an argument is NULL");
    std::vector<tnd_gfile_file> all_files;
    TND_TRY(gfile->session->get_files(all_files));
    std::copy_n(all_files.begin(), std::min<size_t>(all_files.size(), capacity), files);
    *count = uint32_t(all_files.size());
    return status::ok;
  });
}

tnd_status tnd_gfile_get_fault(tnd_gfile *gfile, tnd_gfile_fault *fault) noexcept {
  return guarded([&] {
    constexpr size_t oldest = offsetof(tnd_gfile_fault, url);
    if (gfile == nullptr || fault == nullptr || fault->struct_size < oldest)
      return fail(status::invalid, "tnd_gfile_get_fault: NULL, or struct_size too small");
    tnd_gfile_fault recorded;
    gfile->session->get_fault(recorded);
    recorded.struct_size = std::min(fault->struct_size, uint32_t(sizeof recorded));
    std::memcpy(fault, &recorded, recorded.struct_size);
    return status::ok;
  });
}

tnd_status tnd_gfile_trace_start(const char *path) noexcept {
  return guarded([&] {
    return path == nullptr ? fail(status::invalid, "tnd_gfile_trace_start: path is NULL")
                           : observe::trace::start(path);
  });
}

tnd_status tnd_gfile_trace_stop() noexcept {
  return guarded(observe::trace::stop);
}

tnd_gfile *tnd_gfile_default() noexcept {
  return process().instance.load(std::memory_order_acquire);
}

tnd_status tnd_gfile_register_module(int is_cuda, tnd_gfile_module_update update) noexcept {
  return guarded([&] {
    if (is_cuda != 0 && is_cuda != 1)
      return fail(
          status::invalid, "tnd_gfile_register_module: is_cuda is {}; it must be 0 or 1", is_cuda);
    lock_guard const lock{process().mutex};
    if (process().modules.size() >= 1024)
      return fail(status::no_memory, "tnd_gfile_register_module: already 1024 modules registered");
    process().modules.push_back({is_cuda == 1, update});
    tnd_gfile *const instance = process().instance.load();
    if (instance == nullptr || update == nullptr || instance->session->is_cuda() != (is_cuda == 1))
      return status::ok;
    tnd_gfile_ref const ref = instance->session->ref();
    return status(update(&ref));
  });
}

tnd_status ginitialize(const tnd_gfile_config *config) noexcept {
  return guarded([&] { return initialize(config); });
}

tnd_status ghandle() noexcept {
  return guarded([&] {
    tnd_gfile *const instance = process().instance.load();
    if (instance == nullptr)
      return fail(status::bad_state, "ghandle: ginitialize has not been called");
    return instance->session->wait(instance->session->wait_timeout_ns());
  });
}

tnd_status gfinalize() noexcept {
  return guarded(finalize);
}
