// The operations of one context on a GPU, except those on rows.
#include "backends/cuda/device_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "backends/cuda/device_memory.hpp"
#include "core/base/assert.hpp"
#include "seams/fabric/update_word.hpp"

namespace cuda = tanada::backends::cuda;
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
using cuda::set_error;

namespace {

uint64_t to_integer(const void *addr) {
  return reinterpret_cast<uintptr_t>(addr);
}

tnd_status with_message(tnd_status code) {
  return code == -ETIMEDOUT
             ? set_error(code, "operations on GPU memory were not performed by the deadline")
             : code;
}

tanada::backends::cuda::command update_command(void *target, const tnd_gpu_update &request) {
  cuda::command wanted{};
  wanted.kind = command_kind::update;
  wanted.size = request.size;
  wanted.target = to_integer(target);
  wanted.update = {request.operand, request.compare};
  wanted.atomic = uint8_t(request.kind);
  return wanted;
}

}  // namespace

tnd_gpu_queue::~tnd_gpu_queue() {
  for (auto const &entry : events_) {
    TND_ASSERT(entry->waiters == 0);
    (void)cudaEventDestroy(entry->event);
  }
}

uint64_t tnd_gpu_queue::call_deadline() const {
  return cuda::after(timeout_ns_);
}

// ---- copies in flight; mutex_ is held

// Records an event after the copies in the stream.
cudaError_t tnd_gpu_queue::mark_copies() {
  copy_event *free = last_event_ != nullptr && last_event_->waiters == 0 ? last_event_ : nullptr;
  for (size_t i = 0; i < events_.size() && free == nullptr; i++) {
    if (events_[i]->waiters == 0)
      free = events_[i].get();
  }
  if (free == nullptr) {
    auto new_event = std::make_unique<copy_event>();
    if (cudaError_t const error =
            cudaEventCreateWithFlags(&new_event->event, cudaEventDisableTiming);
        error != cudaSuccess)
      return error;
    free = events_.emplace_back(std::move(new_event)).get();
  }
  if (cudaError_t const error = cudaEventRecord(free->event, service_.copies());
      error != cudaSuccess)
    return error;
  last_event_ = free;
  copies_++;
  return cudaSuccess;
}

tnd_gpu_queue::pending_copies tnd_gpu_queue::watch_copies() noexcept {
  if (copied_.load(std::memory_order_acquire) >= copies_)
    return {};
  TND_ASSERT(last_event_ != nullptr);  // mark_copies() records one for each copy
  last_event_->waiters++;
  return {last_event_, copies_};
}

tnd_status tnd_gpu_queue::wait_pending(const pending_copies &pending, uint64_t deadline_ns) {
  if (pending.event == nullptr)
    return TND_OK;
  current_device const device{service_.device_index()};
  tnd_status code = -ETIMEDOUT;
  do {
    cudaError_t const error = cudaEventQuery(pending.event->event);
    if (error == cudaErrorNotReady)
      continue;
    code = checked(error, "copies failed on GPU", service_.device_index()) == TND_OK ? TND_OK
                                                                                     : -TND_EDEVICE;
  } while (code == -ETIMEDOUT && now_ns() < deadline_ns);
  uint32_t const waiters = pending.event->waiters.fetch_sub(1);
  TND_ASSERT(waiters != 0);
  for (uint64_t known = copied_; code == TND_OK && known < pending.copies &&
                                 !copied_.compare_exchange_weak(known, pending.copies);)
    continue;
  return code;
}

tnd_status tnd_gpu_queue::wait_copies(queue_lock &lock) {
  auto const pending = watch_copies();
  if (pending.event == nullptr)
    return TND_OK;
  TND_ASSERT(lock.owns_lock());
  lock.unlock();
  tnd_status const code = wait_pending(pending, call_deadline());
  lock.lock();
  return with_message(code);
}

bool tnd_gpu_queue::must_follow_copies() {
  if (copied_.load(std::memory_order_acquire) >= follows_copies_)
    return false;
  auto const pending = watch_copies();
  return wait_pending(pending, 0) != TND_OK;
}

