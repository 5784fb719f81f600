// products/o2g/calls/api.cc: tanada/o2g.h over the process's one receiver.
#include <tanada/o2g.h>

#include <atomic>
#include <cstring>
#include <new>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "core/base/settings.hpp"
#include "products/o2g/calls/receiver.hpp"

using namespace tanada;
using o2g::seed::receiver;

namespace {

mutex begin_mutex;
std::atomic<receiver *> the_receiver = nullptr;

template <class Function>
tnd_status fenced(Function function) noexcept {
  try {
    return tnd_status(function());
  } catch (const std::bad_alloc &) {
    return tnd_status(fail(status::no_memory, "no memory"));
  }
}

template <class Function>
tnd_status on_receiver(Function function) noexcept {
  return fenced([&] {
    receiver *const at = the_receiver.load(std::memory_order_acquire);
    return at == nullptr ? fail(status::bad_state, "o2g_init() was not called") : function(*at);
  });
}

template <class Function>
tnd_status on_entry(queue_entry *entry, Function function) noexcept {
  return on_receiver([&](receiver &at) {
    return entry == nullptr ? fail(status::invalid, "the entry is NULL") : function(at, *entry);
  });
}

}  // namespace

tnd_status o2g_init(int n_socks) noexcept {
  return fenced([&] {
    TND_TRY(settings_check());
    if (n_socks < 1 || n_socks > O2G_SOCKET_COUNT_MAX)
      return fail(status::invalid, "%d sockets", n_socks);
    lock_guard lock{begin_mutex};
    if (the_receiver.load() != nullptr)
      return fail(status::busy, "o2g_init() was called before");
    auto made = receiver::create(uint32_t(n_socks));
    if (!made.ok())
      return made.error();
    the_receiver.store(std::move(made).value().release(), std::memory_order_release);
    return status::ok;
  });
}

tnd_status o2g_fini(void) noexcept {
  lock_guard lock{begin_mutex};
  receiver *const at = the_receiver.exchange(nullptr);
  if (at == nullptr)
    return tnd_status(fail(status::bad_state, "o2g_init() was not called"));
  delete at;
  return TND_OK;
}

tnd_status o2g_register_socket(int sock, int rank) noexcept {
  return on_receiver([&](receiver &at) { return at.add_socket(sock, rank); });
}

tnd_status o2g_set_dump_area(void *area, size_t size) noexcept {
  return on_receiver([&](receiver &at) {
    if (area == nullptr)
      return fail(status::invalid, "the area is NULL");
    return at.set_dump_area({static_cast<std::byte *>(area), size});
  });
}

tnd_status o2g_start_dumper_thread(int n_thrds) noexcept {
  return on_receiver([&](receiver &at) {
    if (n_thrds < 0 || n_thrds > O2G_THREAD_COUNT_MAX)
      return fail(status::invalid, "%d threads", n_thrds);
    return at.start_threads(uint32_t(n_thrds));
  });
}

tnd_status o2g_put_entry(queue_entry *entry) noexcept {
  return on_entry(entry, [](receiver &at, queue_entry &one) { return at.put(one); });
}

tnd_status o2g_cancel_entry(queue_entry *entry) noexcept {
  return on_entry(entry, [](receiver &at, queue_entry &one) { return at.cancel(one); });
}

tnd_status o2g_free_entry(queue_entry *entry) noexcept {
  return on_entry(entry, [](receiver &at, queue_entry &one) { return at.free(one); });
}

tnd_status o2g_poll(void) noexcept {
  return on_receiver([](receiver &at) { return at.poll(nullptr, TND_NO_DEADLINE); });
}

tnd_status o2g_poll_for(uint64_t *seen, uint64_t timeout_ns) noexcept {
  return on_receiver([&](receiver &at) {
    return seen == nullptr ? fail(status::invalid, "seen is NULL") : at.poll(seen, timeout_ns);
  });
}

uint64_t o2g_sequence(void) noexcept {
  receiver *const at = the_receiver.load(std::memory_order_acquire);
  return at == nullptr ? 0 : at->sequence();
}

queue_entry *o2g_next_entry(const queue_entry *after) noexcept {
  receiver *const at = the_receiver.load(std::memory_order_acquire);
  return at == nullptr ? nullptr : at->next(after);
}

tnd_status o2g_find_entry(queue_entry *expected, queue_entry **found) noexcept {
  return on_entry(expected, [&](receiver &at, queue_entry &one) {
    return found == nullptr ? fail(status::invalid, "found is NULL") : at.find(one, *found);
  });
}

uint32_t o2g_entry_flags(const queue_entry *entry) noexcept {
  return entry == nullptr ? 0
                          : std::atomic_ref{const_cast<queue_entry *>(entry)->flags}.load(
                                std::memory_order_acquire);
}

tnd_status o2g_rank_status(int rank) noexcept {
  return on_receiver([&](receiver &at) { return at.rank_status(rank); });
}

tnd_status o2g_get_statistics(o2g_statistics *statistics) noexcept {
  return on_receiver([&](receiver &at) {
    if (statistics == nullptr || statistics->struct_size < sizeof *statistics)
      return fail(status::invalid, "struct_size is too small");
    at.count(*statistics);
    return status::ok;
  });
}
