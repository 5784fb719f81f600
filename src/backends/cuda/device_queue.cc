#include "backends/cuda/device_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "backends/cuda/device_memory.hpp"
#include "seams/fabric/update_here.hpp"

namespace cuda = tanada::port::cuda;
using cuda::annex_size;
using cuda::answer_size_max;
using cuda::checked;
using cuda::command_kind;
using cuda::current_device;
using cuda::device_size_max;
using cuda::inline_size_max;
using cuda::is_device_memory;
using cuda::now_ns;
using cuda::put_size_max;
using cuda::refuse;

namespace {

uint64_t number(const void *addr) {
  return reinterpret_cast<uintptr_t>(addr);
}

tnd_status said(tnd_status code) {
  return code == -ETIMEDOUT
             ? refuse(code, "operations on memory of the GPU are not performed at the deadline")
             : code;
}

}  // namespace

tnd_gpu_queue::~tnd_gpu_queue() {
  for (auto const &each : marks_)
    (void)cudaEventDestroy(each->event);
}

uint64_t tnd_gpu_queue::limit() const {
  return cuda::after(timeout_ns_);
}

// ---- copies that are under way; mutex_ is held

// Behind what is in the stream.
cudaError_t tnd_gpu_queue::mark_copies() {
  mark *free = last_mark_ != nullptr && last_mark_->waiters == 0 ? last_mark_ : nullptr;
  for (size_t i = 0; i < marks_.size() && free == nullptr; i++) {
    if (marks_[i]->waiters == 0)
      free = marks_[i].get();
  }
  if (free == nullptr) {
    auto made = std::make_unique<mark>();
    if (cudaError_t const error = cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming);
        error != cudaSuccess)
      return error;
    free = marks_.emplace_back(std::move(made)).get();
  }
  if (cudaError_t const error = cudaEventRecord(free->event, service_.copies());
      error != cudaSuccess)
    return error;
  last_mark_ = free;
  copies_++;
  return cudaSuccess;
}

tnd_gpu_queue::watched tnd_gpu_queue::watch() noexcept {
  if (copied_.load(std::memory_order_acquire) >= copies_)
    return {};
  last_mark_->waiters++;
  return {last_mark_, copies_};
}

tnd_status tnd_gpu_queue::wait_watched(const watched &what, uint64_t deadline_ns) {
  if (what.at == nullptr)
    return TND_OK;
  current_device const device{service_.device_index()};
  tnd_status code = -ETIMEDOUT;
  do {
    cudaError_t const error = cudaEventQuery(what.at->event);
    if (error == cudaErrorNotReady)
      continue;
    code = checked(error, "copies failed on GPU", service_.device_index()) == TND_OK ? TND_OK
                                                                                     : -TND_EDEVICE;
  } while (code == -ETIMEDOUT && now_ns() < deadline_ns);
  what.at->waiters--;
  for (uint64_t known = copied_;
       code == TND_OK && known < what.copies && !copied_.compare_exchange_weak(known, what.copies);)
    continue;
  return code;
}

tnd_status tnd_gpu_queue::wait_copies(held &lock) {
  auto const what = watch();
  if (what.at == nullptr)
    return TND_OK;
  lock.unlock();
  tnd_status const code = wait_watched(what, limit());
  lock.lock();
  return said(code);
}

bool tnd_gpu_queue::must_follow_copies() {
  if (copied_.load(std::memory_order_acquire) >= follows_copies_)
    return false;
  auto const what = watch();
  return wait_watched(what, 0) != TND_OK;
}

// The first mark is made here, and not while a kernel waits.
tnd_status tnd_gpu_queue::open() {
  current_device const device{service_.device_index()};
  auto made = std::make_unique<mark>();
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming);
  if (error == cudaSuccess)
    marks_.push_back(std::move(made));
  return checked(error, "cannot make an event on GPU", service_.device_index());
}

// ---- the two ways; mutex_ is held

// What must come before is performed.
tnd_status tnd_gpu_queue::follow(held &lock) {
  if (!must_follow_)
    return TND_OK;
  uint32_t const behind = follows_;
  lock.unlock();
  tnd_status const code = service_.wait_done(behind, limit());
  lock.lock();
  if (code == TND_OK && follows_ == behind)
    must_follow_ = false;
  return said(code);
}

tnd_status tnd_gpu_queue::post(held &lock, command &what, service::post_options options,
                               service::posted &outcome) {
  if (must_follow_copies()) {
    if (options.may_go_elsewhere) {
      outcome.elsewhere = true;
      return TND_OK;
    }
    if (tnd_status const code = wait_copies(lock); code != TND_OK)
      return code;
  }
  if (must_follow_ && service_.is_done(follows_))
    must_follow_ = false;
  if (must_follow_)
    options.may_go_elsewhere = false;  // behind them in the ring
  what.is_ordered = is_ordered_;
  options.timeout_ns = timeout_ns_;
  tnd_status const code = service_.post(what, options, outcome);
  if (code != TND_OK || outcome.elsewhere)
    return said(code);
  has_posted_ = true;
  last_ = outcome.sequence;
  is_ordered_ = false;
  return TND_OK;
}

