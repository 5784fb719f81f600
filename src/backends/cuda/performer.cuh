// backends/cuda/performer.cuh: the service kernel's block: what its warps share, and the warp that
// performs commands.
#pragma once

#include "backends/cuda/kernels.hpp"
#include "backends/cuda/perform.cuh"

namespace tanada::port::cuda {

constexpr uint32_t looker_count = view_count, helper_count = 7;  // warps
constexpr uint32_t warp_count = looker_count + helper_count;
constexpr uint32_t worker_count =
    (1 + helper_count) * simt::warp_size;  // threads: who has the turn, and all helpers
constexpr uint32_t wide_size_min = 257;    // bytes from which helpers help: more than a word a lane
constexpr uint32_t report_period = 32;     // commands, while more keep coming
constexpr uint32_t batch_size = 8;         // commands
constexpr uint32_t taken = 0x80000000;

// In the block's shared memory.
struct desk {
  command batch[batch_size];
  // For the helpers: what to copy; nothing: the end.
  command help;
  unsigned char *annex;
  u64 idle_since;      // simt::now_ns()
  uint32_t next;       // sequence; changed by who has the turn
  uint32_t turn;       // `next`, and `taken` more while somebody has it
  uint32_t has_ended;  // 1: nobody looks any more
};

struct workers {
  __device__ u32 rank() const {
    return threadIdx.x < looker_count * simt::warp_size
               ? lane()
               : threadIdx.x - (looker_count - 1) * simt::warp_size;
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

// Stores before it are seen by whoever sees stores after it.
__device__ inline void fence_stores() {
  __nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
}

__device__ inline void tell(uint32_t &word, uint32_t value) {
  if (lane() == 0)
    simt::system_atomic<u32>(word).store_relaxed(value);
}

// For decisions of a warp: what its lanes see may differ.
__device__ inline uint32_t of_first_lane(uint32_t value) {
  return __shfl_sync(simt::full_mask, value, 0);
}

// Of one warp. Not, if another has it, or has had it.
__device__ inline bool take_turn(desk &shared, uint32_t expected) {
  uint32_t found = 0;
  if (lane() == 0) {
    found = atomicCAS_block(&shared.turn, expected, expected + taken);
    __threadfence_block();
  }
  return of_first_lane(found) == expected;
}

__device__ inline void pass_turn(desk &shared, uint32_t next) {
  __syncwarp();
  if (lane() != 0)
    return;
  store_volatile(shared.next, next);
  __threadfence_block();
  store_volatile(shared.turn, next);
}

// A warp that looks for commands, while it has the turn.
struct performer {
  desk &shared;
  service_run const &run;
  uint32_t next;  // sequence
  uint32_t unreported = 0;
  // What was stored and is not known to be performed: nothing; a word by each lane, at `proof` (0:
  // none); or more.
  enum class pending : uint8_t { none, words, much } stored = pending::none;
  uint64_t proof = 0;
  bool is_to_rest = false;

  __device__ performer(desk &by, const service_run &what)
      : shared{by}, run{what}, next{of_first_lane(load_volatile(by.next))} {}

  // A load of what one has stored comes back when the store is performed, for it goes the same way
  // to where all look: sooner than a fence, which waits for the loads of all the block's warps,
  // too. The comparison is with what no byte is, which the compiler does not know: what it knows to
  // be false it does not wait for.
  __device__ void prove() {
    uint32_t const byte = proof != 0 ? load_shared<uint8_t>(proof) : 0;
    if (__any_sync(simt::full_mask, byte == run.idle_ns))
      fence_stores();
    stored = pending::none;
  }
  __device__ void make_sure() {
    if (stored == pending::words)
      return prove();
    if (stored == pending::none)
      return;
    fence_stores();
    __syncwarp();
    stored = pending::none;
  }
  __device__ void report() {
    make_sure();
    tell(run.ring->done, next - 1);
    unreported = 0;
  }

  __device__ void answer(uint32_t index, uint32_t content) const {
    simt::system_atomic<u64>(
        *reinterpret_cast<u64 *>(&run.ring->answers[next % slot_count].words[index]))
        .store_relaxed(u64(next) << 32 | content);
  }

  // Up to 64 bytes. Words that the source has whole are told whole.
  __device__ void read(const command &what) const {
    uint64_t const source = what.rows.source;
    if (lane() * 4 >= what.size)
      return;
    uint32_t content = 0;
    if ((source & 7) == 0 && (lane() / 2 + 1) * 8 <= what.size) {
      content = uint32_t(load_shared<uint64_t>(source + lane() / 2 * 8) >> lane() % 2 * 32);
    } else if ((source & 3) == 0 && lane() * 4 + 4 <= what.size) {
      content = load_shared<uint32_t>(source + lane() * 4);
    } else {
      for (uint32_t i = 0; i < 4 && lane() * 4 + i < what.size; i++)
        content |= uint32_t(load_shared<uint8_t>(source + lane() * 4 + i)) << i * 8;
    }
    answer(lane(), content);
  }

  __device__ void update(const command &what) {
    uint64_t const before = lane() == 0 ? perform_update(what) : 0;
    // It has come back: the update is performed.
    uint32_t const high = __shfl_sync(simt::full_mask, uint32_t(before >> 32), 0);
    uint32_t const low = __shfl_sync(simt::full_mask, uint32_t(before), 0);
    if (what.wants_value != 0 && lane() < 2)
      answer(lane(), lane() == 0 ? low : high);
  }

  // Stores of a word a lane can be proved, when nothing else is pending.
  __device__ void note(uint64_t where) {
    stored = stored == pending::none ? pending::words : pending::much;
    proof = where;
  }

  // A word a lane at most, if it is such.
  __device__ bool copy_words(const command &what) {
    uint64_t const source = what.rows.source, at = lane() * 8;
    if (((what.target | source | what.size) & 7) != 0 || what.size > 8 * simt::warp_size)
      return false;
    if (at < what.size)
      store_shared(what.target + at, load_shared<uint64_t>(source + at));
    note(at < what.size ? what.target + at : 0);
    return true;
  }

  __device__ static uint64_t weight(const command &what) {
    switch (what.kind) {
      case command_kind::copy: return what.size;
      case command_kind::read: return what.size <= answer_size_max ? 0 : what.size;
      case command_kind::rows:
        return uint64_t(what.size) * what.rows.count * 4;  // its words are small
      default: return 0;
    }
  }

  template <class Group>
  __device__ static void move(Group group, const command &what, unsigned char *annex) {
    if (what.kind == command_kind::rows)
      return perform_rows(group, what);
    uint64_t const target =
        what.kind == command_kind::read ? reinterpret_cast<uint64_t>(annex) : what.target;
    perform_copy(group, target, what.rows.source, what.size);
  }

  __device__ void move_much(const command &what) {
    unsigned char *const annex = run.ring->annexes[next % slot_count];
    if (weight(what) < wide_size_min) {
      move(this_warp{}, what, annex);
      stored = pending::much;
      return;
    }
    if (lane() == 0) {
      shared.help = what;
      shared.annex = annex;
    }
    workers{}.sync();
    move(workers{}, what, annex);
    fence_stores();
    workers{}.sync();
    stored = stored == pending::none ? pending::none : pending::much;
  }

  __device__ void perform(const command &what) {
    if (what.is_ordered != 0)
      make_sure();
    if (what.kind == command_kind::write) {
      note(perform_write(what));
      if (!is_provable(what))
        stored = pending::much;
    } else if (what.kind == command_kind::update) {
      update(what);
    } else if (what.kind == command_kind::read && what.size <= answer_size_max) {
      read(what);
    } else if (what.kind == command_kind::rest) {
      is_to_rest = true;
    } else if (what.kind != command_kind::copy || !copy_words(what)) {
      move_much(what);
    }
  }

  // Puts what a poll has brought behind `count` others. How many there are then.
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

}  // namespace tanada::port::cuda
