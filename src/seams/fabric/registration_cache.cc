// Registrations for local use, kept by address range.
#include "seams/fabric/registration_cache.hpp"

#include <algorithm>

namespace tanada::seams {
namespace {

constexpr uintptr_t page_size = 4096;  // the smallest there is; larger pages consist of it
static_assert((page_size & (page_size - 1)) == 0);

bool contains(const fabric_memory &outer, const fabric_memory &inner) {
  return outer.kind == inner.kind && outer.device == inner.device && inner.addr >= outer.addr &&
         inner.size <= outer.size && size_t(inner.addr - outer.addr) <= outer.size - inner.size;
}

bool overlaps(const fabric_memory &memory, const std::byte *addr, size_t size) {
  return addr < memory.addr + memory.size && memory.addr < addr + size;
}

fabric_memory rounded_to_pages(const fabric_memory &memory) {
  if (memory.kind != fabric_memory_kind::host)
    return memory;
  auto const begin = reinterpret_cast<uintptr_t>(memory.addr) / page_size * page_size;
  auto const end = (reinterpret_cast<uintptr_t>(memory.addr) + memory.size + page_size - 1) /
                   page_size * page_size;
  fabric_memory whole = memory;
  whole.addr = memory.addr - (reinterpret_cast<uintptr_t>(memory.addr) - begin);
  whole.size = end - begin;
  return whole;
}

}  // namespace

registration_cache::registration_cache(backend network,
                                       registration_cache_limits limits,
                                       fabric_counters &counters)
    : backend_{std::move(network)}, limits_{limits}, counters_{counters} {}

registration_cache::~registration_cache() {
  while (!entries_.empty())
    close(entries_.begin());
}

registration_cache::list::iterator registration_cache::find(const fabric_memory &memory) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const registration &entry) {
    return !entry.is_stale && contains(entry.memory, memory);
  });
}

registration_cache::list::iterator registration_cache::find_entry(registration *target) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const registration &entry) {
    return &entry == target;
  });
}

void registration_cache::close(list::iterator position) {
  TND_ASSERT(position != entries_.end() && size_ >= position->memory.size);
  backend_.close(position->handle);
  size_ -= position->memory.size;
  entries_.erase(position);
}

void registration_cache::evict(uint64_t size) {
  auto position = entries_.end();
  while (position != entries_.begin() &&
         (entries_.size() >= limits_.count_max || size_ + size > limits_.size_max)) {
    auto const candidate = --position;
    if (candidate->users != 0)
      continue;
    position = std::next(candidate);
    close(candidate);
    counters_.registration_evictions++;
  }
}

result<registration_cache::registration *> registration_cache::acquire(
    const fabric_memory &memory) {
  auto position = find(memory);
  if (position != entries_.end()) {
    counters_.registration_hits++;
    entries_.splice(entries_.begin(), entries_, position);
  } else {
    counters_.registration_misses++;
    auto const whole = rounded_to_pages(memory);
    evict(whole.size);
    bool const is_full =
        entries_.size() >= limits_.count_max || size_ + whole.size > limits_.size_max;
    auto opened = backend_.open(whole);
    if (!opened.ok())
      return opened.error();
    entries_.push_front(
        {.memory = whole, .handle = opened.value(), .users = 0, .is_stale = is_full});
    size_ += whole.size;
    position = entries_.begin();
  }
  position->users++;
  return &*position;
}

void registration_cache::release(registration *released) {
  TND_ASSERT(released->users != 0);
  if (--released->users == 0 && released->is_stale)
    close(find_entry(released));
}

void registration_cache::forget(const std::byte *addr, size_t size) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto const entry = it++;
    if (!overlaps(entry->memory, addr, size))
      continue;
    entry->is_stale = true;
    if (entry->users == 0)
      close(entry);
  }
}

}  // namespace tanada::seams
