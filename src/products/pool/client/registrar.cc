// The background thread that registers mappings with a GPU, and releases them.
#include "products/pool/client/registrar.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::pool {

void registrar::add(std::shared_ptr<device_mapping> mapping, std::shared_ptr<seams::gpu> gpu) {
  if (!mapping->claim_registration())
    return;
  lock_guard const lock{mutex_};
  if (is_stopping_)
    return;
  jobs_.push_back({std::move(mapping), std::move(gpu)});
  if (!thread_.joinable()) {
    seams::signals_blocked const blocked;
    try {
      thread_ = std::thread{[this] {
        run();
      }};
    } catch (const std::system_error &error) {
      log(log_level::warning,
          "pool: cannot start a thread to register memory with the GPU; copies stay staged: {}",
          error.what());
      jobs_.clear();
    }
  }
  changed_.notify_all();
}

void registrar::release(std::vector<std::shared_ptr<device_mapping>> mappings) {
  lock_guard const lock{mutex_};
  if (is_stopping_ || !thread_.joinable())
    return;  // the mappings end with the caller's references
  for (auto &mapping : mappings)
    released_.push_back(std::move(mapping));
  changed_.notify_all();
}

void registrar::stop() {
  std::deque<job> jobs;
  std::deque<std::shared_ptr<device_mapping>> released;  // the last references end without the lock
  {
    lock_guard const lock{mutex_};
    is_stopping_ = true;
    std::swap(jobs, jobs_);
    std::swap(released, released_);
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void registrar::begin_transfer() {
  lock_guard const lock{mutex_};
  transfer_count_++;
}

void registrar::end_transfer() {
  lock_guard const lock{mutex_};
  TND_ASSERT(transfer_count_ != 0);
  transfer_count_--;
  if (transfer_count_ != 0)
    return;
  last_end_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void registrar::run() {
  unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] {
      mutex_.assert_held();
      return is_stopping_ || !jobs_.empty() || !released_.empty();
    });
    if (is_stopping_)
      return;
    job next;
    if (!jobs_.empty()) {
      next = std::move(jobs_.front());
      jobs_.pop_front();
    } else {
      next.mapping = std::move(released_.front());
      released_.pop_front();
    }
    lock.unlock();
    if (next.gpu != nullptr)
      register_all(next);
    else
      (void)await_pause();
    next = {};  // the last reference unregisters and unmaps, without the lock
    lock.lock();
  }
}

// False: the registrar is stopping.
bool registrar::await_pause() {
  using clock = std::chrono::steady_clock;
  unique_lock lock{mutex_};
  for (auto const limit = clock::now() + wait_max; !is_stopping_;) {
    auto const current = clock::now();
    if (current >= limit || (transfer_count_ == 0 && current >= last_end_ + pause))
      return true;
    changed_.wait_until(lock, transfer_count_ == 0 ? std::min(limit, last_end_ + pause) : limit);
  }
  return false;
}

// A connection that comes meanwhile either finds the registration given up, or has this call
// continue it.
bool registrar::is_abandoned(device_mapping &mapping) {
  if (mapping.is_used())
    return false;
  mapping.give_up_registration();
  return !mapping.is_used() || !mapping.claim_registration();
}

void registrar::register_all(const job &next) {
  for (uint64_t part = 0; part < next.mapping->part_count(); part++) {
    if (!await_pause())
      return;
    if (is_abandoned(*next.mapping))
      return;
    if (status const code = next.mapping->register_part(part, next.gpu); code != status::ok) {
      log(log_level::info,
          "pool: the GPU cannot register {} bytes of the pool; copies stay staged: {}",
          next.mapping->size(),
          last_message());
      return;
    }
  }
}

}  // namespace tanada::pool
