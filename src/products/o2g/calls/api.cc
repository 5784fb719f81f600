// products/o2g/calls/api.cc: the C functions of tanada/o2g.h, which call the one
// service of the process.
#include <tanada/o2g.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "core/base/settings.hpp"
#include "products/o2g/calls/driver_fallback.hpp"
#include "products/o2g/calls/receive_service.hpp"
#include "seams/os/fork_handler.hpp"

using namespace tanada;
using o2g::calls::receive_service;

namespace {

mutex init_mutex;
std::atomic<receive_service *> process_service = nullptr;

template <class Function>
tnd_status catch_bad_alloc(Function function) noexcept {
  try {
    return tnd_status(function());
  } catch (const std::bad_alloc &) {
    return tnd_status(fail(status::no_memory, "insufficient memory"));
  }
}

template <class Function>
tnd_status with_service(Function function) noexcept {
  return catch_bad_alloc([&] {
    receive_service *const instance = process_service.load(std::memory_order_acquire);
    return instance == nullptr ? fail(status::bad_state, "o2g_init() has not been called")
                               : function(*instance);
  });
}

template <class Function>
tnd_status with_entry(queue_entry *entry, Function function) noexcept {
  return with_service([&](receive_service &instance) {
    return entry == nullptr ? fail(status::invalid, "the entry is NULL")
                            : function(instance, *entry);
  });
}

}  // namespace

tnd_status o2g_init(int n_socks) noexcept {
  return catch_bad_alloc([&] {
    TND_TRY(settings_check());
    if (n_socks < 1 || n_socks > O2G_SOCKET_COUNT_MAX)
      return fail(status::invalid, "{} sockets", n_socks);
    static bool const has_handler = seams::run_in_forked_child(
        [] { process_service.store(nullptr, std::memory_order_relaxed); });
    if (!has_handler)
      return fail(status::no_memory, "insufficient memory");
    lock_guard lock{init_mutex};
    if (process_service.load() != nullptr)
      return fail(status::busy, "o2g_init() has already been called");
    auto created = o2g::calls::create_service(uint32_t(n_socks), std::getenv("TND_O2G_DRIVER"));
    if (!created.ok())
      return created.error();
    o2g::calls::service_choice chosen = std::move(created).value();
    log(log_level::info, "{}", chosen.reason.c_str());
    process_service.store(chosen.service.release(), std::memory_order_release);
    return status::ok;
  });
}

tnd_status o2g_fini(void) noexcept {
  lock_guard lock{init_mutex};
  receive_service *const instance = process_service.exchange(nullptr);
  if (instance == nullptr)
    return tnd_status(fail(status::bad_state, "o2g_init() has not been called"));
  delete instance;
  return TND_OK;
}

tnd_status o2g_register_socket(int sock, int rank) noexcept {
  return with_service([&](receive_service &instance) { return instance.add_socket(sock, rank); });
}

tnd_status o2g_set_dump_area(void *area, size_t size) noexcept {
  return with_service([&](receive_service &instance) {
    if (area == nullptr)
      return fail(status::invalid, "the area is NULL");
    return instance.set_dump_area({static_cast<std::byte *>(area), size});
  });
}

tnd_status o2g_start_dumper_thread(int n_thrds) noexcept {
  return with_service([&](receive_service &instance) {
    if (n_thrds < 0 || n_thrds > O2G_THREAD_COUNT_MAX)
      return fail(status::invalid, "{} threads", n_thrds);
    return instance.start_threads(uint32_t(n_thrds));
  });
}

tnd_status o2g_put_entry(queue_entry *entry) noexcept {
  return with_entry(
      entry, [](receive_service &instance, queue_entry &target) { return instance.put(target); });
}

tnd_status o2g_cancel_entry(queue_entry *entry) noexcept {
  return with_entry(entry, [](receive_service &instance, queue_entry &target) {
    return instance.cancel(target);
  });
}

tnd_status o2g_free_entry(queue_entry *entry) noexcept {
  return with_entry(
      entry, [](receive_service &instance, queue_entry &target) { return instance.free(target); });
}

tnd_status o2g_poll(void) noexcept {
  return with_service(
      [](receive_service &instance) { return instance.poll(nullptr, TND_NO_DEADLINE); });
}

tnd_status o2g_poll_for(uint64_t *event_count, uint64_t timeout_ns) noexcept {
  return with_service([&](receive_service &instance) {
    return event_count == nullptr ? fail(status::invalid, "event_count is NULL")
                                  : instance.poll(event_count, timeout_ns);
  });
}

uint64_t o2g_sequence(void) noexcept {
  receive_service *const instance = process_service.load(std::memory_order_acquire);
  return instance == nullptr ? 0 : instance->sequence();
}

queue_entry *o2g_next_entry(const queue_entry *after) noexcept {
  receive_service *const instance = process_service.load(std::memory_order_acquire);
  return instance == nullptr ? nullptr : instance->next(after);
}

tnd_status o2g_find_entry(queue_entry *expected, queue_entry **match) noexcept {
  return with_entry(expected, [&](receive_service &instance, queue_entry &target) {
    return match == nullptr ? fail(status::invalid, "match is NULL")
                            : instance.find(target, *match);
  });
}

uint32_t o2g_entry_flags(const queue_entry *entry) noexcept {
  if (entry == nullptr)
    return 0;
  receive_service *const instance = process_service.load(std::memory_order_acquire);
  return instance == nullptr ? o2g::calls::load_flags(*entry)
                             : instance->flags(const_cast<queue_entry &>(*entry));
}

tnd_status o2g_rank_status(int rank) noexcept {
  return with_service([&](receive_service &instance) { return instance.rank_status(rank); });
}

tnd_status o2g_get_statistics(o2g_statistics *statistics) noexcept {
  return with_service([&](receive_service &instance) {
    if (statistics == nullptr || statistics->struct_size < sizeof *statistics)
      return fail(status::invalid, "struct_size is too small");
    instance.count(*statistics);
    return status::ok;
  });
}
