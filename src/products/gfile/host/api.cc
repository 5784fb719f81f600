// products/gfile/host/api.cc: the C ABI of tanada/gfile.h: statuses out, no exception through.
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

// The modules that hold kernels and the process's instance. Lock: covers both, and every update.
struct process_state {
  tanada::mutex mutex;
  std::vector<module> modules;
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
    return tnd_status(fail(error.code().value() > 0 ? status(-error.code().value()) : status::io,
                           "%s", error.what()));
  } catch (const std::exception &error) {
    return tnd_status(fail(status::io, "%s", error.what()));
  }
}

port::gpu_choice choose_device(uint32_t device) {
  if (device == TND_GFILE_DEVICE_HOST)
    return port::gpu_choice::host;
  if (device == TND_GFILE_DEVICE_CUDA)
    return port::gpu_choice::cuda;
  lock_guard const lock{process().mutex};
  auto const &modules = process().modules;
  size_t const cuda_count =
      size_t(std::count_if(modules.begin(), modules.end(), [](auto &m) { return m.is_cuda; }));
  if (modules.empty())
    return port::gpu_choice::automatic;
  if (cuda_count == 0)
    return port::gpu_choice::host;
  // The host executor cannot run what nvcc compiled: without a GPU no kernel of such a program
  // would run.
  return cuda_count == modules.size() ? port::gpu_choice::cuda : port::gpu_choice::automatic;
}

uint32_t default_threads(const port::gpu_info &info) {
  uint32_t const processors = std::max(std::thread::hardware_concurrency(), 1u);
  return info.is_cuda ? std::clamp(processors, 1u, 16u) : std::clamp(processors / 4, 1u, 4u);
}

status create(const tnd_gfile_config *config, tnd_gfile **gfile) {
  if (gfile == nullptr)
    return fail(status::invalid, "tnd_gfile_create: gfile is NULL");
  TND_TRY(port::trace::start_from_environment());
  auto settings = configure(config);
  if (!settings.ok())
    return settings.error();
  auto gpu = port::gpu_open(choose_device(settings.value().device), settings.value().device_index);
  if (!gpu.ok())
    return gpu.error();
  if (settings.value().service_threads == 0)
    settings.value().service_threads = default_threads(gpu.value()->info());
  auto made = session::create(
      settings.value(),
      {std::move(gpu).value(), std::make_unique<port::store_registry>(), &port::monotonic_clock()});
  if (!made.ok())
    return made.error();
  auto published = publisher::create(*made.value(), settings.value());
  if (!published.ok())
    return published.error();
  *gfile = new tnd_gfile{std::move(made).value(), std::move(published).value()};
  exit_flush::add(*(*gfile)->session);
  return status::ok;
}

// Kernels or stores may still touch the session's memory: it is kept, within reach, until the
// process ends.
void leave_behind(std::unique_ptr<session> left) {
  static auto &all = *new std::vector<std::unique_ptr<session>>;
  static auto &mutex = *new tanada::mutex;
  lock_guard const lock{mutex};
  all.push_back(std::move(left));
}

status destroy(tnd_gfile *gfile) {
  if (gfile == nullptr)
    return status::ok;
  status const code = gfile->session->shut_down();
  exit_flush::remove(*gfile->session);
  gfile->publisher.reset();
  if (gfile->session->left_behind())
    leave_behind(std::move(gfile->session));
  delete gfile;
  return code;
}

// Tell the modules of the instance's kind; under the process's lock.
status update_modules(const tnd_gfile_ref &ref, bool is_cuda) {
  status first = status::ok;
  for (const module &each : process().modules) {
    if (each.update == nullptr || each.is_cuda != is_cuda)
      continue;
    status const code = status(each.update(&ref));
    if (first == status::ok)
      first = code;
  }
  return first;
}

status initialize(const tnd_gfile_config *config) {
  if (process().instance.load() != nullptr)
    return fail(status::busy, "ginitialize: initialised already");
  tnd_gfile *made = nullptr;
  TND_TRY(create(config, &made));
  lock_guard const lock{process().mutex};
  tnd_gfile *none = nullptr;
  if (!process().instance.compare_exchange_strong(none, made)) {
    (void)destroy(made);
    return fail(status::busy, "ginitialize: initialised already");
  }
  status const told = update_modules(made->session->ref(), made->session->is_cuda());
  if (told == status::ok)
    return told;
  (void)update_modules({nullptr, 0}, made->session->is_cuda());  // those that took it
  process().instance.store(nullptr);
  (void)destroy(made);
  return fail(told, "ginitialize: a module of the program did not take the instance");
}

status finalize() {
  tnd_gfile *instance;
  {
    lock_guard const lock{process().mutex};  // a module that registers just now has it in its hands
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
    tnd_gfile_statistics all;
    TND_TRY(gfile->session->get_statistics(all));
    all.struct_size = std::min(statistics->struct_size, uint32_t(sizeof all));
    std::memcpy(statistics, &all, all.struct_size);
    return status::ok;
  });
}

tnd_status tnd_gfile_get_files(tnd_gfile *gfile, tnd_gfile_file *files, uint32_t capacity,
                               uint32_t *count) noexcept {
  return guarded([&] {
    if (gfile == nullptr || count == nullptr || (files == nullptr && capacity > 0))
      return fail(status::invalid, "tnd_gfile_get_files: NULL");
    std::vector<tnd_gfile_file> found;
    TND_TRY(gfile->session->get_files(found));
    std::copy_n(found.begin(), std::min<size_t>(found.size(), capacity), files);
    *count = uint32_t(found.size());
    return status::ok;
  });
}

tnd_status tnd_gfile_get_fault(tnd_gfile *gfile, tnd_gfile_fault *fault) noexcept {
  return guarded([&] {
    constexpr size_t oldest = offsetof(tnd_gfile_fault, url);
    if (gfile == nullptr || fault == nullptr || fault->struct_size < oldest)
      return fail(status::invalid, "tnd_gfile_get_fault: NULL, or struct_size too small");
    tnd_gfile_fault seen;
    gfile->session->get_fault(seen);
    seen.struct_size = std::min(fault->struct_size, uint32_t(sizeof seen));
    std::memcpy(fault, &seen, seen.struct_size);
    return status::ok;
  });
}

tnd_status tnd_gfile_trace_start(const char *path) noexcept {
  return guarded([&] {
    return path == nullptr ? fail(status::invalid, "tnd_gfile_trace_start: NULL")
                           : port::trace::start(path);
  });
}

tnd_status tnd_gfile_trace_stop() noexcept {
  return guarded(port::trace::stop);
}

tnd_gfile *tnd_gfile_default() noexcept {
  return process().instance.load(std::memory_order_acquire);
}

tnd_status tnd_gfile_register_module(int is_cuda, tnd_gfile_module_update update) noexcept {
  return guarded([&] {
    if (is_cuda != 0 && is_cuda != 1)
      return fail(status::invalid, "tnd_gfile_register_module: is_cuda is %d; it must be 0 or 1",
                  is_cuda);
    lock_guard const lock{process().mutex};
    if (process().modules.size() >= 1024)
      return fail(status::no_memory, "tnd_gfile_register_module: 1024 are registered");
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
