// Copies between device memory and the pool: direct, staged and registering ones.
#include "products/pool/client/device_copy.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::pool {
namespace {

// The process's state of each device. Never destroyed, because connections may end while the
// process exits.
struct process_state {
  struct device {
    tanada::mutex mutex;  // held while the device is opened
    std::shared_ptr<device_copy> copies TND_GUARDED_BY(mutex);
  };

  device &device_at(uint32_t index) {
    lock_guard const lock{mutex};
    return devices[index];
  }

  int const owner = getpid();
  registrar registration;
  tanada::mutex mutex;
  std::map<uint32_t, device> devices TND_GUARDED_BY(mutex);  // entries are never removed
};

// The analysis cannot follow a lock that may not be acquired.
bool is_open(process_state::device &device) TND_NO_THREAD_SAFETY_ANALYSIS {
  unique_lock<mutex> const lock{device.mutex, std::try_to_lock};
  return lock.owns_lock() && device.copies != nullptr;
}

std::atomic<process_state *> current_state{nullptr};

// Ends our threads before the driver's exit handlers run, because none may be inside the driver
// then. Those handlers were registered before this one, so they run after it.
void end_threads() {
  process_state *const state = current_state.load(std::memory_order_acquire);
  if (state == nullptr || state->owner != getpid())
    return;
  std::vector<std::shared_ptr<device_copy>> opened;
  {
    lock_guard const lock{state->mutex};
    for (auto &[index, device] : state->devices) {
      lock_guard const device_lock{device.mutex};
      if (device.copies != nullptr)
        opened.push_back(device.copies);
    }
  }
  for (auto const &copies : opened)
    copies->finish_preparing();
  state->registration.stop();
}

// A forked process gets a new state, because the parent's threads and its use of the GPU do not
// exist there.
process_state &state_of_process() {
  process_state *state = current_state.load(std::memory_order_acquire);
  while (state == nullptr || state->owner != getpid()) {
    auto *const fresh = new process_state;
    if (current_state.compare_exchange_strong(state, fresh, std::memory_order_acq_rel)) {
      (void)std::atexit(end_threads);
      return *fresh;
    }
    delete fresh;
  }
  return *state;
}

uint64_t now_ns() {
  return seams::monotonic_clock().now_ns();
}

// Adds the time of its life to a sum.
class stopwatch {
 public:
  explicit stopwatch(std::atomic<uint64_t> &sum_ns) : sum_ns_{sum_ns}, start_ns_{now_ns()} {}
  ~stopwatch() {
    sum_ns_.fetch_add(now_ns() - start_ns_, std::memory_order_relaxed);
  }
  stopwatch(const stopwatch &) = delete;
  stopwatch &operator=(const stopwatch &) = delete;

 private:
  std::atomic<uint64_t> &sum_ns_;
  uint64_t const start_ns_;
};

}  // namespace

result<std::shared_ptr<device_copy>> device_copy::for_process(uint32_t device_index) {
  process_state &state = state_of_process();
  auto &device = state.device_at(device_index);
  lock_guard const lock{device.mutex};
  if (device.copies != nullptr)
    return device.copies;
  auto opened = seams::gpu_open(seams::gpu_choice::cuda, device_index);
  if (!opened.ok())
    return opened.error();
  auto created = create(std::move(opened).value(), state.registration);
  if (created.ok())
    device.copies = created.value();
  return created;
}

bool device_copy::is_used(uint32_t device_index) {
  if (seams::gpu_current() == int(device_index))
    return true;
  process_state &state = state_of_process();
  lock_guard const lock{state.mutex};
  auto const device = state.devices.find(device_index);
  return device != state.devices.end() && is_open(device->second);
}

class device_copy::failure_record {
 public:
  bool is_set() const noexcept {
    return is_set_.load(std::memory_order_relaxed);
  }
  void add(status code) {
    if (code == status::ok)
      return;
    lock_guard const lock{mutex_};
    if (is_set_.exchange(true))
      return;
    code_ = code;
    message_ = last_message();
  }
  // Called when all threads are done; sets the failed thread's message for the calling thread.
  status code() const {
    lock_guard const lock{mutex_};
    if (code_ != status::ok)
      set_last_message(message_);
    return code_;
  }

 private:
  std::atomic<bool> is_set_{false};
  mutable mutex mutex_;
  status code_ TND_GUARDED_BY(mutex_) = status::ok;
  std::string message_ TND_GUARDED_BY(mutex_);
};

