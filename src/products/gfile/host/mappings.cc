#include "products/gfile/host/mappings.hpp"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

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
    5};  // so long at most somebody else waits for a lease

}  // namespace

mappings::mappings(port::gpu &gpu, mapped_range *ranges, node *nodes, uint64_t size_max,
                   done_function done, lost_function lost)
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
  for (auto &[asked, index] : queue_)
    if (asked.descriptor >= 0)
      close(asked.descriptor);
  for (slot &each : slots_)
    let_go(each);
}

bool mappings::post_map(const map_request &asked) {
  lock_guard const lock{mutex_};
  bool const fits =
      !asked.in_memory || (asked.size <= size_max_ && size_ <= size_max_ - asked.size);
  if (!fits || !started())
    return false;
  for (u32 index = 0; index < slots_.size(); index++) {
    if (slots_[index].now != state::free)
      continue;
    slots_[index].now = state::making;
    slots_[index].size = asked.in_memory ? asked.size : 0;
    size_ += slots_[index].size;
    queue_.emplace_back(asked, index);
    wake_.notify_all();
    return true;
  }
  return false;
}

// Under the mutex. False: the system has no thread to give.
bool mappings::started() {
  if (thread_.joinable())
    return true;
  port::signals_blocked const blocked;
  try {
    thread_ = std::thread{[this] {
      run();
    }};
  } catch (const std::system_error &error) {
    log(log_level::warning, "no thread to map files: %s", error.what());
    return false;
  }
  return true;
}

void mappings::retire(u32 number) {
  lock_guard const lock{mutex_};
  TND_ASSERT(number > 0 && slots_[number - 1].now == state::used);
  slots_[number - 1].now = state::retired;
}

std::vector<u32> mappings::retired() {
  lock_guard const lock{mutex_};
  std::vector<u32> found;
  for (u32 index = 0; index < slots_.size(); index++)
    if (slots_[index].now == state::retired)
      found.push_back(index);
  return found;
}

void mappings::collect(const std::vector<u32> &slots) {
  for (u32 index : slots) {
    let_go(slots_[index]);
    lock_guard const lock{mutex_};
    size_ -= slots_[index].size;
    slots_[index] = slot{};
  }
}

