// backends/linux/guarded_memory.cc: replaces lost pages of mapped files with zeros, in a SIGBUS
// handler.
#include "seams/os/guarded_memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::seams {
namespace {

// The handler may read an entry at any time: `begin` is set last and cleared first.
struct entry {
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0}, granule{0}, lost_count{0};
  std::atomic<std::atomic<uint64_t> *> bits{nullptr};  // one for each granule
  bool is_used = false;                                // guarded by the mutex of the table
};

struct table {
  tanada::mutex mutex;
  entry entries[guarded_memory_count_max];
  struct sigaction previous{};
  size_t page_size = 0;
  bool installed = false;
};

// Created before the handler is installed, and never destroyed.
table &guard_table() {
  static table &instance = *new table;
  return instance;
}

table *handler_table = nullptr;  // for the handler, which must not construct objects

// Uses only what is safe in a signal handler: atomics and raw system calls.
bool replace_granule(uintptr_t addr) {
  for (entry &range : handler_table->entries) {
    uintptr_t const begin = range.begin.load(std::memory_order_acquire);
    if (begin == 0 || addr < begin || addr - begin >= range.size.load(std::memory_order_relaxed))
      continue;
    size_t const granule = range.granule.load(std::memory_order_relaxed);
    size_t const index = (addr - begin) / granule;
    // Record the loss before the zeros are visible, so that a thread that reads zeros and then
    // checks finds it recorded.
    uint64_t const bit = uint64_t{1} << (index % 64);
    uint64_t const old_bits = range.bits.load(std::memory_order_relaxed)[index / 64].fetch_or(bit);
    if ((old_bits & bit) == 0)
      range.lost_count.fetch_add(1);
    long const mapped = syscall(SYS_mmap,
                                begin + index * granule,
                                granule,
                                PROT_READ | PROT_WRITE,
                                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
                                -1,
                                0);
    return mapped == long(begin + index * granule);
  }
  return false;
}

void on_bus_error(int number, siginfo_t *about, void *context) {
  int const error = errno;
  // BUS_MCEERR_AR: the memory has lost bytes that were about to be loaded.
  bool const is_loss = about->si_code == BUS_ADRERR || about->si_code == BUS_MCEERR_AR;
  bool const replaced = is_loss && replace_granule(reinterpret_cast<uintptr_t>(about->si_addr));
  errno = error;
  if (replaced)
    return;
  struct sigaction const &previous = handler_table->previous;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, about, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {
    // On return the access is repeated and ends the process as without this handler.
    struct sigaction default_action{};
    default_action.sa_handler = SIG_DFL;
    sigaction(SIGBUS, &default_action, nullptr);
    if (about->si_code <= 0)
      raise(number);  // sent by a process: no access is repeated
  }
}

status install(table &registry) {
  if (registry.installed)
    return status::ok;
  registry.page_size = size_t(sysconf(_SC_PAGESIZE));
  handler_table = &registry;
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (sigaction(SIGBUS, &action, &registry.previous) != 0)
    return fail(status::not_supported, "cannot install a handler for SIGBUS");
  registry.installed = true;
  return status::ok;
}

}  // namespace

result<std::unique_ptr<guarded_memory>> guarded_memory::guard(std::byte *addr,
                                                              size_t size,
                                                              size_t granule) {
  table &registry = guard_table();
  lock_guard lock{registry.mutex};
  TND_TRY(install(registry));
  size_t free = guarded_memory_count_max;
  for (size_t i = 0; i < guarded_memory_count_max && free == guarded_memory_count_max; i++)
    if (!registry.entries[i].is_used)
      free = i;
  if (free == guarded_memory_count_max)
    return fail(status::no_space, "all {} guarded ranges are in use", free);
  entry &range = registry.entries[free];
  TND_ASSERT(range.begin == 0 && range.bits == nullptr);
  if (granule == 0)
    granule = registry.page_size;
  TND_ASSERT(granule % registry.page_size == 0 && size % granule == 0);
  TND_ASSERT(reinterpret_cast<uintptr_t>(addr) % granule == 0);
  size_t const words = (size / granule + 63) / 64;
  range.bits = new std::atomic<uint64_t>[words]();
  range.size = size;
  range.granule = granule;
  range.lost_count = 0;
  range.is_used = true;
  range.begin.store(reinterpret_cast<uintptr_t>(addr), std::memory_order_release);
  return std::unique_ptr<guarded_memory>{new guarded_memory{free, granule}};
}

guarded_memory::~guarded_memory() {
  table &registry = guard_table();
  lock_guard lock{registry.mutex};
  TND_ASSERT(entry_ < guarded_memory_count_max);
  entry &action = registry.entries[entry_];
  TND_ASSERT(action.is_used);
  action.begin = 0;
  action.is_used = false;
  delete[] action.bits.exchange(nullptr);
}

size_t guarded_memory::replaced_count() const noexcept {
  return guard_table().entries[entry_].lost_count.load();
}

bool guarded_memory::is_replaced(size_t index) const noexcept {
  return (guard_table().entries[entry_].bits.load()[index / 64].load() >> (index % 64) & 1) != 0;
}

size_t guarded_memory::page_size() const noexcept {
  TND_ASSERT(guard_table().page_size != 0);
  return guard_table().page_size;
}

}  // namespace tanada::seams
