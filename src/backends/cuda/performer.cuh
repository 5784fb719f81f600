// backends/cuda/performer.cuh: the service kernel's block: the state that its warps share, and the
// warp that performs commands.
#pragma once

#include "backends/cuda/kernels.hpp"
#include "backends/cuda/perform.cuh"

namespace tanada::backends::cuda {

constexpr uint32_t poller_count = view_count, helper_count = 7;  // warps
constexpr uint32_t warp_count = poller_count + helper_count;
constexpr uint32_t worker_count =
    (1 + helper_count) * simt::warp_size;  // threads: the warp that has the turn, and all helpers
constexpr uint32_t wide_size_min =
    257;  // bytes from which helpers copy, too: more than one word for each lane
constexpr uint32_t report_period = 32;  // commands, while more keep arriving
constexpr uint32_t batch_size = 8;      // commands
constexpr uint32_t turn_taken = 0x80000000;

// State in the block's shared memory.
struct block_state {
  command batch[batch_size];
  // What the helpers copy; `nothing`: they end.
  command shared_command;
  unsigned char *annex;
  u64 idle_since;      // simt::now_ns()
  uint32_t next;       // sequence; changed by the warp that has the turn
  uint32_t turn;       // `next`, plus `turn_taken` while a warp has the turn
  uint32_t has_ended;  // 1: all warps stop polling
};

struct workers {
  __device__ u32 rank() const {
    return threadIdx.x < poller_count * simt::warp_size
               ? lane()
               : threadIdx.x - (poller_count - 1) * simt::warp_size;
  }
  __device__ u32 size() const {
    return worker_count;
  }
  __device__ void sync() const {
    asm volatile("bar.sync 1, %0;" ::"n"(worker_count) : "memory");
  }

 private:
  __device__ static u32 lane() {
    return threadIdx.x % simt::warp_size;
  }
};

template <class T>
__device__ inline T load_volatile(const T &object) {
  return *const_cast<const volatile T *>(&object);
}
template <class T>
__device__ inline void store_volatile(T &object, T value) {
  *const_cast<volatile T *>(&object) = value;
}

__device__ inline uint32_t lane() {
  return threadIdx.x % simt::warp_size;
}

// Orders earlier stores before later ones for every observer in the system.
__device__ inline void fence_stores() {
  __nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
}

__device__ inline void publish_word(uint32_t &word, uint32_t value) {
  if (lane() == 0)
    simt::system_atomic<u32>(word).store_relaxed(value);
}

// For decisions of a whole warp: its lanes may read different values.
__device__ inline uint32_t from_first_lane(uint32_t value) {
  return __shfl_sync(simt::full_mask, value, 0);
}

// Called by one warp. Returns false if another warp has the turn or has had it.
__device__ inline bool take_turn(block_state &shared, uint32_t expected) {
  uint32_t old_turn = 0;
  if (lane() == 0) {
    old_turn = atomicCAS_block(&shared.turn, expected, expected + turn_taken);
    __threadfence_block();
  }
  return from_first_lane(old_turn) == expected;
}

__device__ inline void pass_turn(block_state &shared, uint32_t next) {
  __syncwarp();
  if (lane() != 0)
    return;
  store_volatile(shared.next, next);
  __threadfence_block();
  store_volatile(shared.turn, next);
}

// A polling warp while it has the turn.
struct performer {
  block_state &shared;
  service_run const &run;
  uint32_t next;  // sequence
  uint32_t unreported = 0;
  // Stores that may not be performed yet: none; one word of each lane, at `proof` (0: none); or
  // more.
  enum class pending : uint8_t { empty, words, many } stored = pending::empty;
  uint64_t proof = 0;
  bool is_stopping = false;

  __device__ performer(block_state &state, const service_run &kernel_run)
      : shared{state}, run{kernel_run}, next{from_first_lane(load_volatile(state.next))} {}

  // Loads back what this lane stored. The load returns only after the store is performed, since it
  // takes the same path. This is faster than a fence, which also waits for the loads of all warps
  // of the block. The comparison is with a value that no byte has, which the compiler cannot know:
  // it would not wait for a load whose use it can fold.
  __device__ void prove() {
    uint32_t const byte = proof != 0 ? load_shared<uint8_t>(proof) : 0;
    if (__any_sync(simt::full_mask, byte == run.idle_ns))
      fence_stores();
    stored = pending::empty;
  }
  __device__ void ensure_performed() {
    if (stored == pending::words)
      return prove();
    if (stored == pending::empty)
      return;
    fence_stores();
    __syncwarp();
    stored = pending::empty;
  }
  __device__ void report() {
    ensure_performed();
    publish_word(run.ring->done, next - 1);
    unreported = 0;
  }