// Creates the first event here, because it cannot be created while a kernel waits.
tnd_status tnd_gpu_queue::open() {
  current_device const device{service_.device_index()};
  auto new_event = std::make_unique<copy_event>();
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = cudaEventCreateWithFlags(&new_event->event, cudaEventDisableTiming);
  if (error == cudaSuccess)
    events_.push_back(std::move(new_event));
  return checked(error, "cannot make an event on GPU", service_.device_index());
}

// ---- the two paths; mutex_ is held

// Waits until the commands that new operations follow are performed.
tnd_status tnd_gpu_queue::await_commands(queue_lock &lock) {
  if (!must_follow_)
    return TND_OK;
  uint32_t const sequence = follow_sequence_;
  TND_ASSERT(lock.owns_lock());
  lock.unlock();
  tnd_status const code = service_.wait_done(sequence, call_deadline());
  lock.lock();
  if (code == TND_OK && follow_sequence_ == sequence)
    must_follow_ = false;
  return with_message(code);
}

tnd_status tnd_gpu_queue::post(queue_lock &lock,
                               command &request,
                               service::post_options options,
                               service::posted &outcome) {
  TND_ASSERT(lock.owns_lock() && options.annex_size <= annex_size);
  if (must_follow_copies()) {
    if (options.may_decline) {
      outcome.is_declined = true;
      return TND_OK;
    }
    if (tnd_status const code = wait_copies(lock); code != TND_OK)
      return code;
  }
  if (must_follow_ && service_.is_done(follow_sequence_))
    must_follow_ = false;
  if (must_follow_)
    options.may_decline = false;  // the ring keeps it after them
  request.is_ordered = is_ordered_;
  options.timeout_ns = timeout_ns_;
  tnd_status const code = service_.post(request, options, outcome);
  if (code != TND_OK || outcome.is_declined)
    return with_message(code);
  has_posted_ = true;
  last_ = outcome.sequence;
  is_ordered_ = false;
  return TND_OK;
}

// `call(stream)` enqueues operations. They follow all earlier copies and, after order(), the
// commands to the kernel.
tnd_status tnd_gpu_queue::enqueue(queue_lock &lock,
                                  const std::function<cudaError_t(cudaStream_t)> &call,
                                  finish when) {
  if (tnd_status const code = await_commands(lock); code != TND_OK)
    return code;
  {
    current_device const device{service_.device_index()};
    cudaError_t error = device.error();
    if (error == cudaSuccess)
      error = call(service_.copies());
    if (tnd_status const code = checked(error, "cannot copy on GPU", service_.device_index());
        code != TND_OK)
      return code;
    // Without an event, the end of the copy could not be detected.
    if (checked(mark_copies(), "cannot follow copies on GPU", service_.device_index()) != TND_OK)
      return -TND_EDEVICE;
  }
  return when == finish::immediate ? wait_copies(lock) : TND_OK;
}

tnd_status tnd_gpu_queue::enqueue_copy(queue_lock &lock,
                                       const transfer_args &transfer,
                                       finish when) {
  return enqueue(
      lock,
      [&](cudaStream_t stream) {
        return cudaMemcpyAsync(
            transfer.target, transfer.source, transfer.size, cudaMemcpyDefault, stream);
      },
      when);
}

// Copies between devices, only by copy engines: for a copy within a GPU the runtime may use a
// kernel.
tnd_status tnd_gpu_queue::enqueue_bounce(queue_lock &lock,
                                         const transfer_args &transfer,
                                         finish when) {
  auto const both = [&](cudaStream_t stream, unsigned char *bounce) {
    cudaError_t const error =
        cudaMemcpyAsync(bounce, transfer.source, transfer.size, cudaMemcpyDeviceToHost, stream);
    return error != cudaSuccess
               ? error
               : cudaMemcpyAsync(
                     transfer.target, bounce, transfer.size, cudaMemcpyHostToDevice, stream);
  };
  return enqueue(
      lock, [&](cudaStream_t stream) { return service_.with_bounce(stream, both); }, when);
}

// Waits until all preceding operations are performed, because the processor acts next.
tnd_status tnd_gpu_queue::await_preceding(queue_lock &lock) {
  if (tnd_status const code = await_commands(lock); code != TND_OK)
    return code;
  return must_follow_copies() ? wait_copies(lock) : TND_OK;
}

