// backends/hostgpu/host_blocks.cc: shared memory blocks of the host executor.
#include "backends/hostgpu/host_blocks.hpp"

#include <sys/mman.h>

#include <vector>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::backends {
namespace {

// Reserves inaccessible addresses, aligned as shared memory is.
result<void *> guard(size_t size) {
  constexpr size_t alignment = seams::shared_mapping::alignment;
  void *const whole = mmap(
      nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED)
    return fail(
        status::no_memory, "cannot reserve {} bytes of addresses for guarded device memory", size);
  auto const begin = reinterpret_cast<uintptr_t>(whole);
  auto const start = (begin + alignment - 1) / alignment * alignment;
  TND_ASSERT(start % alignment == 0 && start - begin < alignment);
  if (start != begin)
    munmap(whole, start - begin);
  munmap(reinterpret_cast<void *>(start + size), begin + alignment - start);
  return reinterpret_cast<void *>(start);
}

bool is_within(const void *addr, const void *start, size_t size) {
  return size_t(static_cast<const std::byte *>(addr) - static_cast<const std::byte *>(start)) <
         size;
}

}  // namespace

host_blocks::~host_blocks() {
  std::vector<void *> addrs;
  {
    lock_guard const lock{mutex_};
    for (auto const &[addr, mapping] : blocks_)
      addrs.push_back(addr);
  }
  for (void *const addr : addrs)
    unmap(addr);
}

result<void *> host_blocks::map(int descriptor, size_t size) {
  auto mapped = seams::shared_mapping::map_shared(descriptor, size);
  if (!mapped.ok())
    return mapped.error();
  void *addr = mapped.value().memory().data();
  if (!is_guarded_ && has(addr)) {  // mappings of one device must not share addresses
    mapped = seams::shared_mapping::map(descriptor, size);
    if (!mapped.ok())
      return mapped.error();
    addr = mapped.value().memory().data();
  }
  if (is_guarded_) {
    auto guarded = guard(size);
    if (!guarded.ok())
      return guarded.error();
    addr = guarded.value();
  }
  lock_guard const lock{mutex_};
  blocks_[addr] = std::move(mapped).value();
  return addr;
}

void host_blocks::unmap(void *addr) noexcept {
  lock_guard const lock{mutex_};
  auto const it = blocks_.find(addr);
  if (it == blocks_.end())
    return;
  if (is_guarded_)
    munmap(addr, it->second.memory().size());
  blocks_.erase(it);
}

bool host_blocks::has(const void *addr) const noexcept {
  lock_guard const lock{mutex_};
  for (auto const &[start, mapping] : blocks_) {
    if (is_within(addr, start, mapping.memory().size()))
      return true;
  }
  return false;
}

void *host_blocks::translate(void *addr) const noexcept {
  lock_guard const lock{mutex_};
  for (auto const &[start, mapping] : blocks_) {
    if (!is_within(addr, start, mapping.memory().size()))
      continue;
    return mapping.memory().data() +
           (static_cast<std::byte *>(addr) - static_cast<std::byte *>(start));
  }
  return addr;
}

}  // namespace tanada::backends
