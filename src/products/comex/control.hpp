// products/comex/control.hpp: the control memory of each process, through which a job's processes
// coordinate.
#pragma once

#include "products/comex/engine.hpp"

namespace tanada::comex {

// All zeros at the start.
struct engine::control {
  // Mutexes that a process may hold or wait for at a time: 64 of the program's, and one for a
  // device.
  static constexpr uint32_t mutex_node_count = 65;
  // the last guards the device's memory
  static constexpr uint32_t tail_count = mutex_count_max + 1;

  // A node of the Mellor-Crummey and Scott queue, for a process that waits for a mutex.
  struct alignas(64) mutex_node {
    uint32_t next;        // the successor, encoded as in a tail; 0: there is no successor yet
    uint32_t is_granted;  // written by the predecessor
  };

  // Header of one part of a broadcast by this process. All processes count the parts of all roots.
  struct alignas(64) broadcast_head {
    uint64_t part;      // written last
    uint64_t whole;     // size of the whole call, in bytes
    uint32_t barriers;  // barriers that the root has entered
    uint32_t chunk;     // index of the chunk that holds the bytes, unless they are in this header
    std::byte bytes[40];
  };
  static_assert(sizeof(broadcast_head) == 64);
  // What this process has done so far.
  struct alignas(64) broadcast_progress {
    uint64_t read;  // parts published, or read completely
    // the last part of another root that was not there when this process needed it
    uint64_t awaited_part;
    uint64_t barriers;  // barriers entered
  };

  heap_locks::lock_word locks[heap_locks::count];
  alignas(64) uint64_t arrivals;  // arrivals of all processes at barriers; used in process 0 only
  alignas(64) uint64_t released;  // barriers that have completed
  mutex_node mutex_nodes[mutex_node_count];
  alignas(64) uint32_t tails[tail_count];  // of this process's mutexes
  broadcast_progress progress;
  broadcast_head heads[head_count];
  alignas(4096) std::byte collective[collective_size];
  // Large buffers of programs begin at a page boundary, or 16 bytes after it. Copying to them from
  // slightly below that offset within a page takes twice the time: processors that compare the low
  // bits of addresses mistake the load for one of a recent store (4K aliasing).
  std::byte padding[2048];
  std::byte chunks[chunk_count][chunk_size];

  static_assert(sizeof(mutex_node) == 64 && sizeof(heap_locks::lock_word) == 64);
  static_assert(chunk_count <= head_count);  // chunks are reused sooner than headers
  static_assert(collective_size % 4096 == 0);
};

}  // namespace tanada::comex
