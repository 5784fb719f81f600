#include "backends/cuda/service.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/mutex.hpp"

// Where the device may come in between: tests stay there for a while.
#ifndef TND_SERVICE_STEP
#  define TND_SERVICE_STEP() ((void)0)
#endif

namespace tanada::port::cuda {
namespace {

constexpr uint64_t rest_limit_ns = 1'000'000'000;  // for a kernel that has left to end
constexpr uint64_t fault_period_ns =
    1'000'000;  // so often a wait asks the driver whether the device still works

struct all_services {
  tanada::mutex mutex;
  std::map<std::pair<uint32_t, uint32_t>, service *> made;  // by device and index; guarded by mutex
};
// Never destroyed: kernels may run during exit.
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
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

tnd_status service::get(uint32_t device_index, uint32_t index, service *&found) {
  lock_guard const lock{services().mutex};
  service *&made = services().made[{device_index, index}];
  if (made == nullptr) {
    auto *const fresh = new service{device_index};
    if (tnd_status const code = fresh->create(); code != TND_OK) {
      delete fresh;
      return code;
    }
    made = fresh;
  }
  found = made;
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
         load(ring_->left) != generation_;
}

void service::fill(uint32_t sequence, const command &what) noexcept {
  uint32_t content[word_count];
  std::memcpy(content, &what, sizeof content);
  for (auto &view : ring_->commands) {
    uint64_t *const words = view[sequence % slot_count].words;
    for (uint32_t i = 0; i < word_count; i++)
      __atomic_store_n(words + i, uint64_t(sequence) << 32 | content[i], __ATOMIC_RELEASE);
  }
}

// No sequence that a kernel waits for soon.
void service::erase(uint32_t sequence) noexcept {
  uint64_t const never = uint64_t(sequence ^ 0x80000000u) << 32;
  for (auto &view : ring_->commands) {
    for (uint64_t &word : view[sequence % slot_count].words)
      __atomic_store_n(&word, never, __ATOMIC_RELEASE);
  }
}

// Until the condition holds, or the device is lost.
template <class Condition>
tnd_status service::spin(Condition &&condition, uint64_t deadline_ns, bool is_held) {
  if (condition())
    return TND_OK;
  uint64_t asked_at_ns = now_ns();
  for (uint32_t round = 1;; round++) {
    if (condition())
      return TND_OK;
    if (round % 64 != 0)
      continue;
    pause();
    uint64_t const now = now_ns();
    if (now >= deadline_ns)
      return condition() ? TND_OK : -ETIMEDOUT;
    if (now - asked_at_ns < fault_period_ns)
      continue;
    asked_at_ns = now;
    if (tnd_status const code = is_held ? look_for_fault_held() : look_for_fault(); code != TND_OK)
      return code;
  }
}

// Whoever has the mutex for long looks, too.
tnd_status service::look_for_fault() {
  if (!mutex_.try_lock())
    return TND_OK;
  lock_guard const lock{mutex_, std::adopt_lock};
  return look_for_fault_held();
}

// With the last message.
tnd_status service::fail_for_good() {
  words_[std::string_view{last_message()}.copy(words_, sizeof words_ - 1)] = '\0';
  failed_ = -TND_EDEVICE;
  return failed_;
}

tnd_status service::look_for_fault_held() {
  if (failed_ != TND_OK)
    return refuse(failed_, "%s", words_);
  current_device const device{device_index_};
  cudaError_t const error = cudaStreamQuery(stream_);
  if (error == cudaSuccess || error == cudaErrorNotReady)
    return TND_OK;
  (void)checked(error, "operations on its memory failed on GPU", device_index_);
  return fail_for_good();
}

tnd_status service::launch(uint32_t first) {
  current_device const device{device_index_};
  cudaError_t const error = launch_service(stream_, {ring_, ++generation_, first, idle_ns});
  launched_at_ns_ = now_ns();
  if (error == cudaSuccess)
    return TND_OK;
  (void)checked(error, "cannot serve commands on GPU", device_index_);
  return fail_for_good();
}

tnd_status service::wait_ended(uint64_t timeout_ns) {
  return spin([&] { return has_ended(); }, after(timeout_ns), true);
}

// The kernel, if the device has room for it soon.
tnd_status service::start(uint64_t timeout_ns) {
  if (is_serving())
    return TND_OK;
  if (generation_ != 0 && load(ring_->left) == generation_) {
    if (tnd_status const code = wait_ended(timeout_ns); code != TND_OK)
      return code;
  }
  if (has_ended()) {
    if (tnd_status const code = launch(generation_ == 0 ? next_ : uint32_t(ended()));
        code != TND_OK)
      return code;
  }
  tnd_status const code = spin([&] { return load(ring_->serving) == generation_ || has_ended(); },
                               launched_at_ns_ + start_ns, true);
  return code == -ETIMEDOUT ? TND_OK : code;
}

tnd_status service::post(command what, const post_options &options, posted &outcome) {
  uint64_t limit_ns = 0;
  for (uint32_t round = 0;; round++) {
    {
      lock_guard const lock{mutex_};
      if (failed_ != TND_OK)
        return refuse(failed_, "%s", words_);
      if (!is_serving()) {
        if (tnd_status const code = start(options.timeout_ns); code != TND_OK)
          return code;
        if (options.may_go_elsewhere && !is_serving()) {
          outcome.elsewhere = true;
          return TND_OK;
        }
      }
      if (is_free(next_)) {
        outcome.sequence = next_++;
        unsigned char *const there = annex(outcome.sequence);
        if (options.annex != nullptr)
          std::memcpy(there, options.annex, options.annex_size);
        if (options.annex != nullptr)
          what.rows.source = reinterpret_cast<uintptr_t>(there);
        if (options.targets_annex)
          what.target = reinterpret_cast<uintptr_t>(there);
        if (options.is_answered)
          held_[outcome.sequence % slot_count].store(true, std::memory_order_relaxed);
        TND_SERVICE_STEP();
        fill(outcome.sequence, what);
        tnd_status const code = post_filled(options, outcome);
        if (code != TND_OK && options.is_answered)
          release(outcome.sequence);
        return code;
      }
      if (limit_ns == 0)
        limit_ns = after(options.timeout_ns);
      if (round % 4096 == 4095) {
        if (tnd_status const code = look_for_fault_held(); code != TND_OK)
          return code;
      }
    }
    pause();
    if (now_ns() >= limit_ns)
      return refuse(-ETIMEDOUT, "GPU %u has performed nothing for %.1f s", device_index_,
                    double(options.timeout_ns) * 1e-9);
  }
}

// The command is in the ring. It stays there if a kernel runs that did not leave before, or comes
// soon, or if it may not go elsewhere.
tnd_status service::post_filled(const post_options &options, posted &outcome) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (load(ring_->left) != generation_)
    return TND_OK;
  if (tnd_status const code = wait_ended(options.timeout_ns); code != TND_OK)
    return code;
  if (is_reached(outcome.sequence + 1, uint32_t(ended())))
    return TND_OK;  // its last look
  for (;;) {
    if (tnd_status const code = start(options.timeout_ns); code != TND_OK)
      return code;
    if (!options.may_go_elsewhere || load(ring_->serving) == generation_)
      return TND_OK;
    TND_SERVICE_STEP();
    if (tnd_status const code = retract(outcome, options.timeout_ns); code != TND_OK)
      return code;
    // One that serves after all finds the command; one that saw that it was canceled has ended.
    if (outcome.elsewhere || load(ring_->serving) == generation_)
      return TND_OK;
  }
}

// Take the last command back from a kernel that was launched and does not start; or it has started:
// it serves, or ends at once.
tnd_status service::retract(posted &outcome, uint64_t timeout_ns) {
  auto const say = [&](uint32_t generation) {
    __atomic_store_n(&ring_->canceled, generation, __ATOMIC_RELEASE);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  };
  say(generation_);
  TND_SERVICE_STEP();
  if (load(ring_->started) != generation_) {
    // Nobody has seen it. The next command has this sequence.
    erase(outcome.sequence);
    release(outcome.sequence);
    next_ = outcome.sequence;
    outcome.elsewhere = true;
  }
  say(generation_ - 1);
  if (load(ring_->started) != generation_)
    return TND_OK;  // it will see that it is not canceled any more
  auto const has_decided = [&] {
    return load(ring_->serving) == generation_ || has_ended();
  };
  if (tnd_status const code = spin(has_decided, after(timeout_ns), true); code != TND_OK)
    return code;
  // Updates before this command wait for a kernel.
  return outcome.elsewhere && has_ended() && uint32_t(ended()) != next_ ? launch(uint32_t(ended()))
                                                                        : TND_OK;
}

tnd_status service::wait_done(uint32_t sequence, uint64_t deadline_ns) {
  return spin([&] { return is_done(sequence); }, deadline_ns, false);
}

tnd_status service::wait_answer(uint32_t sequence, void *target, size_t size,
                                uint64_t deadline_ns) {
  uint64_t const *const words = ring_->answers[sequence % slot_count].words;
  uint32_t content[word_count];
  uint32_t const count = uint32_t((size + 3) / 4);
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

void service::rest() {
  lock_guard const lock{mutex_};
  if (!is_serving() || !is_free(next_))
    return;
  command end{};
  end.kind = command_kind::rest;
  posted outcome{.sequence = next_++};
  fill(outcome.sequence, end);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (load(ring_->left) != generation_)
    return;
  // It left just now: without this command, but for the next run.
  if (wait_ended(rest_limit_ns) == TND_OK && uint32_t(ended()) == outcome.sequence) {
    erase(outcome.sequence);
    next_ = outcome.sequence;
  }
}

void services_rest(uint32_t device_index) {
  lock_guard const lock{services().mutex};
  for (auto const &[key, each] : services().made) {
    if (key.first == device_index)
      each->rest();
  }
}

}  // namespace tanada::port::cuda
