#include "seams/fabric/registration_cache.hpp"

#include <algorithm>

namespace tanada::port {
namespace {

constexpr uintptr_t page_size = 4096;  // the smallest there is; larger pages consist of it

bool holds(const fabric_memory &outer, const fabric_memory &inner) {
  return outer.kind == inner.kind && outer.device == inner.device && inner.addr >= outer.addr &&
         inner.size <= outer.size && size_t(inner.addr - outer.addr) <= outer.size - inner.size;
}

bool touches(const fabric_memory &memory, const std::byte *addr, size_t size) {
  return addr < memory.addr + memory.size && memory.addr < addr + size;
}

fabric_memory in_pages(const fabric_memory &memory) {
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

registration_cache::registration_cache(backend how, registration_cache_limits limits,
                                       fabric_counters &counters)
    : how_{std::move(how)}, limits_{limits}, counters_{counters} {}

registration_cache::~registration_cache() {
  while (!all_.empty())
    close(all_.begin());
}

registration_cache::list::iterator registration_cache::find(const fabric_memory &memory) {
  return std::find_if(all_.begin(), all_.end(), [&](const registration &each) {
    return !each.forgotten && holds(each.memory, memory);
  });
}

registration_cache::list::iterator registration_cache::iterator_of(registration *which) {
  return std::find_if(all_.begin(), all_.end(),
                      [&](const registration &each) { return &each == which; });
}

void registration_cache::close(list::iterator which) {
  how_.close(which->handle);
  size_ -= which->memory.size;
  all_.erase(which);
}

void registration_cache::make_room(uint64_t size) {
  auto at = all_.end();
  while (at != all_.begin() &&
         (all_.size() >= limits_.count_max || size_ + size > limits_.size_max)) {
    auto const which = --at;
    if (which->users != 0)
      continue;
    at = std::next(which);
    close(which);
    counters_.registration_evictions++;
  }
}

result<registration_cache::registration *> registration_cache::acquire(
    const fabric_memory &memory) {
  auto at = find(memory);
  if (at != all_.end()) {
    counters_.registration_hits++;
    all_.splice(all_.begin(), all_, at);
  } else {
    counters_.registration_misses++;
    auto const whole = in_pages(memory);
    make_room(whole.size);
    bool const full = all_.size() >= limits_.count_max || size_ + whole.size > limits_.size_max;
    auto opened = how_.open(whole);
    if (!opened.ok())
      return opened.error();
    all_.push_front({.memory = whole, .handle = opened.value(), .users = 0, .forgotten = full});
    size_ += whole.size;
    at = all_.begin();
  }
  at->users++;
  return &*at;
}

void registration_cache::release(registration *which) {
  TND_ASSERT(which->users != 0);
  if (--which->users == 0 && which->forgotten)
    close(iterator_of(which));
}

void registration_cache::forget(const std::byte *addr, size_t size) {
  for (auto at = all_.begin(); at != all_.end();) {
    auto const each = at++;
    if (!touches(each->memory, addr, size))
      continue;
    each->forgotten = true;
    if (each->users == 0)
      close(each);
  }
}

}  // namespace tanada::port
