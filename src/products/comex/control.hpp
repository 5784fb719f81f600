// products/comex/control.hpp: what the processes of a job coordinate by: the control memory of
// each.
#pragma once

#include "products/comex/engine.hpp"

namespace tanada::comex {

// Zeros at the start.
struct engine::control {
  static constexpr uint32_t place_count = 65;  // mutexes that a process may hold or wait for at a
                                               // time: 64 of the program's, and a device's
  static constexpr uint32_t tail_count = mutex_count_max + 1;  // the last is of the device's memory

  // Of who waits for a mutex, in the queue of Mellor-Crummey and Scott.
  struct alignas(64) place {
    uint32_t next;     // who comes after, as in a tail: 0 while nobody does
    uint32_t is_ours;  // written by who was before
  };

  // Of a part of what this process broadcasts. All processes count the parts of all.
  struct alignas(64) broadcast_head {
    uint64_t part;      // written last
    uint64_t whole;     // bytes of the call
    uint32_t barriers;  // that its process has entered
    uint32_t chunk;     // where the bytes are, if they are not here
    std::byte bytes[40];
  };
  // How far this process has come.
  struct alignas(64) progress {
    uint64_t read;      // parts: given, or read to their end
    uint64_t awaited;   // the last part that another was to give, and was not there
    uint64_t barriers;  // entered
  };

  heap_locks::word locks[heap_locks::count];
  alignas(64) uint64_t arrivals;  // at the barriers, of all; of process 0
  alignas(64) uint64_t go;        // barriers that are over
  place places[place_count];
  alignas(64) uint32_t tails[tail_count];  // of this process's mutexes
  progress come;
  broadcast_head heads[head_count];
  alignas(4096) std::byte collective[collective_size];
  // Programs' large buffers begin with a page, or 16 bytes behind. What is copied there from a
  // little before that place of its page takes twice the time: processors that compare the low bits
  // of addresses take what they load for what they have just stored.
  std::byte half_a_page[2048];
  std::byte chunks[chunk_count][chunk_size];
};

}  // namespace tanada::comex
