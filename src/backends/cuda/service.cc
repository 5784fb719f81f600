// The host's side of the service kernel.
#include "backends/cuda/service.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/mutex.hpp"

// A point where the device may interleave; tests delay the thread here.
#ifndef TND_SERVICE_STEP
#  define TND_SERVICE_STEP() ((void)0)
#endif

namespace tanada::backends::cuda {
namespace {

constexpr uint64_t stop_timeout_ns = 1'000'000'000;  // for a kernel that is closing to end
static_assert(stop_timeout_ns > idle_ns && stop_timeout_ns > start_ns);
constexpr uint64_t fault_period_ns = 1'000'000;  // a wait queries the driver for faults this often

struct all_services {
  tanada::mutex mutex;
  std::map<std::pair<uint32_t, uint32_t>, service *> instances
      TND_GUARDED_BY(mutex);  // by device and index
};
// Never destroyed, because kernels may run during exit.
all_services &services() {
  static all_services &instance = *new all_services;
  return instance;
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

uint64_t now_ns() {
  timespec time{};
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

tnd_status service::get(uint32_t device_index, uint32_t index, service *&instance) {
  lock_guard const lock{services().mutex};
  service *&entry = services().instances[{device_index, index}];
  if (entry == nullptr) {
    auto *const fresh = new service{device_index};
    if (tnd_status const code = fresh->create(); code != TND_OK) {
      delete fresh;
      return code;
    }
    entry = fresh;
  }
  instance = entry;
  return TND_OK;
}

tnd_status service::create() {
  current_device const device{device_index_};
  int least = 0, greatest = 0;
  void *memory = nullptr;
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = load_kernels();
  if (error == cudaSuccess)
    error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (error == cudaSuccess)
    error = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
  if (error == cudaSuccess)
    error = cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking);
  constexpr unsigned kind = cudaHostAllocPortable | cudaHostAllocMapped;
  if (error == cudaSuccess)
    error = cudaHostAlloc(&memory, sizeof(ring_memory) + bounce_size, kind);
  if (error == cudaSuccess) {
    bounce_ = static_cast<unsigned char *>(memory) + sizeof(ring_memory);
    ring_ = static_cast<ring_memory *>(std::memset(memory, 0, sizeof(ring_memory)));
    return TND_OK;
  }
  tnd_status const code = checked(error, "cannot serve commands on GPU", device_index_);
  if (stream_ != nullptr)
    (void)cudaStreamDestroy(stream_);
  if (copies_ != nullptr)
    (void)cudaStreamDestroy(copies_);
  return code;
}

bool service::is_done(uint32_t sequence) const noexcept {
  return is_reached(sequence, load(ring_->done));
}

bool service::is_free(uint32_t sequence) const noexcept {
  return is_done(sequence - slot_count) &&
         !held_[sequence % slot_count].load(std::memory_order_acquire);
}

bool service::is_serving() const noexcept {
  return generation_ != 0 && load(ring_->serving) == generation_ &&
         load(ring_->closing) != generation_;
}

void service::fill(uint32_t sequence, const command &request) noexcept {
  uint32_t content[word_count];
  std::memcpy(content, &request, sizeof content);
  for (auto &view : ring_->commands) {
    uint64_t *const words = view[sequence % slot_count].words;
    for (uint32_t i = 0; i < word_count; i++) {
      __atomic_store_n(words + i, uint64_t(sequence) << 32 | content[i], __ATOMIC_RELEASE);
    }
  }
}

// Writes a sequence that no kernel will expect soon.
void service::erase(uint32_t sequence) noexcept {
  uint64_t const never = uint64_t(sequence ^ 0x80000000u) << 32;
  for (auto &view : ring_->commands) {
    for (uint64_t &word : view[sequence % slot_count].words)
      __atomic_store_n(&word, never, __ATOMIC_RELEASE);
  }
}

// Spins until the condition holds, the deadline passes or the device has failed.
template <class Condition>
tnd_status service::spin(Condition &&condition, uint64_t deadline_ns, bool is_held) {
  if (condition())
    return TND_OK;
  uint64_t checked_at_ns = now_ns();
  for (uint32_t round = 1;; round++) {
    if (condition())
      return TND_OK;
    if (round % 64 != 0)
      continue;
    pause();
    uint64_t const time_ns = now_ns();
    if (time_ns >= deadline_ns)
      return condition() ? TND_OK : -ETIMEDOUT;
    if (time_ns - checked_at_ns < fault_period_ns)
      continue;
    checked_at_ns = time_ns;
    if (tnd_status const code = check_for_fault(is_held); code != TND_OK)
      return code;
  }
}

// A thread that holds the mutex for long checks for faults itself.
tnd_status service::check_for_fault(bool is_held) {
  if (is_held) {
    mutex_.assert_held();
    return check_for_fault_locked();
  }
  if (!mutex_.try_lock())
    return TND_OK;
  lock_guard const lock{mutex_, std::adopt_lock};
  return check_for_fault_locked();
}

// Keeps the last message for later calls.
tnd_status service::fail_for_good() {
  TND_ASSERT(mutex_.is_held() && failed_ == TND_OK);
  failure_text_[std::string_view{last_message()}.copy(failure_text_, sizeof failure_text_ - 1)] =
      '\0';
  failed_ = -TND_EDEVICE;
  return failed_;
}

tnd_status service::check_for_fault_locked() {
  if (failed_ != TND_OK)
    return set_error(failed_, "{}", failure_text_);
  current_device const device{device_index_};
  cudaError_t const error = cudaStreamQuery(stream_);
  if (error == cudaSuccess || error == cudaErrorNotReady)
    return TND_OK;
  (void)checked(error, "operations on its memory failed on GPU", device_index_);
  return fail_for_good();
}

tnd_status service::launch(uint32_t first) {
  TND_ASSERT(mutex_.is_held() && has_ended() && failed_ == TND_OK);
  current_device const device{device_index_};
  cudaError_t const error = launch_service(stream_, {ring_, ++generation_, first, idle_ns});
  launched_at_ns_ = now_ns();
  if (error == cudaSuccess)
    return TND_OK;
  (void)checked(error, "cannot serve commands on GPU", device_index_);
  return fail_for_good();
}

tnd_status service::wait_ended(uint64_t timeout_ns) {
  auto const is_over = [&] {
    mutex_.assert_held();
    return has_ended();
  };
  return spin(is_over, after(timeout_ns), true);
}

// Starts the kernel, if the device has space for it soon.
tnd_status service::start(uint64_t timeout_ns) {
  if (is_serving())
    return TND_OK;
  if (generation_ != 0 && load(ring_->closing) == generation_) {
    if (tnd_status const code = wait_ended(timeout_ns); code != TND_OK)
      return code;
  }
  if (has_ended()) {
    if (tnd_status const code = launch(generation_ == 0 ? next_ : uint32_t(ended()));
        code != TND_OK)
      return code;
  }
  auto const has_begun = [&] {
    mutex_.assert_held();
    return load(ring_->serving) == generation_ || has_ended();
  };
  tnd_status const code = spin(has_begun, launched_at_ns_ + start_ns, true);
  return code == -ETIMEDOUT ? TND_OK : code;
}

// Posts a command to the next slot, which is free.
tnd_status service::post_next(command &request, const post_options &options, posted &outcome) {
  TND_ASSERT(mutex_.is_held() && options.annex_size <= annex_size);
  outcome.sequence = next_++;
  unsigned char *const slot_annex = annex(outcome.sequence);
  if (options.annex != nullptr) {
    std::memcpy(slot_annex, options.annex, options.annex_size);
    request.rows.source = reinterpret_cast<uintptr_t>(slot_annex);
  }
  if (options.targets_annex)
    request.target = reinterpret_cast<uintptr_t>(slot_annex);
  if (options.is_answered)
    held_[outcome.sequence % slot_count].store(true, std::memory_order_relaxed);
  TND_SERVICE_STEP();
  fill(outcome.sequence, request);
  tnd_status const code = post_filled(options, outcome);
  if (code != TND_OK && options.is_answered)
    release(outcome.sequence);
  return code;
}

tnd_status service::post(command request, const post_options &options, posted &outcome) {
  uint64_t limit_ns = 0;
  for (uint32_t round = 0;; round++) {
    {
      lock_guard const lock{mutex_};
      if (failed_ != TND_OK)
        return set_error(failed_, "{}", failure_text_);
      if (!is_serving()) {
        if (tnd_status const code = start(options.timeout_ns); code != TND_OK)
          return code;
        if (options.may_decline && !is_serving()) {
          outcome.is_declined = true;
          return TND_OK;
        }
      }
      if (is_free(next_))
        return post_next(request, options, outcome);
      if (limit_ns == 0)
        limit_ns = after(options.timeout_ns);
      if (round % 4096 == 4095) {
        if (tnd_status const code = check_for_fault_locked(); code != TND_OK)
          return code;
      }
    }
    pause();
    if (now_ns() >= limit_ns)
      return set_error(-ETIMEDOUT,
                       "GPU {} performed no command for {:.1f} s",
                       device_index_,
                       double(options.timeout_ns) * 1e-9);
  }
}

// The command is in the ring. It stays there if a running kernel was not closing before, if one
// starts soon, or if it may not be declined.
tnd_status service::post_filled(const post_options &options, posted &outcome) {
  TND_ASSERT(generation_ != 0);  // start() has launched a run
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (load(ring_->closing) != generation_)
    return TND_OK;
  if (tnd_status const code = wait_ended(options.timeout_ns); code != TND_OK)
    return code;
  if (is_reached(outcome.sequence + 1, uint32_t(ended())))
    return TND_OK;  // performed by its last poll
  for (;;) {
    if (tnd_status const code = start(options.timeout_ns); code != TND_OK)
      return code;
    if (!options.may_decline || load(ring_->serving) == generation_)
      return TND_OK;
    TND_SERVICE_STEP();
    if (tnd_status const code = retract(outcome, options.timeout_ns); code != TND_OK)
      return code;
    // A run that serves after all finds the command; one that saw the cancellation has ended.
    if (outcome.is_declined || load(ring_->serving) == generation_)
      return TND_OK;
  }
}

// Retracts the last command from a kernel that was launched but does not start. If the kernel has
// started meanwhile, it serves or ends at once.
tnd_status service::retract(posted &outcome, uint64_t timeout_ns) {
  TND_ASSERT(mutex_.is_held() && outcome.sequence + 1 == next_);
  auto const set_canceled = [&](uint32_t generation) {
    __atomic_store_n(&ring_->canceled, generation, __ATOMIC_RELEASE);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  };
  set_canceled(generation_);
  TND_SERVICE_STEP();
  if (load(ring_->started) != generation_) {
    // No run has seen the command, so its sequence is reused for the next one.
    erase(outcome.sequence);
    release(outcome.sequence);
    next_ = outcome.sequence;
    outcome.is_declined = true;
  }
  set_canceled(generation_ - 1);
  if (load(ring_->started) != generation_)
    return TND_OK;  // it will see that it is no longer canceled
  auto const has_decided = [&] {
    mutex_.assert_held();
    return load(ring_->serving) == generation_ || has_ended();
  };
  if (tnd_status const code = spin(has_decided, after(timeout_ns), true); code != TND_OK)
    return code;
  // Updates posted before this command still need a kernel.
  return outcome.is_declined && has_ended() && uint32_t(ended()) != next_
             ? launch(uint32_t(ended()))
             : TND_OK;
}

tnd_status service::wait_done(uint32_t sequence, uint64_t deadline_ns) {
  return spin([&] { return is_done(sequence); }, deadline_ns, false);
}

tnd_status service::wait_answer(uint32_t sequence,
                                void *target,
                                size_t size,
                                uint64_t deadline_ns) {
  uint64_t const *const words = ring_->answers[sequence % slot_count].words;
  uint32_t content[word_count];
  uint32_t const count = uint32_t((size + 3) / 4);
  TND_ASSERT(count <= word_count);
  uint32_t have = 0;
  auto const is_there = [&] {
    for (; have < count; have++) {
      uint64_t const word = __atomic_load_n(words + have, __ATOMIC_ACQUIRE);
      if (uint32_t(word >> 32) != sequence)
        return false;
      content[have] = uint32_t(word);
    }
    return true;
  };
  tnd_status const code = spin(is_there, deadline_ns, false);
  if (code == TND_OK)
    std::memcpy(target, content, size);
  return code;
}

void service::stop() {
  lock_guard const lock{mutex_};
  if (!is_serving() || !is_free(next_))
    return;
  command end{};
  end.kind = command_kind::stop;
  posted outcome{.sequence = next_++};
  fill(outcome.sequence, end);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (load(ring_->closing) != generation_)
    return;
  // The kernel closed before it saw this command, which the next run must not see.
  if (wait_ended(stop_timeout_ns) == TND_OK && uint32_t(ended()) == outcome.sequence) {
    erase(outcome.sequence);
    next_ = outcome.sequence;
  }
}

void stop_services(uint32_t device_index) {
  lock_guard const lock{services().mutex};
  for (auto const &[key, instance] : services().instances) {
    if (key.first == device_index)
      instance->stop();
  }
}

}  // namespace tanada::backends::cuda
