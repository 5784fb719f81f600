// engine.cc: starts and stops the engine, places the heaps, and waits for other processes.
#include "products/comex/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "onesided/job/open_device.hpp"
#include "onesided/swap/memory_meter.hpp"
#include "products/comex/control.hpp"
#include "products/comex/deferred_error.hpp"
#include "products/comex/process_swapper.hpp"
#include "seams/os/processors.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::comex {

namespace {

// Candidate addresses for the heaps. Processes have nothing mapped there, with or without
// AddressSanitizer, and 32 TiB are free after each.
constexpr uintptr_t candidate_bases[] = {uintptr_t{0x2000} << 32,
                                         uintptr_t{0x3000} << 32,
                                         uintptr_t{0x1000} << 32,
                                         uintptr_t{0x1800} << 32};
constexpr size_t candidate_size = size_t{1} << 45;  // bytes
// bytes for the control memory before each heap; more than it needs
constexpr size_t control_size_max = size_t{256} << 20;

// Collective: the value of every process, by rank.
template <class T>
result<std::vector<T>> gather(seams::bootstrap &launcher, const char *key, T value) {
  std::vector<T> values(size_t(launcher.count()), value);
  if (launcher.count() == 1)
    return values;
  TND_TRY(launcher.publish(key, std::as_bytes(std::span{&value, 1})));
  TND_TRY(launcher.exchange(TND_NO_DEADLINE));
  for (int32_t i = 0; i < launcher.count(); i++) {
    auto published = launcher.lookup(i, key);
    if (!published.ok())
      return published.error();
    if (published.value().size() != sizeof(T))
      return fail(status::protocol, "process {} uses another version of the library", i);
    std::memcpy(&values[size_t(i)], published.value().data(), sizeof(T));
  }
  return values;
}

// Collective: the smallest value, because machines of one kind differ by a few pages.
result<size_t> smallest_of(seams::bootstrap &launcher, size_t value) {
  auto values = gather(launcher, "comex.size", value);
  if (!values.ok())
    return values.error();
  return *std::min_element(values.value().begin(), values.value().end());
}

// Collective: counts the processors that any process of the node may use.
result<uint32_t> count_processors(const onesided::job &job) {
  auto values = gather(job.launcher(), "comex.processors", seams::processors_allowed());
  if (!values.ok())
    return values.error();
  seams::processor_set allowed;
  for (pe_index const pe : job.node_pes())
    allowed |= values.value()[size_t(pe)];
  return uint32_t(std::max<size_t>(allowed.count(), 1));
}

// Collective. Nodes are numbered by their lowest processes.
result<uint32_t> node_index(const onesided::job &job) {
  pe_index const lowest_pe = job.node_pes().front();
  auto values = gather(job.launcher(), "comex.node", lowest_pe);
  if (!values.ok())
    return values.error();
  std::set<pe_index> const lowest{values.value().begin(), values.value().end()};
  return uint32_t(std::distance(lowest.begin(), lowest.find(lowest_pe)));
}

struct unswappable_memory {
  uint64_t private_size, shared_size;  // unswappable bytes
};

// Collective: the sum over the node's processes.
result<unswappable_memory> measure_unswappable(const onesided::job &job) {
  uint64_t const of_library = onesided::swap::used_size_of(job.heap_file(job.me()).descriptor);
  auto values = gather(job.launcher(),
                       "comex.fixed",
                       unswappable_memory{onesided::swap::private_size_of(getpid()),
                                          onesided::swap::other_shared_size() + of_library});
  if (!values.ok())
    return values.error();
  unswappable_memory sum{};
  for (pe_index const pe : job.node_pes()) {
    sum.private_size += values.value()[size_t(pe)].private_size;
    sum.shared_size += values.value()[size_t(pe)].shared_size;
  }
  return sum;
}

// Collective. Chooses an address range that is free in all processes, so that an address in a
// peer's heap is valid here, too. Null: no candidate is free everywhere.
result<std::byte *> choose_base(seams::bootstrap &launcher, size_t size) {
  uint32_t own_candidates = 0;
  for (size_t i = 0; i < std::size(candidate_bases); i++) {
    if (size <= candidate_size &&
        seams::is_unmapped(reinterpret_cast<void *>(candidate_bases[i]), size))
      own_candidates |= 1u << i;
  }
  auto values = gather(launcher, "comex.places", own_candidates);
  if (!values.ok())
    return values.error();
  uint32_t common_candidates = own_candidates;
  for (uint32_t const candidates : values.value())
    common_candidates &= candidates;
  if (common_candidates == 0) {
    log(log_level::warning,
        "no range of {} bytes of addresses is free in all processes: pointers to another process's "
        "memory cannot be used directly",
        size);
    return nullptr;
  }
  return reinterpret_cast<std::byte *>(candidate_bases[std::countr_zero(common_candidates)]);
}

// Collective: bytes of each heap where the settings name none. Allocations beyond the budget are
// refused.
result<size_t> choose_heap_size(seams::bootstrap &launcher, const swap_settings &swap) {
  size_t const memory = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  size_t const heap_max =
      swap.is_on() ? std::min<size_t>({memory, 2 * swap.budget, size_t{1} << 40}) : memory;
  return smallest_of(launcher, default_heap_size(heap_max, size_t(launcher.count())));
}

// Collective. Sizes and places the heaps and the control memory, of which the engine itself needs
// `control_size` bytes.
status place_memory(seams::bootstrap &launcher, settings &options, size_t control_size) {
  if (options.heap_size == 0) {
    auto size = choose_heap_size(launcher, options.swap);
    if (!size.ok())
      return size.error();
    options.heap_size = size.value();
  }
  options.job.heap_size = options.heap_size;
  options.job.control_size = control_size;
  if (options.swap.is_on()) {
    options.job.control_exposed_size = options.job.control_size;
    options.job.control_size += process_swapper::control_size(options.heap_size, launcher.count());
    options.job.keeps_descriptors = true;
    // only the owner and the agent access memory that may be swapped out
    options.job.exposes_heap = false;
  }
  options.job.shares_program_data = false;
  if (!options.has_common_addresses)
    return status::ok;
  options.job.heap_stride = options.heap_size + control_size_max;
  auto base = choose_base(launcher, options.job.heap_stride * size_t(launcher.count()));
  if (!base.ok())
    return base.error();
  options.job.heap_base = base.value();
  return status::ok;
}

// Collective. Sets what the settings leave to the node: its slots, its index and its unswappable
// bytes.
status complete_swap_settings(const onesided::job &job, swap_settings &chosen) {
  auto processors = count_processors(job);
  auto node = node_index(job);
  if (!processors.ok())
    return processors.error();
  if (!node.ok())
    return node.error();
  if (chosen.slots == 0)
    chosen.slots = processors.value();
  chosen.node = node.value();
  auto fixed = measure_unswappable(job);
  if (!fixed.ok())
    return fixed.error();
  chosen.private_size = fixed.value().private_size;
  chosen.shared_size = fixed.value().shared_size;
  return status::ok;
}

}  // namespace

