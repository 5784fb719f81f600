// products/gfile/host/mappings.cc: the thread that maps, registers and watches files.
#include "products/gfile/host/mappings.hpp"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"

#include <fcntl.h>

#include <tanada/status.h>

namespace tanada::gfile {
namespace {

constexpr size_t page_size = 4096;  // of the system, at least
constexpr std::chrono::milliseconds lease_interval{
    5};  // another process waits for a lease for at most this long
// Between two parts of a file. Threads that wait for the driver's lock get it meanwhile.
constexpr std::chrono::microseconds part_pause{100};

}  // namespace

mappings::mappings(seams::gpu &gpu,
                   mapped_range *ranges,
                   node *nodes,
                   uint64_t size_max,
                   done_function done,
                   lost_function lost)
    : gpu_{gpu},
      ranges_{ranges},
      nodes_{nodes},
      size_max_{size_max},
      done_{std::move(done)},
      lost_{std::move(lost)},
      slots_(mapped_range_count) {}

mappings::~mappings() {
  {
    lock_guard const lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
  for (auto &[request, index] : queue_)
    if (request.descriptor >= 0)
      close(request.descriptor);
  for (slot &entry : slots_)
    release_slot(entry);
}

bool mappings::post_map(const map_request &request) {
  lock_guard const lock{mutex_};
  bool const fits =
      !request.in_memory || (request.size <= size_max_ && size_ <= size_max_ - request.size);
  if (!fits || !ensure_thread())
    return false;
  for (u32 index = 0; index < slots_.size(); index++) {
    if (slots_[index].phase != state::free)
      continue;
    TND_ASSERT(slots_[index].registered.empty() && slots_[index].size == 0);
    slots_[index].phase = state::making;
    slots_[index].size = request.in_memory ? request.size : 0;
    size_ += slots_[index].size;
    queue_.emplace_back(request, index);
    wake_.notify_all();
    return true;
  }
  return false;
}

// Returns false if the system cannot start a thread.
bool mappings::ensure_thread() {
  if (thread_.joinable())
    return true;
  seams::signals_blocked const blocked;
  try {
    thread_ = std::thread{[this] {
      run();
    }};
  } catch (const std::system_error &error) {
    log(log_level::warning, "cannot start the thread that maps files: {}", error.what());
    return false;
  }
  return true;
}

void mappings::retire(u32 number) {
  lock_guard const lock{mutex_};
  TND_ASSERT(number > 0 && slots_[number - 1].phase == state::used);
  set_retired(slots_[number - 1]);
}

void mappings::set_retired(slot &entry) {
  entry.phase = state::retired;
  entry.retirement = ++retirement_count_;
}

std::vector<mappings::retired_slot> mappings::retired_slots() {
  lock_guard const lock{mutex_};
  std::vector<retired_slot> retired;
  for (u32 index = 0; index < slots_.size(); index++)
    if (slots_[index].phase == state::retired)
      retired.push_back({index, slots_[index].retirement});
  return retired;
}

bool mappings::begin_release(const retired_slot &retired) {
  lock_guard const lock{mutex_};
  slot &entry = slots_[retired.index];
  if (entry.phase != state::retired || entry.retirement != retired.retirement)
    return false;
  entry.phase = state::releasing;
  return true;
}

void mappings::collect(const std::vector<retired_slot> &slots) {
  for (retired_slot const &retired : slots) {
    if (!begin_release(retired))
      continue;
    slot &entry = slots_[retired.index];
    release_slot(entry);
    lock_guard const lock{mutex_};
    TND_ASSERT(size_ >= entry.size);
    size_ -= entry.size;
    entry = slot{};
  }
}

void mappings::run() {
  unique_lock lock{mutex_};
  for (;;) {
    auto const has_work = [&] {
      mutex_.assert_held();
      return stopping_ || !queue_.empty();
    };
    if (lease_count_ == 0)
      wake_.wait(lock, has_work);
    else
      (void)wake_.wait_for(lock, lease_interval, has_work);
    if (stopping_)
      return;
    watch_leases(lock);
    if (queue_.empty())
      continue;
    auto [request, index] = std::move(queue_.front());
    queue_.pop_front();
    slot &entry = slots_[index];
    lock.unlock();
    map_outcome const outcome = make(request, index);
    if (request.descriptor >= 0)
      close(request.descriptor);
    request.memory = {};  // without the lock, like the mapping: it may block
    lock.lock();
    if (outcome.slot != 0)
      entry.phase = state::used;  // before another thread can retire it
    lock.unlock();
    bool const wanted = done_(request, outcome);
    if (wanted)
      (void)publish(request, index);  // if it fails, no kernel finds the mapping, and it is removed
                                      // when it is retired
    bool const is_releasable = !wanted && entry.registered.empty();
    if (is_releasable)
      release_slot(entry);
    lock.lock();
    if (wanted)
      continue;
    // Unregistering memory waits for running kernels and blocks other calls of the driver, so it is
    // deferred.
    if (!is_releasable) {
      set_retired(entry);
      continue;
    }
    TND_ASSERT(size_ >= entry.size);
    size_ -= entry.size;
    entry = slot{};
  }
}

map_outcome mappings::make(map_request &request, u32 index) {
  mapped_range range{0, request.size, -1, 0};
  std::string const refusal = request.in_memory
                                  ? map(request, slots_[index], range)
                                  : prepare_cached_reads(request, slots_[index], range);
  if (!refusal.empty())
    return {0, refusal};
  if (gpu_.copy_to_device(&ranges_[index], &range, sizeof range) != status::ok)
    return {0, tnd_last_message()};
  return {index + 1,
          request.in_memory ? ""
                            : "the host executor: system calls read from the page cache; "
                              "other pages are staged"};
}

// Prepare reading a file by system calls: a mapping would end the process when the file is
// truncated, and a load of an uncached page would block. Returns an error text, empty on success.
std::string mappings::prepare_cached_reads(const map_request &request,
                                           slot &entry,
                                           mapped_range &range) {
  if (gpu_.info().is_cuda)
    return "not on tmpfs or hugetlbfs: its pages cannot be registered with the GPU";
  std::byte byte;
  iovec const vector{&byte, 1};
  if (preadv2(request.descriptor, &vector, 1, 0, RWF_NOWAIT) < 0 && errno != EAGAIN)
    return std::string{"its file system cannot read only cached pages: "} + std::strerror(errno);
  range.descriptor = fcntl(request.descriptor, F_DUPFD_CLOEXEC, 0);
  entry.descriptor = range.descriptor;
  return entry.descriptor < 0 ? "no file descriptor is left" : "";
}

// Take a lease, which blocks other processes that open the file for writing or truncate it until
// the lease is released. Returns an error text, empty on success. The system's signal goes to this
// thread, which blocks it, and not to the program.
std::string mappings::lease(const map_request &request, slot &entry) {
  entry.lease_descriptor = fcntl(request.descriptor, F_DUPFD_CLOEXEC, 0);
  if (entry.lease_descriptor < 0)
    return "no file descriptor is left to map the file";
  f_owner_ex const owner{F_OWNER_TID, gettid()};
  bool const is_leased = fcntl(entry.lease_descriptor, F_SETOWN_EX, &owner) == 0 &&
                         fcntl(entry.lease_descriptor, F_SETLEASE, F_RDLCK) == 0;
  int const error = errno;
  struct stat file_stat{};
  if (is_leased && fstat(entry.lease_descriptor, &file_stat) == 0 &&
      uint64_t(file_stat.st_size) >= request.size) {
    entry.request = request;
    entry.request.memory = {};
    lock_guard const lock{mutex_};
    lease_count_++;
    return {};
  }
  close(std::exchange(entry.lease_descriptor, -1));
  if (is_leased)
    return "it was truncated";
  if (error == EAGAIN)
    return "another descriptor is open for writing, and could truncate it";
  return std::string{"it could be truncated, and no lease is available to detect that: "} +
         std::strerror(error);
}

// Release the leases that other processes wait for, once no new kernel reads the file's own pages.
// Called with the lock held; releases it temporarily.
void mappings::watch_leases(unique_lock<mutex> &lock) {
  for (u32 index = 0; index < slots_.size() && lease_count_ > 0; index++) {
    slot &entry = slots_[index];
    if (entry.lease_descriptor < 0 || entry.phase == state::making)
      continue;
    bool const is_used = entry.phase == state::used;
    if (is_used && fcntl(entry.lease_descriptor, F_GETLEASE) == F_RDLCK)
      continue;
    map_request const request = entry.request;
    lock.unlock();
    if (is_used) {
      (void)gpu_.store_word(&nodes_[request.file].mapping, mapping_word(request.key, mapping_lost));
      lost_(request, index + 1);
    }
    lock.lock();
    if (entry.lease_descriptor >= 0)
      release_lease(entry);
  }
}

void mappings::release_lease(slot &entry) {
  TND_ASSERT(entry.lease_descriptor >= 0 && lease_count_ > 0);
  (void)fcntl(entry.lease_descriptor, F_SETLEASE, F_UNLCK);
  close(std::exchange(entry.lease_descriptor, -1));
  lease_count_--;
}

// Map and pin the file, and fill in its address. Returns an error text, empty on success.
std::string mappings::map(map_request &request, slot &entry, mapped_range &range) {
  if (!gpu_.info().is_cuda && !request.sealed)
    return "the host executor maps only files that are sealed against shrinking: a truncate would "
           "end the process";
  if (request.descriptor >= 0) {
    if (!request.sealed) {
      if (std::string refusal = lease(request, entry); !refusal.empty())
        return refusal;
    }
    auto mapped = backends::mapped_file::map(request.descriptor, request.size);
    if (!mapped.ok())
      return std::string{"cannot be mapped: "} + tnd_status_name(tnd_status(mapped.error()));
    entry.file = std::move(mapped).value();
  } else {
    entry.memory = std::move(request.memory);
    if (entry.memory.bytes.size() != request.size)
      return "its store has mapped another size";
  }
  return register_bytes(
      request.descriptor >= 0 ? entry.file.bytes() : entry.memory.bytes, entry, range);
}

// Register the bytes with the GPU, and fill in their address. Returns an error text, empty on
// success. The parts that are registered by then are released with the slot.
std::string mappings::register_bytes(std::span<const std::byte> bytes,
                                     slot &entry,
                                     mapped_range &range) {
  TND_ASSERT(entry.registered.empty());
  // Register whole pages: a store's bytes may begin within one.
  size_t const skipped = reinterpret_cast<uintptr_t>(bytes.data()) % page_size;
  const std::byte *const begin = bytes.data() - skipped;
  size_t const size = skipped + bytes.size();
  entry.registered.reserve(size / part_size + 1);
  for (size_t offset = 0; offset < size; offset += part_size) {
    if (offset != 0) {
      if (is_stopping())
        return "the instance ends";
      std::this_thread::sleep_for(part_pause);
    }
    status const code = gpu_.register_host(
        begin + offset, std::min(part_size, size - offset), seams::host_access::read);
    if (code != status::ok)
      return std::string{"cannot be registered with the GPU: "} + tnd_last_message();
    entry.registered.push_back(begin + offset);
  }
  range.addr = reinterpret_cast<u64>(bytes.data());
  return {};
}

// After this, kernels with that view of the file find the mapping.
status mappings::publish(const map_request &request, u32 index) {
  return gpu_.store_word(&nodes_[request.file].mapping, mapping_word(request.key, index + 1));
}

void mappings::release_slot(slot &entry) {
  {
    lock_guard const lock{mutex_};
    if (entry.lease_descriptor >= 0)
      release_lease(entry);
  }
  for (auto const *const part : entry.registered)
    gpu_.unregister_host(part);
  if (entry.descriptor >= 0)
    close(entry.descriptor);
  entry.descriptor = -1;
  entry.registered.clear();
  entry.file = {};
  entry.memory = {};
}

}  // namespace tanada::gfile