// call(stream): what it puts there follows all copies before, and by order() what the kernel
// performs.
tnd_status tnd_gpu_queue::enqueue(held &lock, const std::function<cudaError_t(cudaStream_t)> &call,
                                  finish when) {
  if (tnd_status const code = follow(lock); code != TND_OK)
    return code;
  {
    current_device const device{service_.device_index()};
    cudaError_t error = device.error();
    if (error == cudaSuccess)
      error = call(service_.copies());
    if (tnd_status const code = checked(error, "cannot copy on GPU", service_.device_index());
        code != TND_OK)
      return code;
    // Nobody would know when it ends.
    if (checked(mark_copies(), "cannot follow copies on GPU", service_.device_index()) != TND_OK)
      return -TND_EDEVICE;
  }
  return when == finish::now ? wait_copies(lock) : TND_OK;
}

tnd_status tnd_gpu_queue::enqueue_copy(held &lock, const place &what, finish when) {
  return enqueue(
      lock,
      [&](cudaStream_t stream) {
        return cudaMemcpyAsync(what.target, what.source, what.size, cudaMemcpyDefault, stream);
      },
      when);
}

// Between devices, by copy engines alone: what the runtime copies within a GPU it may copy with a
// kernel.
tnd_status tnd_gpu_queue::enqueue_bounce(held &lock, const place &what, finish when) {
  auto const both = [&](cudaStream_t stream, unsigned char *bounce) {
    cudaError_t const error =
        cudaMemcpyAsync(bounce, what.source, what.size, cudaMemcpyDeviceToHost, stream);
    return error != cudaSuccess
               ? error
               : cudaMemcpyAsync(what.target, bounce, what.size, cudaMemcpyHostToDevice, stream);
  };
  return enqueue(
      lock, [&](cudaStream_t stream) { return service_.with_bounce(stream, both); }, when);
}

// What must come before is performed: the processor is next.
tnd_status tnd_gpu_queue::settle(held &lock) {
  if (tnd_status const code = follow(lock); code != TND_OK)
    return code;
  return must_follow_copies() ? wait_copies(lock) : TND_OK;
}

// ---- moving bytes

// finish::now: whoever asks wants it performed, or has a source that is his again.
tnd_status tnd_gpu_queue::move_to_device(const place &what, finish when) {
  bool const is_from_device = is_device_memory(what.source) != 0;
  held lock{mutex_};
  service::posted outcome;
  command wanted{};
  wanted.size = uint32_t(what.size);
  wanted.target = number(what.target);
  if (is_from_device) {
    if (what.size > device_size_max)
      return enqueue_copy(lock, what, when);
    wanted.kind = command_kind::copy;
    wanted.rows.source = number(what.source);
    tnd_status const code = post(lock, wanted, {.may_go_elsewhere = true}, outcome);
    if (code != TND_OK)
      return code;
    if (outcome.elsewhere)
      return enqueue_bounce(lock, what, when);
    lock.unlock();
    return when == finish::now ? said(service_.wait_done(outcome.sequence, limit())) : TND_OK;
  }
  // The source is the caller's again although nothing is waited for: the command has the bytes.
  if (what.size <= put_size_max) {
    bool const is_inline = what.size <= inline_size_max;
    wanted.kind = is_inline ? command_kind::write : command_kind::copy;
    if (is_inline)
      std::memcpy(wanted.bytes, what.source, what.size);
    tnd_status const code = post(lock, wanted,
                                 {.annex = is_inline ? nullptr : what.source,
                                  .annex_size = what.size,
                                  .may_go_elsewhere = true},
                                 outcome);
    if (code != TND_OK || !outcome.elsewhere)
      return code;
  }
  return enqueue_copy(lock, what, when);
}

tnd_status tnd_gpu_queue::read(const place &what) {
  held lock{mutex_};
  service::posted outcome{.elsewhere = true};
  if (what.size <= annex_size) {
    command wanted{};
    wanted.kind = command_kind::read;
    wanted.size = uint32_t(what.size);
    wanted.rows.source = number(what.source);
    outcome.elsewhere = false;
    if (tnd_status const code =
            post(lock, wanted, {.is_answered = true, .may_go_elsewhere = true}, outcome);
        code != TND_OK)
      return code;
  }
  if (outcome.elsewhere)
    return enqueue_copy(lock, what, finish::now);
  lock.unlock();
  tnd_status code;
  if (what.size <= answer_size_max) {
    code = service_.wait_answer(outcome.sequence, what.target, what.size, limit());
  } else {
    code = service_.wait_done(outcome.sequence, limit());
    if (code == TND_OK)
      std::memcpy(what.target, service_.annex(outcome.sequence), what.size);
  }
  service_.release(outcome.sequence);
  return said(code);
}