device_copy::device_copy(std::shared_ptr<seams::gpu> gpu, registrar &registration)
    : gpu_{std::move(gpu)}, registration_{registration}, owner_{getpid()} {}

result<std::shared_ptr<device_copy>> device_copy::create(std::shared_ptr<seams::gpu> gpu,
                                                         registrar &registration) {
  return std::shared_ptr<device_copy>{new device_copy{std::move(gpu), registration}};
}

device_copy::~device_copy() {
  if (owner_ != getpid()) {
    if (preparing_.joinable())
      preparing_.detach();  // it is a thread of the parent
    return;
  }
  finish_preparing();
  if (probe_ != nullptr)
    gpu_->free_host(probe_);
  if (stage_ != nullptr)
    gpu_->free_host(stage_);
}

status device_copy::make_slots() {
  std::call_once(slots_once_, [this] {
    auto stage = gpu_->allocate_host(slot_size * slot_count);
    slots_status_ = stage.error();
    if (!stage.ok())
      return;
    stage_ = static_cast<std::byte *>(stage.value());
    lock_guard const lock{mutex_};
    for (unsigned i = 0; i < slot_count; i++)
      free_slots_.push_back(stage_ + i * slot_size);
  });
  return slots_status_;
}

// A thread's first copy creates its stream, which takes longer than the copy.
void device_copy::prepare_thread() {
  constexpr uint32_t size = 64;
  lock_guard const lock{probe_mutex_};
  if (probe_ == nullptr) {
    auto memory = gpu_->allocate_host(2 * size);
    if (memory.ok())
      probe_ = static_cast<std::byte *>(memory.value());
  }
  if (probe_ != nullptr)
    (void)gpu_->copy_to_host(probe_, probe_ + size, size);
}

// Background threads wait this long for the first transfer, which is likely to follow the connect
// at once.
constexpr std::chrono::milliseconds background_delay{50};

void device_copy::prepare(urgency when) {
  if (when == urgency::later) {
    unique_lock lock{mutex_};
    urgent_.wait_for(lock, background_delay, [this] {
      mutex_.assert_held();
      return is_urgent_;
    });
  }
  if (make_slots() == status::ok)
    warm_up();
  {
    lock_guard const lock{mutex_};
    is_prepared_.store(true, std::memory_order_release);
  }
  prepared_.notify_all();
}

void device_copy::prepare_in_background(urgency when) {
  lock_guard const lock{mutex_};
  if (is_preparing_)
    return;
  is_preparing_ = true;
  seams::signals_blocked const blocked;
  try {
    preparing_ = std::thread{[this, when] {
      prepare(when);
    }};
  } catch (const std::system_error &error) {
    log(log_level::debug, "pool: cannot start a thread to prepare GPU copies: {}", error.what());
    is_prepared_.store(true, std::memory_order_release);
  }
}

void device_copy::await_prepared() {
  unique_lock lock{mutex_};
  is_urgent_ = true;
  urgent_.notify_all();
  prepared_.wait(lock, [this] { return is_prepared(); });
}

void device_copy::finish_preparing() {
  std::thread ending;
  {
    lock_guard const lock{mutex_};
    if (!is_preparing_)
      is_prepared_.store(true, std::memory_order_release);
    is_preparing_ = true;
    is_urgent_ = true;
    std::swap(ending, preparing_);
  }
  urgent_.notify_all();
  if (ending.joinable())
    ending.join();
}

void device_copy::warm_up() {
  constexpr uint32_t step_count = 4 * (helper_count_max + 1), size = 4096;
  helpers_.run(step_count, [this](uint32_t) {
    std::byte *const slot = take_slot();
    (void)gpu_->copy_to_host(slot, slot + size, size);
    return_slot(slot);
  });
}

std::shared_ptr<void> device_copy::claim_namespace(const std::string &url) {
  lock_guard const lock{mutex_};
  auto &claimed = namespaces_[url];
  if (!claimed.expired())
    return nullptr;
  auto claim = std::make_shared<char>();
  claimed = claim;
  return claim;
}

