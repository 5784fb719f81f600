// backends/cuda/service.hpp: the host's side of the service kernel. Host code posts commands into a
// ring that a block of the device serves.
//
// The kernel runs only while there is work. It starts with the first command and ends by itself
// `idle_ns` after the last, so that the program's cudaDeviceSynchronize() is delayed by at most
// that. It runs in its own stream of the highest priority. The device may have no space for it
// within `start_ns`, because the program's blocks fill it and may be waiting for this very
// operation. Then the command is retracted and takes another path.
//
// Words with one writer each decide which side owns a command. The host sets `canceled` and then
// reads `started`; the kernel sets `started` and then reads `canceled`. With a full fence between
// the two on either side, at least one sees the other's store. The same protocol applies to a
// kernel that ends: it sets `closing` and polls the ring again; the host posts and then reads
// `closing`.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/mutex.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/runtime.hpp"

namespace tanada::backends::cuda {

inline constexpr uint32_t idle_ns = 100'000, start_ns = 50'000;
static_assert(idle_ns > 255);                 // performer::prove()
inline constexpr size_t bounce_size = 65536;  // bytes
static_assert(sizeof(ring_memory) % 4096 == 0, "the bounce buffer follows the ring");

uint64_t now_ns();  // CLOCK_MONOTONIC
inline uint64_t after(uint64_t timeout_ns) {
  uint64_t const time_ns = now_ns();
  return timeout_ns < ~uint64_t{0} - time_ns ? time_ns + timeout_ns : ~uint64_t{0};
}

class service {
 public:
  // Returns one of a device's services, creating it at the first request. Services exist until the
  // process ends.
  static tnd_status get(uint32_t device_index, uint32_t index, service *&instance);

  struct post_options {
    const void *annex = nullptr;  // source of the command, copied into its annex; null: none
    size_t annex_size = 0;        // bytes
    bool is_answered =
        false;  // the caller owns the slot's answer and annex until it calls release()
    bool targets_annex = false;  // the command's target is its annex
    uint64_t timeout_ns = 0;     // limit of each wait
    bool may_decline = false;    // if the kernel cannot start, the caller uses another path
  };
  struct posted {
    uint32_t sequence = 0;
    bool is_declined = false;  // true: nothing was posted
  };
  // Any thread. A posted command is performed whatever the caller does; after -ETIMEDOUT it may be
  // performed, too.
  tnd_status post(command request, const post_options &options, posted &outcome);

  bool is_done(uint32_t sequence) const noexcept;
  // -ETIMEDOUT; -TND_EDEVICE with the driver's message.
  tnd_status wait_done(uint32_t sequence, uint64_t deadline_ns);
  // Copies as many bytes as fit an answer, once they have arrived.
  tnd_status wait_answer(uint32_t sequence, void *target, size_t size, uint64_t deadline_ns);
  unsigned char *annex(uint32_t sequence) noexcept {
    return ring_->annexes[sequence % slot_count];
  }
  void release(uint32_t sequence) noexcept {
    held_[sequence % slot_count].store(false, std::memory_order_release);
  }

  // Makes the kernel end soon if it runs.
  void stop();

  uint32_t device_index() const noexcept {
    return device_index_;
  }
  // The stream for operations that the kernel does not perform.
  cudaStream_t copies() const noexcept {
    return copies_;
  }
  // Gives `call` pinned memory of `bounce_size` bytes: call(stream, bounce) enqueues all operations
  // that use it, and no other thread enqueues any in between.
  template <class Call>
  cudaError_t with_bounce(cudaStream_t stream, Call &&call) {
    lock_guard const lock{bounce_mutex_};
    return call(stream, bounce_);
  }

 private:
  explicit service(uint32_t device_index) : device_index_{device_index} {}
  tnd_status create();

  bool is_free(uint32_t sequence) const noexcept TND_REQUIRES(mutex_);
  bool is_serving() const noexcept TND_REQUIRES(mutex_);
  void fill(uint32_t sequence, const command &request) noexcept TND_REQUIRES(mutex_);
  void erase(uint32_t sequence) noexcept TND_REQUIRES(mutex_);
  tnd_status launch(uint32_t first) TND_REQUIRES(mutex_);
  tnd_status start(uint64_t timeout_ns) TND_REQUIRES(mutex_);
  tnd_status wait_ended(uint64_t timeout_ns) TND_REQUIRES(mutex_);
  tnd_status post_next(command &request, const post_options &options, posted &outcome)
      TND_REQUIRES(mutex_);
  tnd_status post_filled(const post_options &options, posted &outcome) TND_REQUIRES(mutex_);
  tnd_status retract(posted &outcome, uint64_t timeout_ns) TND_REQUIRES(mutex_);
  tnd_status check_for_fault_locked() TND_REQUIRES(mutex_);
  tnd_status fail_for_good() TND_REQUIRES(mutex_);

  // `is_held`: the caller holds the mutex.
  tnd_status check_for_fault(bool is_held);
  template <class Condition>
  tnd_status spin(Condition &&condition, uint64_t deadline_ns, bool is_held);

  static uint32_t load(const uint32_t &word) noexcept {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  }
  uint64_t ended() const noexcept {
    return __atomic_load_n(&ring_->ended, __ATOMIC_ACQUIRE);
  }
  bool has_ended() const noexcept TND_REQUIRES(mutex_) {
    return generation_ == 0 || uint32_t(ended() >> 32) == generation_;
  }

  uint32_t const device_index_;
  ring_memory *ring_ = nullptr;
  unsigned char *bounce_ = nullptr;
  mutex bounce_mutex_;
  cudaStream_t stream_ = nullptr, copies_ = nullptr;
  std::atomic<bool> held_[slot_count] = {};
  mutex mutex_;
  uint32_t next_ TND_GUARDED_BY(mutex_) = 1;        // next sequence
  uint32_t generation_ TND_GUARDED_BY(mutex_) = 0;  // of the last run launched
  uint64_t launched_at_ns_ TND_GUARDED_BY(mutex_) = 0;
  tnd_status failed_ TND_GUARDED_BY(mutex_) = TND_OK;
  char failure_text_[256] TND_GUARDED_BY(mutex_) = "";
};

// Makes the kernels of all services of a device end soon.
void stop_services(uint32_t device_index);

}  // namespace tanada::backends::cuda