void mappings::run() {
  unique_lock lock{mutex_};
  for (;;) {
    auto const has_work = [&] {
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
    auto [asked, index] = std::move(queue_.front());
    queue_.pop_front();
    slot &mine = slots_[index];
    lock.unlock();
    map_outcome const outcome = make(asked, index);
    if (asked.descriptor >= 0)
      close(asked.descriptor);
    asked.memory = {};  // without the lock, as below: it may wait
    lock.lock();
    if (outcome.slot != 0)
      mine.now = state::used;  // before others can retire it
    lock.unlock();
    bool const wanted = done_(asked, outcome);
    if (wanted)
      (void)publish(asked, index);  // if that fails it serves nobody and goes when it is retired
    bool const goes = !wanted && mine.registered == nullptr;
    if (goes)
      let_go(mine);
    lock.lock();
    if (wanted)
      continue;
    // To unregister memory waits for the kernels that run, and other calls of the driver wait with
    // it: not now.
    if (!goes) {
      mine.now = state::retired;
      continue;
    }
    size_ -= mine.size;
    mine = slot{};
  }
}

map_outcome mappings::make(map_request &asked, u32 index) {
  mapped_range range{0, asked.size, -1, 0};
  std::string const refusal = asked.in_memory ? map(asked, slots_[index], range)
                                              : read_by_calls(asked, slots_[index], range);
  if (!refusal.empty())
    return {0, refusal};
  if (gpu_.copy_to_device(&ranges_[index], &range, sizeof range) != status::ok)
    return {0, tnd_last_message()};
  return {index + 1, asked.in_memory ? ""
                                     : "the host executor: out of the page cache by system calls; "
                                       "what is not there is staged"};
}

// A mapping would end the process when somebody cuts the file, and a load of what is not cached
// would wait. Why not, when that fails.
std::string mappings::read_by_calls(const map_request &asked, slot &to, mapped_range &range) {
  if (gpu_.info().is_cuda)
    return "not on tmpfs or hugetlbfs: its pages cannot be registered with the GPU";
  std::byte one;
  iovec const vector{&one, 1};
  if (preadv2(asked.descriptor, &vector, 1, 0, RWF_NOWAIT) < 0 && errno != EAGAIN)
    return std::string{"its file system cannot be asked for cached pages alone: "} +
           std::strerror(errno);
  range.descriptor = fcntl(asked.descriptor, F_DUPFD_CLOEXEC, 0);
  to.descriptor = range.descriptor;
  return to.descriptor < 0 ? "no descriptor is left" : "";
}

// A lease holds up whoever opens the file to write or cuts it, until it is given up. The reason why
// there is none. The kernel's signal goes to this thread, which has it blocked, and not to the
// program.
std::string mappings::lease(const map_request &asked, slot &to) {
  to.leased = fcntl(asked.descriptor, F_DUPFD_CLOEXEC, 0);
  if (to.leased < 0)
    return "no descriptor is left to map the file";
  f_owner_ex const owner{F_OWNER_TID, gettid()};
  bool const is_leased =
      fcntl(to.leased, F_SETOWN_EX, &owner) == 0 && fcntl(to.leased, F_SETLEASE, F_RDLCK) == 0;
  int const error = errno;
  struct stat now{};
  if (is_leased && fstat(to.leased, &now) == 0 && uint64_t(now.st_size) >= asked.size) {
    to.asked = asked;
    to.asked.memory = {};
    lock_guard const lock{mutex_};
    lease_count_++;
    return {};
  }
  close(std::exchange(to.leased, -1));
  if (is_leased)
    return "it has been cut";
  if (error == EAGAIN)
    return "another descriptor is open to write it, and could cut it";
  return std::string{"it could be cut, and there is no lease that tells of it: "} +
         std::strerror(error);
}

// Give up the leases that somebody waits for, once no new kernel reads the file's own pages. Under
// the lock, which is open meanwhile.
void mappings::watch_leases(unique_lock<mutex> &lock) {
  for (u32 index = 0; index < slots_.size() && lease_count_ > 0; index++) {
    slot &mine = slots_[index];
    if (mine.leased < 0 || mine.now == state::making)
      continue;
    bool const is_used = mine.now == state::used;
    if (is_used && fcntl(mine.leased, F_GETLEASE) == F_RDLCK)
      continue;
    map_request const asked = mine.asked;
    lock.unlock();
    if (is_used) {
      (void)gpu_.store_word(&nodes_[asked.file].mapping, mapping_word(asked.key, mapping_lost));
      lost_(asked, index + 1);
    }
    lock.lock();
    if (mine.leased >= 0)
      give_up_lease(mine);
  }
}

// Under the mutex.
void mappings::give_up_lease(slot &of) {
  (void)fcntl(of.leased, F_SETLEASE, F_UNLCK);
  close(std::exchange(of.leased, -1));
  lease_count_--;
}

// Map, pin and tell where; why not, when that fails.
std::string mappings::map(map_request &asked, slot &to, mapped_range &range) {
  if (!gpu_.info().is_cuda && !asked.sealed)
    return "the host executor maps only files that are sealed against shrinking: a cut would end "
           "the process";
  if (asked.descriptor >= 0) {
    if (!asked.sealed) {
      if (std::string refusal = lease(asked, to); !refusal.empty())
        return refusal;
    }
    auto mapped = port::mapped_file::map(asked.descriptor, asked.size);
    if (!mapped.ok())
      return std::string{"cannot be mapped: "} + tnd_status_name(tnd_status(mapped.error()));
    to.file = std::move(mapped).value();
  } else {
    to.memory = std::move(asked.memory);
    if (to.memory.bytes.size() != asked.size)
      return "its store has mapped another size of it";
  }
  auto const bytes = asked.descriptor >= 0 ? to.file.bytes() : to.memory.bytes;
  // Whole pages: a store's bytes may begin within one.
  size_t const skipped = reinterpret_cast<uintptr_t>(bytes.data()) % page_size;
  const std::byte *const begin = bytes.data() - skipped;
  if (gpu_.register_host(begin, skipped + bytes.size(), port::host_access::read) != status::ok)
    return std::string{"cannot be registered with the GPU: "} + tnd_last_message();
  to.registered = begin;
  range.addr = reinterpret_cast<u64>(bytes.data());
  return {};
}

// From here on kernels with that view of the file find it.
status mappings::publish(const map_request &asked, u32 index) {
  return gpu_.store_word(&nodes_[asked.file].mapping, mapping_word(asked.key, index + 1));
}

void mappings::let_go(slot &of) {
  {
    lock_guard const lock{mutex_};
    if (of.leased >= 0)
      give_up_lease(of);
  }
  if (of.registered != nullptr)
    gpu_.unregister_host(of.registered);
  if (of.descriptor >= 0)
    close(of.descriptor);
  of.descriptor = -1;
  of.registered = nullptr;
  of.file = {};
  of.memory = {};
}

}  // namespace tanada::gfile