// ---- moving bytes

// finish::immediate: the caller needs the operation performed, or reuses the source at once.
tnd_status tnd_gpu_queue::move_between_devices(const transfer_args &transfer, finish when) {
  queue_lock lock{mutex_};
  if (transfer.size > device_size_max)
    return enqueue_copy(lock, transfer, when);
  command request{};
  request.kind = command_kind::copy;
  request.size = uint32_t(transfer.size);
  request.target = to_integer(transfer.target);
  request.rows.source = to_integer(transfer.source);
  service::posted outcome;
  tnd_status const code = post(lock, request, {.may_decline = true}, outcome);
  if (code != TND_OK)
    return code;
  if (outcome.is_declined)
    return enqueue_bounce(lock, transfer, when);
  lock.unlock();
  return when == finish::immediate
             ? with_message(service_.wait_done(outcome.sequence, call_deadline()))
             : TND_OK;
}

tnd_status tnd_gpu_queue::move_from_host(const transfer_args &transfer, finish when) {
  queue_lock lock{mutex_};
  if (transfer.size > put_size_max)
    return enqueue_copy(lock, transfer, when);
  // The command holds the bytes, so the source may be reused without a wait.
  bool const is_inline = transfer.size <= inline_size_max;
  command request{};
  request.kind = is_inline ? command_kind::write : command_kind::copy;
  request.size = uint32_t(transfer.size);
  request.target = to_integer(transfer.target);
  if (is_inline)
    std::memcpy(request.bytes, transfer.source, transfer.size);
  service::posted outcome;
  tnd_status const code = post(lock,
                               request,
                               {.annex = is_inline ? nullptr : transfer.source,
                                .annex_size = transfer.size,
                                .may_decline = true},
                               outcome);
  return code == TND_OK && outcome.is_declined ? enqueue_copy(lock, transfer, when) : code;
}

tnd_status tnd_gpu_queue::read(const transfer_args &transfer) {
  queue_lock lock{mutex_};
  service::posted outcome{.is_declined = true};
  if (transfer.size <= annex_size) {
    command wanted{};
    wanted.kind = command_kind::read;
    wanted.size = uint32_t(transfer.size);
    wanted.rows.source = to_integer(transfer.source);
    outcome.is_declined = false;
    if (tnd_status const code =
            post(lock, wanted, {.is_answered = true, .may_decline = true}, outcome);
        code != TND_OK)
      return code;
  }
  if (outcome.is_declined)
    return enqueue_copy(lock, transfer, finish::immediate);
  lock.unlock();
  tnd_status code;
  if (transfer.size <= answer_size_max) {
    code = service_.wait_answer(outcome.sequence, transfer.target, transfer.size, call_deadline());
  } else {
    code = service_.wait_done(outcome.sequence, call_deadline());
    if (code == TND_OK)
      std::memcpy(transfer.target, service_.annex(outcome.sequence), transfer.size);
  }
  service_.release(outcome.sequence);
  return with_message(code);
}

tnd_status tnd_gpu_queue::move(const transfer_args &transfer, finish when) {
  if (transfer.size == 0)
    return TND_OK;
  if (is_device_memory(transfer.target) != 0)
    return is_device_memory(transfer.source) != 0 ? move_between_devices(transfer, when)
                                                  : move_from_host(transfer, when);
  if (is_device_memory(transfer.source) != 0)
    return read(transfer);
  queue_lock lock{mutex_};
  if (tnd_status const code = await_preceding(lock); code != TND_OK)
    return code;
  std::memcpy(transfer.target, transfer.source, transfer.size);
  return TND_OK;
}

// A copy from pinned memory reads the source later, and the caller's memory may be pinned.
tnd_status tnd_gpu_queue::put(void *target, const void *source, size_t size) {
  return move({target, source, size}, finish::immediate);
}

tnd_status tnd_gpu_queue::get(void *target, const void *source, size_t size) {
  if (tnd_status const code = move({target, source, size}, finish::immediate); code != TND_OK)
    return code;
  // A copy from host memory may still be in flight.
  return size != 0 && is_device_memory(target) != 0 && is_device_memory(source) == 0
             ? wait(call_deadline())
             : TND_OK;
}