result<std::unique_ptr<engine>> engine::start(seams::bootstrap &launcher,
                                              const settings &chosen,
                                              std::function<void()> idle) {
  settings options = chosen;
  static_assert(sizeof(control) + alignof(control) <= control_size_max);
  TND_TRY(place_memory(launcher, options, sizeof(control) + alignof(control)));
  std::unique_ptr<engine> created{new engine};
  created->idle_ = std::move(idle);
  options.job.message_server = &created->server_;
  TND_TRY(created->open_device(launcher, options));
  TND_TRY(created->start_job(launcher, options.job));
  created->open_memory(!options.swap.is_on());
  TND_TRY(created->exchange_heap_bases(launcher));
  if (options.swap.is_on())
    TND_TRY(created->start_swapping(options.swap));
  return created;
}

// Starts the job and opens the context of this process's operations.
status engine::start_job(seams::bootstrap &launcher, const onesided::job_options &options) {
  auto job = onesided::job::start(launcher, options);
  if (!job.ok())
    return job.error();
  job_ = std::move(job).value();
  auto lane = job_->lane_acquire(true);
  if (!lane.ok())
    return lane.error();
  lane_ = lane.value();
  auto queue = job_->device_queue_open();
  if (!queue.ok())
    return queue.error();
  context_.emplace(
      job_->map(), lane_, std::move(queue).value(), false, gpu_ ? job_->staging() : nullptr);
  return status::ok;
}

