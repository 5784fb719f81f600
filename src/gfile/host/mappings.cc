#include "gfile/host/mappings.hpp"

#include <unistd.h>

#include <system_error>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "port/store/signals_blocked.hpp"

#include <tanada/status.h>

namespace tanada::gfile {

mappings::mappings(port::gpu &gpu, mapped_range *ranges, node *nodes, uint64_t size_max, done_function done)
    : gpu_{gpu}, ranges_{ranges}, nodes_{nodes}, size_max_{size_max}, done_{std::move(done)}, slots_(mapped_range_count) {}

mappings::~mappings() {
  {
    std::lock_guard const lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (auto &[asked, index] : queue_) close(asked.descriptor);
  for (slot &each : slots_) let_go(each);
}

bool mappings::post_map(const map_request &asked) {
  std::lock_guard const lock{mutex_};
  if (asked.size > size_max_ || size_ > size_max_ - asked.size || !started()) return false;
  for (u32 index = 0; index < slots_.size(); index++) {
    if (slots_[index].now != state::free) continue;
    slots_[index].now = state::making;
    slots_[index].size = asked.size;
    size_ += asked.size;
    queue_.emplace_back(asked, index);
    wake_.notify_all();
    return true;
  }
  return false;
}

// Under the mutex. False: the system has no thread to give.
bool mappings::started() {
  if (thread_.joinable()) return true;
  port::signals_blocked const blocked;
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error &error) {
    log(log_level::warning, "no thread to map files: %s", error.what());
    return false;
  }
  return true;
}

void mappings::retire(u32 number) {
  std::lock_guard const lock{mutex_};
  TND_ASSERT(number > 0 && slots_[number - 1].now == state::used);
  slots_[number - 1].now = state::retired;
}

std::vector<u32> mappings::retired() {
  std::lock_guard const lock{mutex_};
  std::vector<u32> found;
  for (u32 index = 0; index < slots_.size(); index++)
    if (slots_[index].now == state::retired) found.push_back(index);
  return found;
}

void mappings::collect(const std::vector<u32> &slots) {
  for (u32 index : slots) {
    let_go(slots_[index]);
    std::lock_guard const lock{mutex_};
    size_ -= slots_[index].size;
    slots_[index] = slot{};
  }
}

void mappings::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    auto const [asked, index] = queue_.front();
    queue_.pop_front();
    slot &mine = slots_[index];
    lock.unlock();
    std::string const refusal = make(asked, mine);
    close(asked.descriptor);
    lock.lock();
    if (refusal.empty()) mine.now = state::used;  // before others can retire it
    lock.unlock();
    bool const wanted = done_(asked, {refusal.empty() ? index + 1 : 0, refusal});
    if (wanted && publish(asked, index) == status::ok) {
      lock.lock();
      continue;
    }
    lock.lock();
    if (wanted) continue;  // it serves nobody and goes when it is retired
    // To unregister memory waits for the kernels that run, and other calls of the driver wait with it: not now.
    if (mine.registered) {
      mine.now = state::retired;
      continue;
    }
    let_go(mine);
    size_ -= mine.size;
    mine = slot{};
  }
}

// Map, pin and tell where; why not, when that fails.
std::string mappings::make(const map_request &asked, slot &to) {
  if (!gpu_.info().is_cuda && !asked.sealed)
    return "the host executor maps only files that are sealed against shrinking: a cut would end the process";
  auto mapped = port::mapped_file::map(asked.descriptor, asked.size);
  if (!mapped.ok()) return std::string{"cannot be mapped: "} + tnd_status_name(tnd_status(mapped.error()));
  to.file = std::move(mapped).value();
  auto const bytes = to.file.bytes();
  if (gpu_.register_host(bytes.data(), bytes.size()) != status::ok)
    return std::string{"cannot be registered with the GPU: "} + tnd_last_message();
  to.registered = true;
  mapped_range const range{reinterpret_cast<u64>(bytes.data()), bytes.size()};
  if (gpu_.copy_to_device(&ranges_[&to - slots_.data()], &range, sizeof range) != status::ok) return tnd_last_message();
  return {};
}

// From here on kernels with that view of the file find it.
status mappings::publish(const map_request &asked, u32 index) {
  return gpu_.store_word(&nodes_[asked.file].mapping, mapping_word(asked.key, index + 1));
}

void mappings::let_go(slot &of) {
  if (of.registered) gpu_.unregister_host(of.file.bytes().data());
  of.registered = false;
  of.file = {};
}

}  // namespace tanada::gfile