std::byte *device_copy::take_slot() {
  unique_lock lock{mutex_};
  slot_returned_.wait(lock, [this] {
    mutex_.assert_held();
    return !free_slots_.empty();
  });
  std::byte *const slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void device_copy::return_slot(std::byte *slot) {
  {
    lock_guard const lock{mutex_};
    TND_ASSERT(slot != nullptr && free_slots_.size() < slot_count);
    free_slots_.push_back(slot);
  }
  slot_returned_.notify_one();
}

// A piece larger than a slot is copied slot by slot.
status device_copy::copy_staged(const part &piece, copy_direction direction, timing &times) {
  std::byte *slot = nullptr;
  {
    stopwatch const watch{times.slot_ns};
    TND_TRY(make_slots());
    slot = take_slot();
  }
  stopwatch const watch{times.staged_ns};
  times.staged_size.fetch_add(piece.size, std::memory_order_relaxed);
  status code = status::ok;
  for (uint64_t done = 0; done < piece.size && code == status::ok;) {
    uint64_t const size = std::min<uint64_t>(slot_size, piece.size - done),
                   offset = piece.offset + done;
    if (direction == copy_direction::to_host) {
      code = gpu_->copy_to_host(slot, piece.device + done, size);
      if (code == status::ok)
        piece.mapping->store(offset, slot, size);
    } else {
      piece.mapping->load(offset, slot, size);
      code = gpu_->copy_to_device(piece.device + done, slot, size);
    }
    done += size;
  }
  return_slot(slot);
  return code;
}

status device_copy::copy_direct(const part &piece, copy_direction direction, timing &times) {
  stopwatch const watch{times.direct_ns};
  times.direct_size.fetch_add(piece.size, std::memory_order_relaxed);
  std::byte *const host = piece.mapping->addr() + piece.offset;
  return direction == copy_direction::to_host
             ? gpu_->copy_to_host(host, piece.device, piece.size)
             : gpu_->copy_to_device(piece.device, host, piece.size);
}

status device_copy::copy_one(const part &piece, copy_direction direction, timing &times) {
  bool const is_registered = piece.mapping->is_registered(piece.offset);
  return is_registered ? copy_direct(piece, direction, times)
                       : copy_staged(piece, direction, times);
}

// Memory that the GPU refuses to register is staged.
status device_copy::copy_unregistered(const part &piece, copy_direction direction, timing &times) {
  if (should_register(piece)) {
    stopwatch const watch{times.register_ns};
    (void)piece.mapping->register_part(piece.offset / device_mapping::part_size, gpu_);
  }
  return copy_one(piece, direction, times);
}

// Whether the transfer itself registers the memory, instead of staging the bytes.
bool device_copy::should_register(const part &piece) noexcept {
  return piece.mapping->has_huge_pages() && piece.size >= register_size_min &&
         piece.mapping->may_register(piece.offset) && !piece.mapping->is_registered(piece.offset);
}

// Splits the parts into pieces that one thread copies at a time, and takes pieces of the parts in
// turn. Threads that work on different segments do not wait for one another.
device_copy::piece_list device_copy::split(std::span<const part> parts) {
  piece_list list;
  std::vector<part> remaining{parts.begin(), parts.end()};
  while (!remaining.empty()) {
    for (part &part_left : remaining) {
      part piece = part_left;
      piece.size = device_mapping::size_in_part(part_left.offset, part_left.size);
      if (should_register(piece)) {
        list.unregistered_count++;
      } else if (!part_left.mapping->is_registered(part_left.offset)) {
        piece.size = std::min<uint64_t>(piece.size, slot_size);
        list.staged_count++;
      }
      if (piece.size > 0)
        list.pieces.push_back(piece);
      part_left.offset += piece.size;
      part_left.device += piece.size;
      part_left.size -= piece.size;
    }
    std::erase_if(remaining, [](const part &part_left) { return part_left.size == 0; });
  }
  return list;
}

void device_copy::add(const std::shared_ptr<device_mapping> &mapping) {
  registration_.add(mapping, gpu_);
}

void device_copy::release(std::vector<std::shared_ptr<device_mapping>> mappings) {
  if (owner_ == getpid())
    registration_.release(std::move(mappings));
}

void device_copy::register_now(const std::shared_ptr<device_mapping> &mapping) {
  for (uint64_t i = 0; i < mapping->part_count(); i++) {
    if (mapping->register_part(i, gpu_) != status::ok)
      return;
  }
}

status device_copy::copy_shared(std::vector<part> pieces,
                                copy_direction direction,
                                seams::team &helpers,
                                timing &times) {
  failure_record failure;
  helpers.run(uint32_t(pieces.size()), [&](uint32_t i) {
    if (!failure.is_set())
      failure.add(copy_one(pieces[i], direction, times));
  });
  return failure.code();
}

// Staging threads help once slots are available, if the transfer takes longer than they take to
// start.
status device_copy::copy_registering(std::vector<part> pieces,
                                     copy_direction direction,
                                     seams::team &helpers,
                                     timing &times) {
  uint64_t size = 0;
  for (const part &piece : pieces)
    size += piece.size;
  bool const has_stagers = is_prepared() && size >= stage_size_min;
  failure_record failure;
  copy_queue queue{std::move(pieces)};
  helpers.run(register_thread_count + (has_stagers ? stage_thread_count : 0), [&](uint32_t i) {
    part piece{};
    if (i < register_thread_count) {
      while (!failure.is_set() && queue.take_front(piece))
        failure.add(copy_unregistered(piece, direction, times));
    } else {
      while (!failure.is_set() && queue.take_back(piece, slot_size))
        failure.add(copy_staged(piece, direction, times));
    }
  });
  return failure.code();
}

status device_copy::copy(std::span<const part> parts,
                         copy_direction direction,
                         seams::team &helpers,
                         bool &is_staged) {
  if (owner_ != getpid())
    return fail(status::not_supported, "a forked process cannot use the GPU of its parent");
  registrar::transfer const transfer{registration_};
  timing times;
  uint64_t const start_ns = now_ns();
  piece_list list = split(parts);
  // One thread keeps the GPU's copy engine busy if the memory is registered.
  bool const needs_helpers = list.staged_count >= 2 || list.unregistered_count != 0;
  status const code = needs_helpers ? copy_with_helpers(std::move(list), direction, helpers, times)
                                    : copy_pieces(list.pieces, direction, times);
  is_staged = times.staged_size.load() != 0;
  log_transfer(times, now_ns() - start_ns);
  return code;
}

status device_copy::copy_pieces(const std::vector<part> &pieces,
                                copy_direction direction,
                                timing &times) {
  status code = status::ok;
  for (size_t i = 0; i < pieces.size() && code == status::ok; i++) {
    code = copy_one(pieces[i], direction, times);
  }
  return code;
}

status device_copy::copy_with_helpers(piece_list list,
                                      copy_direction direction,
                                      seams::team &helpers,
                                      timing &times) {
  bool const registers = list.unregistered_count != 0;
  prepare_in_background(registers ? urgency::later : urgency::at_once);
  if (!registers)
    await_prepared();
  bool const is_first = staging_count_.fetch_add(1, std::memory_order_relaxed) == 0;
  seams::team &team = is_first && is_prepared() ? helpers_ : helpers;
  status const code = registers ? copy_registering(std::move(list.pieces), direction, team, times)
                                : copy_shared(std::move(list.pieces), direction, team, times);
  unsigned const count = staging_count_.fetch_sub(1, std::memory_order_relaxed);
  TND_ASSERT(count != 0);
  return code;
}

void device_copy::log_transfer(const timing &times, uint64_t duration_ns) {
  log(log_level::debug,
      "pool: GPU copy in {:.3f} ms: direct {:.1f} MiB {:.3f} ms, registering {:.3f} ms, staged "
      "{:.1f} MiB {:.3f} ms, slots {:.3f} ms",
      double(duration_ns) / 1e6,
      double(times.direct_size) / 0x1p20,
      double(times.direct_ns) / 1e6,
      double(times.register_ns) / 1e6,
      double(times.staged_size) / 0x1p20,
      double(times.staged_ns) / 1e6,
      double(times.slot_ns) / 1e6);
}

pinned_buffer::pinned_buffer(std::shared_ptr<device_copy> copies, std::byte *data, size_t size)
    : copies_{std::move(copies)}, data_{data}, size_{size} {}

result<std::unique_ptr<pinned_buffer>> pinned_buffer::create(std::shared_ptr<device_copy> copies,
                                                             size_t size) {
  auto memory = copies->gpu().allocate_host(size);
  if (!memory.ok())
    return memory.error();
  return std::unique_ptr<pinned_buffer>{
      new pinned_buffer{std::move(copies), static_cast<std::byte *>(memory.value()), size}};
}

pinned_buffer::~pinned_buffer() {
  copies_->gpu().free_host(data_);
}

}  // namespace tanada::pool
