#include "port/gpu/cuda/device_queue.hpp"

#include <cerrno>
#include <cstring>

#include "port/gpu/cuda/device_memory.hpp"
#include "port/memory/update_here.hpp"

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


uint64_t number(const void *addr) { return reinterpret_cast<uintptr_t>(addr); }

uint64_t limit() { return now_ns() + cuda::wait_limit_ns; }

tnd_status said(tnd_status code) {
  return code == -ETIMEDOUT ? refuse(code, "operations on memory of the GPU are not performed at the deadline") : code;
}

}  // namespace

tnd_gpu_queue::~tnd_gpu_queue() {
  if (copied_ != nullptr) (void)cudaEventDestroy(copied_);
}

// ---- the two ways; mutex_ is held

tnd_status tnd_gpu_queue::post(command &what, service::post_options options, service::posted &outcome) {
  if (must_follow_copies_ && copies_are_done()) must_follow_copies_ = has_copies_ = false;
  if (must_follow_copies_) {
    if (options.may_go_elsewhere) {
      outcome.elsewhere = true;
      return TND_OK;
    }
    if (tnd_status const code = wait_copies(limit()); code != TND_OK) return code;
  }
  if (must_follow_ && service_.is_done(follows_)) must_follow_ = false;
  if (must_follow_) options.may_go_elsewhere = false;  // behind them in the ring
  what.is_ordered = is_ordered_;
  tnd_status const code = service_.post(what, options, outcome);
  if (code != TND_OK || outcome.elsewhere) return code;
  has_posted_ = true;
  last_ = outcome.sequence;
  is_ordered_ = false;
  return TND_OK;
}

bool tnd_gpu_queue::copies_are_done() {
  if (!has_copies_) return true;
  current_device const device{service_.device_index()};
  return cudaEventQuery(copied_) == cudaSuccess;
}

tnd_status tnd_gpu_queue::wait_copies(uint64_t deadline_ns) {
  if (!has_copies_) return TND_OK;
  current_device const device{service_.device_index()};
  for (;;) {
    cudaError_t const error = cudaEventQuery(copied_);
    if (error == cudaSuccess) break;
    if (error != cudaErrorNotReady) {
      (void)checked(error, "copies failed on GPU", service_.device_index());
      return -TND_EDEVICE;
    }
    if (now_ns() >= deadline_ns) return -ETIMEDOUT;
  }
  has_copies_ = must_follow_copies_ = false;
  return TND_OK;
}

// call(stream): what it puts there follows all copies before, and by order() what the kernel performs.
tnd_status tnd_gpu_queue::enqueue(const std::function<cudaError_t(cudaStream_t)> &call, finish when) {
  if (must_follow_) {
    if (tnd_status const code = service_.wait_done(follows_, limit()); code != TND_OK) return said(code);
    must_follow_ = false;
  }
  current_device const device{service_.device_index()};
  cudaError_t error = device.error();
  if (error == cudaSuccess && copied_ == nullptr) error = cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming);
  if (error == cudaSuccess) error = call(service_.copies());
  if (error == cudaSuccess) error = cudaEventRecord(copied_, service_.copies());
  if (tnd_status const code = checked(error, "cannot copy on GPU", service_.device_index()); code != TND_OK) return code;
  has_copies_ = true;
  copies_++;
  return when == finish::now ? said(wait_copies(limit())) : TND_OK;
}

tnd_status tnd_gpu_queue::enqueue_copy(const place &what, finish when) {
  return enqueue([&](cudaStream_t stream) { return cudaMemcpyAsync(what.target, what.source, what.size, cudaMemcpyDefault, stream); }, when);
}

// Between devices, by copy engines alone: what the runtime copies within a GPU it may copy with a kernel.
tnd_status tnd_gpu_queue::enqueue_bounce(const place &what, finish when) {
  auto const both = [&](cudaStream_t stream, unsigned char *bounce) {
    cudaError_t const error = cudaMemcpyAsync(bounce, what.source, what.size, cudaMemcpyDeviceToHost, stream);
    return error != cudaSuccess ? error : cudaMemcpyAsync(what.target, bounce, what.size, cudaMemcpyHostToDevice, stream);
  };
  return enqueue([&](cudaStream_t stream) { return service_.with_bounce(stream, both); }, when);
}

// What must come before is performed: the processor is next.
tnd_status tnd_gpu_queue::settle() {
  if (must_follow_) {
    if (tnd_status const code = service_.wait_done(follows_, limit()); code != TND_OK) return said(code);
    must_follow_ = false;
  }
  return must_follow_copies_ ? said(wait_copies(limit())) : TND_OK;
}

// ---- moving bytes

// finish::now: whoever asks wants it performed, or has a source that is his again.
tnd_status tnd_gpu_queue::move_to_device(const place &what, finish when) {
  bool const is_from_device = is_device_memory(what.source) != 0;
  std::unique_lock lock{mutex_};
  service::posted outcome;
  command wanted{};
  wanted.size = uint32_t(what.size);
  wanted.target = number(what.target);
  if (is_from_device) {
    if (what.size > device_size_max) return enqueue_copy(what, when);
    wanted.kind = command_kind::copy;
    wanted.rows.source = number(what.source);
    tnd_status const code = post(wanted, {.may_go_elsewhere = true}, outcome);
    if (code != TND_OK) return code;
    if (outcome.elsewhere) return enqueue_bounce(what, when);
    lock.unlock();
    return when == finish::now ? said(service_.wait_done(outcome.sequence, limit())) : TND_OK;
  }
  // The source is the caller's again although nothing is waited for: the command has the bytes.
  if (what.size <= put_size_max) {
    bool const is_inline = what.size <= inline_size_max;
    wanted.kind = is_inline ? command_kind::write : command_kind::copy;
    if (is_inline) std::memcpy(wanted.bytes, what.source, what.size);
    tnd_status const code =
        post(wanted, {.annex = is_inline ? nullptr : what.source, .annex_size = what.size, .may_go_elsewhere = true}, outcome);
    if (code != TND_OK || !outcome.elsewhere) return code;
  }
  return enqueue_copy(what, when);
}