// With `is_served` false, start_swapping() opens the server later.
void engine::open_memory(bool is_served) {
  auto const memory = job_->control();
  auto const begin = reinterpret_cast<uintptr_t>(memory.data());
  control_ = reinterpret_cast<control *>((begin + alignof(control) - 1) / alignof(control) *
                                         alignof(control));
  TND_ASSERT(reinterpret_cast<uintptr_t>(control_ + 1) <= begin + memory.size());
  if (is_served)
    server_.open(*job_, control_->locks);
  if (auto *const staging = job_->staging(); staging != nullptr)
    staged_.emplace(*staging);
  allocator_ = std::make_unique<heap::allocator>(job_->heap());
  mutex_slots_.resize(control::mutex_node_count);
  // Shift the first allocation by the rank. All heaps begin at the same offset in a page, and equal
  // allocation orders would give equal addresses modulo the page size. Caches, and processors that
  // compare the low bits of addresses, would then see conflicts.
  constexpr size_t shift = 4 * 4096 + 3 * 64, shift_count = 61;  // bytes
  static_assert(shift % heap::allocator::granule == 0);
  if (size_t const pad = size_t(me()) % shift_count * shift; pad != 0)
    (void)allocator_->allocate(pad);
}

status engine::open_device(seams::bootstrap &launcher, settings &options) {
  if (options.device_heap_size == 0)
    return status::ok;
  auto opened = onesided::open_device(launcher, options.device);
  if (!opened.ok())
    return opened.error();
  gpu_ = std::move(opened).value();
  options.job.device = gpu_.get();
  options.job.device_heap_size = options.device_heap_size;
  return status::ok;
}

// Open the server only when swapping has started, because a request must not find the memory
// unprepared. No process waits for a reply before that: addresses are only exchanged by processes
// that run.
status engine::start_swapping(swap_settings chosen) {
  TND_ASSERT(chosen.is_on() && swapper_ == nullptr);
  TND_TRY(complete_swap_settings(*job_, chosen));
  auto swapper = process_swapper::start(
      *job_, chosen, *allocator_, reinterpret_cast<std::byte *>(control_ + 1));
  if (!swapper.ok())
    return swapper.error();
  swapper_ = std::move(swapper).value();
  if (staged_)
    TND_TRY(serve_swappable_memory());
  return swapper_->begin_running(!chosen.always_resident);
}

status engine::serve_swappable_memory() {
  auto window = swapper_->open_window();
  if (!window.ok())
    return window.error();
  server_.open(*job_,
               control_->locks,
               {&swapper_->node_table(),
                swapper_->rank_of(me()),
                swapper_->stored(),
                swapper_->left_out(),
                window.value()});
  swapper_->set_remote_operations([this] { return !staged_->is_busy(); },
                                  [this] { return finish_packed(); });
  return status::ok;
}

// Destroy the threads that serve other processes first: they use the swapper's state.
engine::~engine() {
  if (swapper_) {
    swapper_->set_remote_operations({}, {});
    staged_.reset();
    job_->shut_down();
  }
  swapper_.reset();
  stopped_swapper_.reset();
  context_.reset();
  staged_.reset();
  if (lane_ != nullptr)
    job_->lane_release(lane_);
}

// Exchanges the start addresses of all heaps.
status engine::exchange_heap_bases(seams::bootstrap &launcher) {
  auto const heap = job_->heap();
  auto const own_begin = reinterpret_cast<uintptr_t>(heap.data());
  auto begins = gather(launcher, "comex.heap", own_begin);
  if (!begins.ok())
    return begins.error();
  if (gpu_) {
    auto const device_heap = job_->device_heap();
    auto remote_begins =
        gather(launcher, "comex.device", reinterpret_cast<uintptr_t>(device_heap.data()));
    if (!remote_begins.ok())
      return remote_begins.error();
    device_.emplace(device_heap, std::move(remote_begins).value());
  }
  for (size_t i = 0; i < begins.value().size(); i++) {
    auto *const remote_begins = reinterpret_cast<control *>(
        job_->map().locate(control_, sizeof *control_, pe_index(i)).mapped);
    TND_ASSERT(remote_begins != nullptr || pe_index(i) != me());
    peers_.push_back({.begin = begins.value()[i],
                      .mapped = job_->map().segment_at(0).mapped[i],
                      .shared = remote_begins,
                      .locks = remote_begins == nullptr ? nullptr : remote_begins->locks});
  }
  TND_ASSERT(peers_.size() == size_t(count()));
  return status::ok;
}

status engine::stop() {
  TND_TRY(finish());
  if (swapper_) {
    release_allocations();
    TND_TRY(swapper_->stop());
    stopped_swapper_ = std::move(swapper_);
  }
  return job_->finish();
}

status engine::retire() {
  TND_ASSERT(swapper_ != nullptr);
  TND_TRY(finish());
  release_allocations();
  swapper_->set_remote_operations({}, {});
  staged_.reset();
  job_->shut_down();
  swapper_->retire();
  return status::ok;
}

