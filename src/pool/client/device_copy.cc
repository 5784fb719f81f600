#include "pool/client/device_copy.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <system_error>
#include <thread>

#include "base/log.hpp"
#include "port/store/signals_blocked.hpp"

namespace tanada::pool {
namespace {

// What the process has of each device. Never destroyed: connections may end while the process exits.
struct process_state {
  struct device {
    std::mutex mutex;
    std::shared_ptr<device_copy> copies;  // guarded by the mutex, which is held while the device is opened
  };

  device &device_at(uint32_t index) {
    std::lock_guard const lock{mutex};
    return devices[index];
  }

  int const owner = getpid();
  registrar registration;
  std::mutex mutex;  // guards what follows
  std::map<uint32_t, device> devices;
  std::vector<std::thread> preparing;
  bool is_exiting = false;
};

std::atomic<process_state *> current_state{nullptr};

// Threads of ours must not be within the driver when its own exit handlers run. They were registered before this one, so
// they run after it.
void end_threads() {
  process_state *const state = current_state.load(std::memory_order_acquire);
  if (state == nullptr || state->owner != getpid()) return;
  std::vector<std::thread> preparing;
  {
    std::lock_guard const lock{state->mutex};
    state->is_exiting = true;
    preparing.swap(state->preparing);
  }
  for (std::thread &each : preparing) each.join();
  state->registration.stop();
}

// Another one in a forked process, where the parent's threads and its use of the GPU are gone.
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

}  // namespace

result<std::shared_ptr<device_copy>> device_copy::of_process(uint32_t device_index) {
  process_state &state = state_of_process();
  auto &device = state.device_at(device_index);
  std::lock_guard const lock{device.mutex};
  if (device.copies != nullptr) return device.copies;
  auto opened = port::gpu_open(port::gpu_choice::cuda, device_index);
  if (!opened.ok()) return opened.error();
  auto created = create(std::move(opened).value(), state.registration);
  if (created.ok()) device.copies = created.value();
  return created;
}

void device_copy::prepare(uint32_t device_index) {
  process_state &state = state_of_process();
  std::lock_guard const lock{state.mutex};
  if (state.is_exiting || state.devices.contains(device_index)) return;
  state.devices[device_index];
  port::signals_blocked const blocked;
  try {
    state.preparing.emplace_back([device_index] { (void)of_process(device_index); });
  } catch (const std::system_error &error) {
    log(log_level::debug, "pool: no thread to prepare copies of GPU %u: %s", device_index, error.what());
  }
}

device_copy::device_copy(std::shared_ptr<port::gpu> gpu, registrar &registration)
    : gpu_{std::move(gpu)}, registration_{registration}, owner_{getpid()} {}

result<std::shared_ptr<device_copy>> device_copy::create(std::shared_ptr<port::gpu> gpu, registrar &registration) {
  std::shared_ptr<device_copy> created{new device_copy{std::move(gpu), registration}};
  auto stage = created->gpu_->allocate_host(slot_size * slot_count);
  if (!stage.ok()) return stage.error();
  created->stage_ = static_cast<std::byte *>(stage.value());
  for (unsigned i = 0; i < slot_count; i++) created->free_slots_.push_back(created->stage_ + i * slot_size);
  created->warm_up();
  return created;
}

device_copy::~device_copy() {
  if (stage_ != nullptr && owner_ == getpid()) gpu_->free_host(stage_);
}

// The threads start, and each makes its stream, which takes longer than a copy.
void device_copy::warm_up() {
  constexpr uint32_t step_count = 4 * (helper_count_max + 1), size = 4096;
  helpers_.run(step_count, [this](uint32_t) {
    std::byte *const slot = take_slot();
    (void)gpu_->copy_to_host(slot, slot + size, size);
    return_slot(slot);
  });
}

std::byte *device_copy::take_slot() {
  std::unique_lock lock{mutex_};
  slot_returned_.wait(lock, [this] { return !free_slots_.empty(); });
  std::byte *const slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void device_copy::return_slot(std::byte *slot) {
  {
    std::lock_guard const lock{mutex_};
    free_slots_.push_back(slot);
  }
  slot_returned_.notify_one();
}

status device_copy::copy_staged(const part &piece, copy_direction direction) {
  std::byte *const slot = take_slot();
  status code = status::ok;
  if (direction == copy_direction::to_host) {
    code = gpu_->copy_to_host(slot, piece.device, piece.size);
    if (code == status::ok) piece.mapping->store(piece.offset, slot, piece.size);
  } else {
    piece.mapping->load(piece.offset, slot, piece.size);
    code = gpu_->copy_to_device(piece.device, slot, piece.size);
  }
  return_slot(slot);
  return code;
}

status device_copy::copy_one(const part &piece, copy_direction direction) {
  if (!piece.mapping->is_registered(piece.offset)) return copy_staged(piece, direction);
  std::byte *const host = piece.mapping->addr() + piece.offset;
  return direction == copy_direction::to_host ? gpu_->copy_to_host(host, piece.device, piece.size)
                                              : gpu_->copy_to_device(piece.device, host, piece.size);
}

// Into what one thread copies at a time, a piece of each part in turn: threads that work on different segments do not wait
// for one another.
std::vector<device_copy::part> device_copy::split(std::span<const part> parts, unsigned &staged_count) {
  std::vector<part> rests{parts.begin(), parts.end()}, pieces;
  while (!rests.empty()) {
    for (part &rest : rests) {
      uint64_t size = device_mapping::size_in_part(rest.offset, rest.size);
      if (!rest.mapping->is_registered(rest.offset)) {
        size = std::min<uint64_t>(size, slot_size);
        staged_count++;
      }
      if (size > 0) pieces.push_back({rest.mapping, rest.offset, rest.device, size});
      rest.offset += size;
      rest.device += size;
      rest.size -= size;
    }
    std::erase_if(rests, [](const part &rest) { return rest.size == 0; });
  }
  return pieces;
}

void device_copy::add(const std::shared_ptr<device_mapping> &mapping) {
  if (!mapping->has_huge_pages()) return registration_.add(mapping, gpu_);
  if (!mapping->claim_registration()) return;
  for (uint64_t i = 0; i < mapping->part_count(); i++) {
    if (mapping->register_part(i, gpu_) != status::ok) return;  // logged; copies stay staged
  }
}

status device_copy::copy(std::span<const part> parts, copy_direction direction, port::team &helpers, bool &is_staged) {
  if (owner_ != getpid()) return fail(status::not_supported, "a forked process cannot use the GPU of its parent");
  registrar::transfer const transfer{registration_};
  unsigned staged_count = 0;
  std::vector<part> const pieces = split(parts, staged_count);
  is_staged = staged_count != 0;
  // One thread keeps the GPU's copy engine busy where memory is registered.
  if (staged_count < 2) {
    for (const part &each : pieces) TND_TRY(copy_one(each, direction));
    return status::ok;
  }
  std::mutex failure_mutex;
  status failure = status::ok;
  std::string message;
  std::atomic<bool> has_failed{false};
  bool const is_first = staging_count_.fetch_add(1, std::memory_order_relaxed) == 0;
  (is_first ? helpers_ : helpers).run(uint32_t(pieces.size()), [&](uint32_t i) {
    if (has_failed.load(std::memory_order_relaxed)) return;
    status const code = copy_one(pieces[i], direction);
    if (code == status::ok) return;
    std::lock_guard const lock{failure_mutex};
    if (has_failed.exchange(true)) return;
    failure = code;
    message = last_message();
  });
  staging_count_.fetch_sub(1, std::memory_order_relaxed);
  if (failure != status::ok) set_last_message(message);
  return failure;
}

pinned_buffer::pinned_buffer(std::shared_ptr<device_copy> copies, std::byte *data, size_t size)
    : copies_{std::move(copies)}, data_{data}, size_{size} {}

result<std::unique_ptr<pinned_buffer>> pinned_buffer::create(std::shared_ptr<device_copy> copies, size_t size) {
  auto memory = copies->gpu().allocate_host(size);
  if (!memory.ok()) return memory.error();
  return std::unique_ptr<pinned_buffer>{new pinned_buffer{std::move(copies), static_cast<std::byte *>(memory.value()), size}};
}

pinned_buffer::~pinned_buffer() { copies_->gpu().free_host(data_); }

}  // namespace tanada::pool