tnd_status tnd_gpu_queue::read(const place &what) {
  std::unique_lock lock{mutex_};
  service::posted outcome{.elsewhere = true};
  if (what.size <= annex_size) {
    command wanted{};
    wanted.kind = command_kind::read;
    wanted.size = uint32_t(what.size);
    wanted.rows.source = number(what.source);
    outcome.elsewhere = false;
    if (tnd_status const code = post(wanted, {.is_answered = true, .may_go_elsewhere = true}, outcome); code != TND_OK) return code;
  }
  if (outcome.elsewhere) return enqueue_copy(what, finish::now);
  lock.unlock();
  tnd_status code;
  if (what.size <= answer_size_max) {
    code = service_.wait_answer(outcome.sequence, what.target, what.size);
  } else {
    code = service_.wait_done(outcome.sequence, limit());
    if (code == TND_OK) std::memcpy(what.target, service_.annex(outcome.sequence), what.size);
  }
  service_.release(outcome.sequence);
  return said(code);
}

tnd_status tnd_gpu_queue::move(const place &what, finish when) {
  if (what.size == 0) return TND_OK;
  if (is_device_memory(what.target) != 0) return move_to_device(what, when);
  if (is_device_memory(what.source) != 0) return read(what);
  std::lock_guard const lock{mutex_};
  if (tnd_status const code = settle(); code != TND_OK) return code;
  std::memcpy(what.target, what.source, what.size);
  return TND_OK;
}

// A copy of pinned memory takes the source later: the caller's memory may be such.
tnd_status tnd_gpu_queue::put(void *target, const void *source, size_t size) { return move({target, source, size}, finish::now); }

tnd_status tnd_gpu_queue::get(void *target, const void *source, size_t size) {
  if (tnd_status const code = move({target, source, size}, finish::now); code != TND_OK) return code;
  // From host memory the bytes may still be on their way.
  return size != 0 && is_device_memory(target) != 0 && is_device_memory(source) == 0 ? wait(limit()) : TND_OK;
}

tnd_status tnd_gpu_queue::copy(void *target, const void *source, size_t size) { return move({target, source, size}, finish::later); }

// ---- updates

tnd_status tnd_gpu_queue::update_here(void *target, const tnd_gpu_update &what, uint64_t *before) {
  if (tnd_status const code = settle(); code != TND_OK) return code;
  auto const kind = tanada::port::fabric_atomic(what.kind);
  uint64_t const there =
      what.size == 4 ? tanada::port::update_here(kind, static_cast<uint32_t *>(target), uint32_t(what.operand), uint32_t(what.compare))
                     : tanada::port::update_here(kind, static_cast<uint64_t *>(target), what.operand, what.compare);
  if (before != nullptr) *before = there;
  return TND_OK;
}

tnd_status tnd_gpu_queue::update(void *target, const tnd_gpu_update &what, uint64_t *before) {
  if (number(target) % what.size != 0)
    return refuse(-EINVAL, "an update of %u bytes at %p, which is not a multiple of that", what.size, target);
  std::unique_lock lock{mutex_};
  if (is_device_memory(target) == 0) return update_here(target, what, before);
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
  bool const follows_copies = before == nullptr && must_follow_copies_ && !copies_are_done();
  if (follows_copies && !is_set)
    return enqueue([&](cudaStream_t stream) { return cuda::launch_update(stream, wanted, nullptr); }, finish::later);
  service::posted outcome;
  tnd_status code = post(wanted, {.is_answered = before != nullptr, .may_go_elsewhere = is_set}, outcome);
  if (code != TND_OK) return code;
  if (outcome.elsewhere) return enqueue_copy({target, &what.operand, what.size}, finish::later);  // so little is taken at once
  if (before == nullptr) return TND_OK;
  lock.unlock();
  uint64_t there = 0;
  code = service_.wait_answer(outcome.sequence, &there, sizeof there);
  if (code == TND_OK) *before = there;
  service_.release(outcome.sequence);
  return said(code);
}

// ---- order and completion

tnd_status tnd_gpu_queue::order() {
  std::lock_guard const lock{mutex_};
  if (has_posted_ && !service_.is_done(last_)) {
    is_ordered_ = must_follow_ = true;
    follows_ = last_;
  }
  must_follow_copies_ = has_copies_;
  return TND_OK;
}

tnd_status tnd_gpu_queue::wait(uint64_t deadline_ns) {
  std::unique_lock lock{mutex_};
  if (has_posted_) {
    uint32_t const last = last_;
    lock.unlock();
    if (tnd_status const code = service_.wait_done(last, deadline_ns); code != TND_OK) return said(code);
    lock.lock();
    if (last_ == last) is_ordered_ = must_follow_ = has_posted_ = false;
  }
  // In steps, for others may have operations.
  for (uint64_t const enqueued = copies_; has_copies_;) {
    tnd_status const code = wait_copies(0);
    if (code == TND_OK) break;
    if (code != -ETIMEDOUT) return code;
    if (copies_ != enqueued && !has_copies_) break;
    if (now_ns() >= deadline_ns) return said(-ETIMEDOUT);
    lock.unlock();
    lock.lock();
  }
  return TND_OK;
}