tnd_status tnd_gpu_queue::copy(void *target, const void *source, size_t size) {
  return move({target, source, size}, finish::deferred);
}

// ---- updates

tnd_status tnd_gpu_queue::update_host_word(queue_lock &lock,
                                           void *target,
                                           const tnd_gpu_update &request,
                                           uint64_t *before) {
  if (tnd_status const code = await_preceding(lock); code != TND_OK)
    return code;
  auto const kind = tanada::seams::fabric_atomic(request.kind);
  uint64_t const old_value =
      request.size == 4
          ? tanada::seams::update_word(kind,
                                       static_cast<uint32_t *>(target),
                                       uint32_t(request.operand),
                                       uint32_t(request.compare))
          : tanada::seams::update_word(
                kind, static_cast<uint64_t *>(target), request.operand, request.compare);
  if (before != nullptr)
    *before = old_value;
  return TND_OK;
}

tnd_status tnd_gpu_queue::update(void *target, const tnd_gpu_update &request, uint64_t *before) {
  if (to_integer(target) % request.size != 0)
    return set_error(-EINVAL,
                     "update of {} bytes at {}: the address is not a multiple of the size",
                     request.size,
                     target);
  queue_lock lock{mutex_};
  if (is_device_memory(target) == 0)
    return update_host_word(lock, target, request, before);
  command wanted = update_command(target, request);
  if (before == nullptr)
    return update_silently(lock, wanted, request);
  wanted.wants_value = true;
  service::posted outcome;
  tnd_status code = post(lock, wanted, {.is_answered = true}, outcome);
  if (code != TND_OK)
    return code;
  lock.unlock();
  uint64_t old_value = 0;
  code = service_.wait_answer(outcome.sequence, &old_value, sizeof old_value, call_deadline());
  if (code == TND_OK)
    *before = old_value;
  service_.release(outcome.sequence);
  return with_message(code);
}

// An update of device memory without a result.
tnd_status tnd_gpu_queue::update_silently(queue_lock &lock,
                                          command &wanted,
                                          const tnd_gpu_update &request) {
  bool const is_set =
      tanada::seams::fabric_atomic(request.kind) == tanada::seams::fabric_atomic::swap;
  // After copies in flight, a separate kernel in their stream performs the update.
  if (must_follow_copies() && !is_set)
    return enqueue(
        lock,
        [&](cudaStream_t stream) { return cuda::launch_update(stream, wanted, nullptr); },
        finish::deferred);
  service::posted outcome;
  tnd_status const code = post(lock, wanted, {.may_decline = is_set}, outcome);
  if (code != TND_OK || !outcome.is_declined)
    return code;
  // So small a source is read at once.
  return enqueue_copy(lock,
                      {reinterpret_cast<void *>(wanted.target), &request.operand, request.size},
                      finish::deferred);
}

// ---- order and completion

tnd_status tnd_gpu_queue::order() {
  queue_lock const lock{mutex_};
  TND_ASSERT(follows_copies_ <= copies_);
  if (has_posted_ && !service_.is_done(last_)) {
    is_ordered_ = true;
    must_follow_ = true;
    follow_sequence_ = last_;
  }
  follows_copies_ = copies_;
  return TND_OK;
}

tnd_status tnd_gpu_queue::wait(uint64_t deadline_ns) {
  queue_lock lock{mutex_, std::try_to_lock};
  auto const deadline =
      std::chrono::nanoseconds{int64_t(std::min(deadline_ns, uint64_t(INT64_MAX)))};
  if (!lock.owns_lock() && !lock.try_lock_until(std::chrono::steady_clock::time_point{deadline}))
    return with_message(-ETIMEDOUT);
  bool const has_posted = has_posted_;
  uint32_t const last = last_;
  auto const copies = watch_copies();
  lock.unlock();
  tnd_status code = has_posted ? service_.wait_done(last, deadline_ns) : TND_OK;
  tnd_status const copied = wait_pending(copies, code == TND_OK ? deadline_ns : 0);
  if (code == TND_OK)
    code = copied;
  if (code == TND_OK && has_posted && lock.try_lock() && last_ == last) {
    is_ordered_ = false;
    must_follow_ = false;
    has_posted_ = false;
  }
  return with_message(code);
}
