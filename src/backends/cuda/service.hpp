// backends/cuda/service.hpp: host code's side of the service kernel: commands are posted into a
// ring that a block of the device serves.
//
// The kernel runs only while there is work: it starts with the first command and ends by itself
// `idle_ns` after the last, so that the program's cudaDeviceSynchronize() ends at most so much
// later. It runs in a stream of its own, of the highest priority. Where the device has no room for
// it within `start_ns` - the program's blocks fill it, and may be waiting for this very operation -
// the command is taken back and goes another way.
//
// Who has a command is decided by words that have one writer each: the host says `canceled` and
// looks whether the kernel has `started`; the kernel says `started` and looks whether it is
// canceled. With a full fence between the two on either side, at least one sees the other. So it is
// with a kernel that ends: it says `left` and looks at the ring again; the host posts and looks
// whether it has left.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/mutex.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/runtime.hpp"

namespace tanada::port::cuda {

inline constexpr uint32_t idle_ns = 100'000, start_ns = 50'000;
static_assert(idle_ns > 255);                 // performer::prove()
inline constexpr size_t bounce_size = 65536;  // bytes

uint64_t now_ns();  // CLOCK_MONOTONIC
inline uint64_t after(uint64_t timeout_ns) {
  uint64_t const now = now_ns();
  return timeout_ns < ~uint64_t{0} - now ? now + timeout_ns : ~uint64_t{0};
}

class service {
 public:
  // One of a device's, made when it is first asked for; they live as long as the process.
  static tnd_status get(uint32_t device_index, uint32_t index, service *&found);

  struct post_options {
    const void *annex = nullptr;  // the command's source: copied into its annex. Null: none
    size_t annex_size = 0;        // bytes
    bool is_answered =
        false;  // the caller will call release(), and has the slot's answer and annex until then
    bool targets_annex = false;  // the command's target is its annex
    uint64_t timeout_ns = 0;     // of each wait that it takes
    bool may_go_elsewhere =
        false;  // where the device has no room for the kernel, somebody else performs the command
  };
  struct posted {
    uint32_t sequence = 0;
    bool elsewhere = false;  // then nothing is posted
  };
  // Any thread. The command will be performed, whatever the caller does, and may be after
  // timed_out.
  tnd_status post(command what, const post_options &options, posted &outcome);

  bool is_done(uint32_t sequence) const noexcept;
  // timed_out; device_lost with the driver's words.
  tnd_status wait_done(uint32_t sequence, uint64_t deadline_ns);
  // As many bytes as fit an answer, once they are there.
  tnd_status wait_answer(uint32_t sequence, void *target, size_t size, uint64_t deadline_ns);
  unsigned char *annex(uint32_t sequence) noexcept {
    return ring_->annexes[sequence % slot_count];
  }
  void release(uint32_t sequence) noexcept {
    held_[sequence % slot_count].store(false, std::memory_order_release);
  }

  // The kernel ends soon if it runs.
  void rest();

  uint32_t device_index() const noexcept {
    return device_index_;
  }
  // For what the kernel does not do.
  cudaStream_t copies() const noexcept {
    return copies_;
  }
  // Pinned memory of `bounce_size` for what is in that stream: call(stream, bounce) puts all there
  // that uses it, and nobody else does in between.
  template <class Call>
  cudaError_t with_bounce(cudaStream_t stream, Call &&call) {
    lock_guard const lock{bounce_mutex_};
    return call(stream, bounce_);
  }

 private:
  explicit service(uint32_t device_index) : device_index_{device_index} {}
  tnd_status create();

  // With mutex_ held.
  bool is_free(uint32_t sequence) const noexcept;
  bool is_serving() const noexcept;
  void fill(uint32_t sequence, const command &what) noexcept;
  void erase(uint32_t sequence) noexcept;
  tnd_status launch(uint32_t first);
  tnd_status start(uint64_t timeout_ns);
  tnd_status wait_ended(uint64_t timeout_ns);
  tnd_status post_filled(const post_options &options, posted &outcome);
  tnd_status retract(posted &outcome, uint64_t timeout_ns);
  tnd_status look_for_fault_held();
  tnd_status fail_for_good();

  tnd_status look_for_fault();
  template <class Condition>
  tnd_status spin(Condition &&condition, uint64_t deadline_ns, bool is_held);

  static uint32_t load(const uint32_t &word) noexcept {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  }
  uint64_t ended() const noexcept {
    return __atomic_load_n(&ring_->ended, __ATOMIC_ACQUIRE);
  }
  bool has_ended() const noexcept {
    return generation_ == 0 || uint32_t(ended() >> 32) == generation_;
  }

  uint32_t const device_index_;
  ring_memory *ring_ = nullptr;
  unsigned char *bounce_ = nullptr;
  mutex bounce_mutex_;
  cudaStream_t stream_ = nullptr, copies_ = nullptr;
  std::atomic<bool> held_[slot_count] = {};
  mutex mutex_;              // guards what follows
  uint32_t next_ = 1;        // sequence
  uint32_t generation_ = 0;  // of the last run that was launched
  uint64_t launched_at_ns_ = 0;
  tnd_status failed_ = TND_OK;
  char words_[256] = "";
};

// Of all services of a device: their kernels end soon.
void services_rest(uint32_t device_index);

}  // namespace tanada::port::cuda