  __device__ void answer(uint32_t index, uint32_t content) const {
    simt::system_atomic<u64>(
        *reinterpret_cast<u64 *>(&run.ring->answers[next % slot_count].words[index]))
        .store_relaxed(u64(next) << 32 | content);
  }

  // Reads up to 64 bytes. Words that lie entirely in the source are read atomically.
  __device__ void read(const command &request) const {
    uint64_t const source = request.rows.source;
    if (lane() * 4 >= request.size)
      return;
    uint32_t content = 0;
    if ((source & 7) == 0 && (lane() / 2 + 1) * 8 <= request.size) {
      content = uint32_t(load_shared<uint64_t>(source + lane() / 2 * 8) >> lane() % 2 * 32);
    } else if ((source & 3) == 0 && lane() * 4 + 4 <= request.size) {
      content = load_shared<uint32_t>(source + lane() * 4);
    } else {
      for (uint32_t i = 0; i < 4 && lane() * 4 + i < request.size; i++)
        content |= uint32_t(load_shared<uint8_t>(source + lane() * 4 + i)) << i * 8;
    }
    answer(lane(), content);
  }

  __device__ void update(const command &request) {
    uint64_t const before = lane() == 0 ? perform_update(request) : 0;
    // The old value has arrived, so the update is performed.
    uint32_t const high = __shfl_sync(simt::full_mask, uint32_t(before >> 32), 0);
    uint32_t const low = __shfl_sync(simt::full_mask, uint32_t(before), 0);
    if (request.wants_value != 0 && lane() < 2)
      answer(lane(), lane() == 0 ? low : high);
  }

  // Stores of one word for each lane can be verified if no other is pending.
  __device__ void note_store(uint64_t address) {
    stored = stored == pending::empty ? pending::words : pending::many;
    proof = address;
  }

  // Copies at most one word for each lane; returns false if the command is not such a copy.
  __device__ bool copy_words(const command &request) {
    uint64_t const source = request.rows.source, offset = lane() * 8;
    if (((request.target | source | request.size) & 7) != 0 || request.size > 8 * simt::warp_size)
      return false;
    if (offset < request.size)
      store_shared(request.target + offset, load_shared<uint64_t>(source + offset));
    note_store(offset < request.size ? request.target + offset : 0);
    return true;
  }

  __device__ static uint64_t weight(const command &request) {
    switch (request.kind) {
      case command_kind::copy:
        return request.size;
      case command_kind::read:
        return request.size <= answer_size_max ? 0 : request.size;
      case command_kind::rows:
        return uint64_t(request.size) * request.rows.count * 4;  // its words may be small
      default:
        return 0;
    }
  }

  template <class Group>
  __device__ static void move(Group group, const command &request, unsigned char *annex) {
    if (request.kind == command_kind::rows)
      return perform_rows(group, request);
    uint64_t const target =
        request.kind == command_kind::read ? reinterpret_cast<uint64_t>(annex) : request.target;
    perform_copy(group, target, request.rows.source, request.size);
  }

  __device__ void move_much(const command &request) {
    unsigned char *const annex = run.ring->annexes[next % slot_count];
    if (weight(request) < wide_size_min) {
      move(this_warp{}, request, annex);
      stored = pending::many;
      return;
    }
    if (lane() == 0) {
      shared.shared_command = request;
      shared.annex = annex;
    }
    workers{}.sync();
    move(workers{}, request, annex);
    fence_stores();
    workers{}.sync();
    stored = stored == pending::empty ? pending::empty : pending::many;
  }

  __device__ void perform(const command &request) {
    if (request.is_ordered != 0)
      ensure_performed();
    if (request.kind == command_kind::write) {
      note_store(perform_write(request));
      if (!is_provable(request))
        stored = pending::many;
    } else if (request.kind == command_kind::update) {
      update(request);
    } else if (request.kind == command_kind::read && request.size <= answer_size_max) {
      read(request);
    } else if (request.kind == command_kind::stop) {
      is_stopping = true;
    } else if (request.kind != command_kind::copy || !copy_words(request)) {
      move_much(request);
    }
  }

  // Appends the commands in a polled word pair to `count` others. Returns the new count.
  __device__ uint32_t collect(uint64_t word, uint32_t count) const {
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
      uint32_t const votes = __ballot_sync(simt::full_mask, uint32_t(word >> 32) == next + count);
      if ((votes >> half * word_count & 0xffffu) != 0xffffu)
        continue;
      if (lane() / word_count == half)
        reinterpret_cast<volatile uint32_t *>(&shared.batch[count])[lane() % word_count] =
            uint32_t(word);
      count++;
    }
    return count;
  }

  __device__ void perform_batch(uint32_t count) {
    __syncwarp();
    for (uint32_t i = 0; i < count; i++) {
      perform(shared.batch[i]);
      next++;
      unreported++;
    }
    __syncwarp();
    if (unreported >= report_period)
      report();
  }
};

}  // namespace tanada::backends::cuda