void engine::release_allocations() {
  for (void *const allocation : allocations_)
    allocator_->release(allocation);
  allocations_.clear();
}

void *engine::allocate(size_t size) {
  void *const piece = allocator_->allocate(size);
  if (piece != nullptr && swapper_)
    allocations_.insert(piece);
  return piece;
}

bool engine::release(void *piece) {
  if (swapper_)
    allocations_.erase(piece);
  return allocator_->release(piece) || (device_ && device_->release(piece));
}

// wait(deadline) returns whether the wait is over. Replies of other nodes are stored to this
// process's memory, which stays resident meanwhile.
status engine::wait_served(const std::function<bool(uint64_t)> &wait) {
  TND_ASSERT(swapper_ != nullptr && staged_.has_value());
  auto &time = job_->time();
  if (wait(time.now_ns() + spin_ns))
    return status::ok;
  auto &residency = swapper_->residency();
  residency.begin_wait(onesided::swap::wait_kind::for_pages);
  status code = status::ok;
  while (code == status::ok && !wait(time.now_ns() + poll_interval_ns)) {
    residency.poll();
    if (swapper_->failure() != nullptr)
      code = swapper_->failed();
    else if (auto const lost_pe = job_->failed_pe(); lost_pe >= 0)
      code = set_error(status::peer_lost, "process {} died or is unreachable", lost_pe);
    else if (idle_)
      idle_();
  }
  if (code == status::ok)
    code = swapper_->end_wait();
  if (code == status::ok)
    return code;
  // Nobody waits for these replies any more, and their targets may have been reused.
  staged_->abandon();
  sinks_.clear();
  return code;
}

// Most waits are short: poll for a moment before other processes may use the slot.
status engine::wait_swappable(const std::function<bool()> &ready, std::span<const std::byte> on) {
  TND_ASSERT(swapper_ != nullptr);
  TND_TRY(swapper_->yield_if_requested());  // programs may wait a hundred thousand times a second,
                                            // and never for long
  status code = job_->wait(ready, on, job_->time().now_ns() + spin_ns);
  if (code != status::timed_out)
    return code;
  swapper_->begin_wait();
  // Swapped-out processes have nothing to report, and there are many of them. They sleep longer,
  // since the event that they wait for wakes them.
  constexpr uint64_t slice_ns_last = 16'000'000;
  for (uint64_t now_slice_ns = poll_interval_ns;;
       now_slice_ns = swapper_->is_swapped_out() ? std::min(2 * now_slice_ns, slice_ns_last)
                                                 : poll_interval_ns) {
    code = job_->wait(ready, on, job_->time().now_ns() + now_slice_ns, now_slice_ns);
    if (code != status::timed_out)
      break;
    swapper_->progress();
    if (swapper_->failure() != nullptr)
      return swapper_->failed();
    if (idle_)
      idle_();
  }
  TND_TRY(swapper_->end_wait());
  return code;
}

std::span<std::byte> engine::collective_memory(pe_index pe) const noexcept {
  if (!is_one_node() || swapper_ != nullptr)
    return {};
  TND_ASSERT(size_t(pe) < peers_.size() && peers_[size_t(pe)].shared != nullptr);
  return peers_[size_t(pe)].shared->collective;
}

// Each process counts its arrival at process 0. The last one releases all.
status engine::node_barrier() {
  TND_ASSERT(is_one_node());
  TND_TRY(finish());
  if (count() == 1)
    return status::ok;
  uint64_t const barrier_number = ++barriers_;
  __atomic_store_n(&control_->progress.barriers, barrier_number, __ATOMIC_RELEASE);
  uint64_t before = 0;
  TND_TRY(context_->update(
      seams::fabric_atomic::add, &control_->arrivals, uint64_t{1}, uint64_t{0}, &before, 0));
  if (before + 1 == barrier_number * uint64_t(count())) {
    for (pe_index pe = 0; pe < count(); pe++) {
      TND_TRY(context_->update<uint64_t>(
          seams::fabric_atomic::add, &control_->released, 1, 0, nullptr, pe));
    }
  } else {
    auto const is_over = [&] {
      return __atomic_load_n(&control_->released, __ATOMIC_ACQUIRE) >= barrier_number;
    };
    TND_TRY(wait(is_over, std::as_bytes(std::span{&control_->released, 1})));
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

}  // namespace tanada::comex
