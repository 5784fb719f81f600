#include "seams/os/guarded_memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::port {
namespace {

// Read by the handler at any moment: `begin` is set last and taken away first.
struct entry {
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0}, lost_count{0};
  std::atomic<std::atomic<uint64_t> *> bits{nullptr};  // one a page
  bool taken = false;                                  // the mutex is held
};

struct table {
  tanada::mutex mutex;
  entry entries[guarded_memory_count_max];
  struct sigaction before{};
  size_t page_size = 0;
  bool installed = false;
};

// Made before a handler can run, and never destroyed.
table &all() {
  static table &only = *new table;
  return only;
}

table *handled = nullptr;  // of the handler, which must not construct anything

// Only what is safe in a signal handler: atomics and raw system calls.
bool replace(uintptr_t addr) {
  size_t const page_size = handled->page_size;
  for (entry &one : handled->entries) {
    uintptr_t const begin = one.begin.load(std::memory_order_acquire);
    if (begin == 0 || addr < begin || addr - begin >= one.size.load(std::memory_order_relaxed))
      continue;
    size_t const index = (addr - begin) / page_size;
    // Noted before the zeros are there: who reads zeros and asks then is told.
    uint64_t const bit = uint64_t{1} << (index % 64);
    uint64_t const before = one.bits.load(std::memory_order_relaxed)[index / 64].fetch_or(bit);
    if ((before & bit) == 0)
      one.lost_count.fetch_add(1);
    long const mapped =
        syscall(SYS_mmap, begin + index * page_size, page_size, PROT_READ | PROT_WRITE,
                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == long(begin + index * page_size);
  }
  return false;
}

void on_bus_error(int number, siginfo_t *about, void *context) {
  int const error = errno;
  bool const replaced =
      about->si_code == BUS_ADRERR && replace(reinterpret_cast<uintptr_t>(about->si_addr));
  errno = error;
  if (replaced)
    return;
  struct sigaction const &before = handled->before;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, about, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    // The access is made again on return, and ends the process as if nobody had looked.
    struct sigaction otherwise{};
    otherwise.sa_handler = SIG_DFL;
    sigaction(SIGBUS, &otherwise, nullptr);
    if (about->si_code <= 0)
      raise(number);  // sent by somebody: there is no access to be made again
  }
}

status install(table &known) {
  if (known.installed)
    return status::ok;
  known.page_size = size_t(sysconf(_SC_PAGESIZE));
  handled = &known;
  struct sigaction mine{};
  mine.sa_sigaction = on_bus_error;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (sigaction(SIGBUS, &mine, &known.before) != 0)
    return fail(status::not_supported, "SIGBUS cannot be handled");
  known.installed = true;
  return status::ok;
}

}  // namespace

result<std::unique_ptr<guarded_memory>> guarded_memory::guard(std::byte *addr, size_t size) {
  table &known = all();
  lock_guard lock{known.mutex};
  TND_TRY(install(known));
  size_t free = guarded_memory_count_max;
  for (size_t i = 0; i < guarded_memory_count_max && free == guarded_memory_count_max; i++)
    if (!known.entries[i].taken)
      free = i;
  if (free == guarded_memory_count_max)
    return fail(status::no_space, "%zu guarded ranges are in use", free);
  entry &one = known.entries[free];
  size_t const words = (size / known.page_size + 63) / 64;
  one.bits = new std::atomic<uint64_t>[words]();
  one.size = size;
  one.lost_count = 0;
  one.taken = true;
  one.begin.store(reinterpret_cast<uintptr_t>(addr), std::memory_order_release);
  return std::unique_ptr<guarded_memory>{new guarded_memory{free}};
}

guarded_memory::~guarded_memory() {
  table &known = all();
  lock_guard lock{known.mutex};
  entry &mine = known.entries[entry_];
  mine.begin = 0;
  mine.taken = false;
  delete[] mine.bits.exchange(nullptr);
}

size_t guarded_memory::lost_count() const noexcept {
  return all().entries[entry_].lost_count.load();
}

bool guarded_memory::is_lost(size_t index) const noexcept {
  return (all().entries[entry_].bits.load()[index / 64].load() >> (index % 64) & 1) != 0;
}

size_t guarded_memory::page_size() const noexcept {
  return all().page_size;
}

}  // namespace tanada::port