tnd_status tnd_gpu_queue::move(const place &what, finish when) {
  if (what.size == 0)
    return TND_OK;
  if (is_device_memory(what.target) != 0)
    return move_to_device(what, when);
  if (is_device_memory(what.source) != 0)
    return read(what);
  held lock{mutex_};
  if (tnd_status const code = settle(lock); code != TND_OK)
    return code;
  std::memcpy(what.target, what.source, what.size);
  return TND_OK;
}

// A copy of pinned memory takes the source later: the caller's memory may be such.
tnd_status tnd_gpu_queue::put(void *target, const void *source, size_t size) {
  return move({target, source, size}, finish::now);
}

tnd_status tnd_gpu_queue::get(void *target, const void *source, size_t size) {
  if (tnd_status const code = move({target, source, size}, finish::now); code != TND_OK)
    return code;
  // From host memory the bytes may still be on their way.
  return size != 0 && is_device_memory(target) != 0 && is_device_memory(source) == 0 ? wait(limit())
                                                                                     : TND_OK;
}

tnd_status tnd_gpu_queue::copy(void *target, const void *source, size_t size) {
  return move({target, source, size}, finish::later);
}

// ---- updates

tnd_status tnd_gpu_queue::update_here(held &lock, void *target, const tnd_gpu_update &what,
                                      uint64_t *before) {
  if (tnd_status const code = settle(lock); code != TND_OK)
    return code;
  auto const kind = tanada::port::fabric_atomic(what.kind);
  uint64_t const there =
      what.size == 4 ? tanada::port::update_here(kind, static_cast<uint32_t *>(target),
                                                 uint32_t(what.operand), uint32_t(what.compare))
                     : tanada::port::update_here(kind, static_cast<uint64_t *>(target),
                                                 what.operand, what.compare);
  if (before != nullptr)
    *before = there;
  return TND_OK;
}

tnd_status tnd_gpu_queue::update(void *target, const tnd_gpu_update &what, uint64_t *before) {
  if (number(target) % what.size != 0)
    return refuse(-EINVAL, "an update of %u bytes at %p, which is not a multiple of that",
                  what.size, target);
  held lock{mutex_};
  if (is_device_memory(target) == 0)
    return update_here(lock, target, what, before);
  auto const kind = tanada::port::fabric_atomic(what.kind);
  bool const is_set = kind == tanada::port::fabric_atomic::swap && before == nullptr;
  command wanted{};
  wanted.kind = command_kind::update;
  wanted.size = what.size;
  wanted.target = number(target);
  wanted.update = {what.operand, what.compare};
  wanted.atomic = uint8_t(what.kind);
  wanted.wants_value = before != nullptr;
  // After copies under way a kernel of its own follows them in their stream.
  bool const follows_copies = before == nullptr && must_follow_copies();
  if (follows_copies && !is_set)
    return enqueue(
        lock, [&](cudaStream_t stream) { return cuda::launch_update(stream, wanted, nullptr); },
        finish::later);
  service::posted outcome;
  tnd_status code =
      post(lock, wanted, {.is_answered = before != nullptr, .may_go_elsewhere = is_set}, outcome);
  if (code != TND_OK)
    return code;
  if (outcome.elsewhere)
    return enqueue_copy(lock, {target, &what.operand, what.size},
                        finish::later);  // so little is taken at once
  if (before == nullptr)
    return TND_OK;
  lock.unlock();
  uint64_t there = 0;
  code = service_.wait_answer(outcome.sequence, &there, sizeof there, limit());
  if (code == TND_OK)
    *before = there;
  service_.release(outcome.sequence);
  return said(code);
}

// ---- order and completion

tnd_status tnd_gpu_queue::order() {
  held const lock{mutex_};
  if (has_posted_ && !service_.is_done(last_)) {
    is_ordered_ = true;
    must_follow_ = true;
    follows_ = last_;
  }
  follows_copies_ = copies_;
  return TND_OK;
}

tnd_status tnd_gpu_queue::wait(uint64_t deadline_ns) {
  held lock{mutex_, std::try_to_lock};
  auto const deadline =
      std::chrono::nanoseconds{int64_t(std::min(deadline_ns, uint64_t(INT64_MAX)))};
  if (!lock.owns_lock() && !lock.try_lock_until(std::chrono::steady_clock::time_point{deadline}))
    return said(-ETIMEDOUT);
  bool const has_posted = has_posted_;
  uint32_t const last = last_;
  auto const copies = watch();
  lock.unlock();
  tnd_status code = has_posted ? service_.wait_done(last, deadline_ns) : TND_OK;
  tnd_status const copied = wait_watched(copies, code == TND_OK ? deadline_ns : 0);
  if (code == TND_OK)
    code = copied;
  if (code == TND_OK && has_posted && lock.try_lock() && last_ == last) {
    is_ordered_ = false;
    must_follow_ = false;
    has_posted_ = false;
  }
  return said(code);
}
