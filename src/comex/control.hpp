// comex/control.hpp: what the processes of a job coordinate by: the control memory of each.
#pragma once

#include "comex/engine.hpp"

namespace tanada::comex {

// Zeros at the start.
struct engine::control {
  static constexpr uint32_t place_count = 64;  // mutexes that a process may hold or wait for at a time
  static constexpr uint32_t tail_count = mutex_count_max;

  // Of who waits for a mutex, in the queue of Mellor-Crummey and Scott.
  struct alignas(64) place {
    uint32_t next;     // who comes after, as in a tail: 0 while nobody does
    uint32_t is_ours;  // written by who was before
  };

  heap_locks::word locks[heap_locks::count];
  alignas(64) uint64_t arrivals;  // at the barriers, of all; of process 0
  alignas(64) uint64_t go;        // barriers that are over
  place places[place_count];
  alignas(64) uint32_t tails[tail_count];  // of this process's mutexes
  alignas(4096) std::byte collective[collective_size];
};

}  // namespace tanada::comex
