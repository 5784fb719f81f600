#include "comex/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/log.hpp"
#include "comex/control.hpp"
#include "comex/swapping.hpp"
#include "port/machine/processors.hpp"
#include "port/memory/shared_memory.hpp"

namespace tanada::comex {

namespace {

// Where heaps may lie: processes have nothing there, with or without AddressSanitizer, and there is room for 32 TiB behind each.
constexpr uintptr_t places[] = {uintptr_t{0x2000} << 32, uintptr_t{0x3000} << 32, uintptr_t{0x1000} << 32, uintptr_t{0x1800} << 32};
constexpr size_t room = size_t{1} << 45;  // bytes
constexpr size_t control_room = size_t{64} << 20;  // bytes before each heap, and more than enough

// Collective: what every process gave, by rank.
template <class T>
result<std::vector<T>> gather(port::bootstrap &launcher, const char *key, T mine) {
  std::vector<T> all(size_t(launcher.count()), mine);
  if (launcher.count() == 1) return all;
  TND_TRY(launcher.publish(key, std::as_bytes(std::span{&mine, 1})));
  TND_TRY(launcher.exchange(TND_NO_DEADLINE));
  for (int32_t i = 0; i < launcher.count(); i++) {
    auto told = launcher.lookup(i, key);
    if (!told.ok()) return told.error();
    if (told.value().size() != sizeof(T)) return fail(status::protocol, "process %d runs another version of the library", i);
    std::memcpy(&all[size_t(i)], told.value().data(), sizeof(T));
  }
  return all;
}

// Machines of one kind differ by some pages.
result<size_t> smallest(port::bootstrap &launcher, size_t mine) {
  auto all = gather(launcher, "comex.size", mine);
  if (!all.ok()) return all.error();
  return *std::min_element(all.value().begin(), all.value().end());
}

// Collective: those that any of the processes may use.
result<uint32_t> count_processors(port::bootstrap &launcher) {
  auto all = gather(launcher, "comex.processors", port::processors_allowed());
  if (!all.ok()) return all.error();
  port::processor_set together;
  for (auto const &each : all.value()) together |= each;
  return uint32_t(std::max<size_t>(together.count(), 1));
}

// Collective. The same place in all processes, so that an address of the other's is one of ours: where all have room. Null: nowhere.
result<std::byte *> choose_place(port::bootstrap &launcher, size_t size) {
  uint32_t mine = 0;
  for (size_t i = 0; i < std::size(places); i++) {
    if (size <= room && port::is_unmapped(reinterpret_cast<void *>(places[i]), size)) mine |= 1u << i;
  }
  auto all = gather(launcher, "comex.places", mine);
  if (!all.ok()) return all.error();
  uint32_t common = mine;
  for (uint32_t const each : all.value()) common &= each;
  if (common == 0) {
    log(log_level::warning, "processes have no %zu bytes of addresses in common: what is another's is not to be looked at directly", size);
    return nullptr;
  }
  return reinterpret_cast<std::byte *>(places[std::countr_zero(common)]);
}

}  // namespace

result<std::unique_ptr<engine>> engine::start(port::bootstrap &launcher, const settings &chosen, std::function<void()> idle) {
  settings with = chosen;
  if (with.heap_size == 0) {
    size_t const memory = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    size_t const most = with.swap.is_on() ? std::min<size_t>({memory, 2 * with.swap.budget, size_t{1} << 40}) : memory;  // what is more than the budget is refused
    auto const size = smallest(launcher, default_heap_size(most, size_t(launcher.count())));
    if (!size.ok()) return size.error();
    with.heap_size = result{size}.value();
  }
  with.job.heap_size = with.heap_size;
  with.job.control_size = sizeof(control) + alignof(control);
  if (with.swap.is_on()) {
    with.job.control_size += swapping::control_size(with.heap_size, launcher.count());
    with.job.keeps_descriptors = true;
    auto const processors = count_processors(launcher);
    if (!processors.ok()) return processors.error();
    if (with.swap.slots == 0) with.swap.slots = result{processors}.value();
  }
  with.job.shares_program_data = false;
  if (chosen.has_common_addresses) {
    with.job.heap_stride = with.heap_size + control_room;
    auto place = choose_place(launcher, with.job.heap_stride * size_t(launcher.count()));
    if (!place.ok()) return place.error();
    with.job.heaps_at = place.value();
  }
  std::unique_ptr<engine> made{new engine};
  made->idle_ = std::move(idle);
  with.job.calls = &made->server_;
  auto job = pgas::job::start(launcher, with.job);
  if (!job.ok()) return job.error();
  made->job_ = std::move(job).value();
  auto const lane = made->job_->lane_acquire(true);
  if (!lane.ok()) return lane.error();
  made->lane_ = result{lane}.value();
  made->context_.emplace(made->job_->map(), made->lane_);
  auto const begin = reinterpret_cast<uintptr_t>(made->job_->control().data());
  made->control_ = reinterpret_cast<control *>((begin + alignof(control) - 1) / alignof(control) * alignof(control));
  made->server_.open(*made->job_, made->control_->locks);
  if (auto *const staging = made->job_->staging(); staging != nullptr) made->staged_.emplace(*staging);
  made->pieces_ = std::make_unique<heap::pieces>(made->job_->heap());
  made->held_.resize(control::place_count);
  // Heaps begin alike. What is allocated in the same order must not lie at the same place of a page in all of them: caches, and processors that
  // compare the low bits of addresses, would take one for another.
  constexpr size_t shift = 4 * 4096 + 3 * 64, shift_count = 61;  // bytes
  if (size_t const pad = size_t(made->me()) % shift_count * shift; pad != 0) (void)made->pieces_->allocate(pad);
  TND_TRY(made->tell_heaps(launcher));
  if (with.swap.is_on()) {
    auto swapping = swapping::start(*made->job_, with.swap, *made->pieces_, reinterpret_cast<std::byte *>(made->control_ + 1));
    if (!swapping.ok()) return swapping.error();
    made->swapping_ = std::move(swapping).value();
  }
  return made;
}

engine::~engine() {
  swapping_.reset();
  stopped_.reset();
  context_.reset();
  staged_.reset();
  if (lane_ != nullptr) job_->lane_release(lane_);
}

// Where everybody's heap begins for itself.
status engine::tell_heaps(port::bootstrap &launcher) {
  auto const heap = job_->heap();
  auto const mine = reinterpret_cast<uintptr_t>(heap.data());
  auto begins = gather(launcher, "comex.heap", mine);
  if (!begins.ok()) return begins.error();
  for (size_t i = 0; i < begins.value().size(); i++) {
    peers_.push_back({.begin = begins.value()[i], .mapped = job_->map().at(0).mapped[i]});
  }
  return status::ok;
}

status engine::stop() {
  TND_TRY(finish());
  if (swapping_) {
    release_given();
    TND_TRY(swapping_->stop());
    stopped_ = std::move(swapping_);
  }
  return job_->finish();
}

status engine::retire() {
  TND_TRY(finish());
  release_given();
  swapping_->retire();
  return status::ok;
}

void engine::release_given() {
  for (void *const each : given_) pieces_->release(each);
  given_.clear();
}

void *engine::allocate(size_t size) {
  void *const piece = pieces_->allocate(size);
  if (piece != nullptr && swapping_) given_.insert(piece);
  return piece;
}

bool engine::release(void *piece) {
  if (swapping_) given_.erase(piece);
  return pieces_->release(piece);
}

// Most waits are short: they leave nothing to do for others.
status engine::wait_away(const std::function<bool()> &ready, std::span<const std::byte> on) {
  constexpr uint64_t look_ns = 30'000;
  status code = job_->wait(ready, on, job_->time().now_ns() + look_ns);
  if (code != status::timed_out) return code;
  swapping_->leave();
  for (;;) {
    code = job_->wait(ready, on, job_->time().now_ns() + slice_ns);
    if (code != status::timed_out) break;
    swapping_->attend();
    if (swapping_->failure() != nullptr) return swapping_->failed();
    if (idle_) idle_();
  }
  TND_TRY(swapping_->enter());
  return code;
}

// Each tells process 0 that it has come; who is last tells all.
status engine::node_barrier() {
  TND_TRY(finish());
  if (count() == 1) return status::ok;
  uint64_t const mine = ++barriers_;
  uint64_t before = 0;
  TND_TRY(context_->update(port::fabric_atomic::add, &control_->arrivals, uint64_t{1}, uint64_t{0}, &before, 0));
  if (before + 1 == mine * uint64_t(count())) {
    for (pe_index pe = 0; pe < count(); pe++) {
      TND_TRY(context_->update<uint64_t>(port::fabric_atomic::add, &control_->go, 1, 0, nullptr, pe));
    }
  } else {
    auto const is_over = [&] { return __atomic_load_n(&control_->go, __ATOMIC_ACQUIRE) >= mine; };
    TND_TRY(wait(is_over, std::as_bytes(std::span{&control_->go, 1})));
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

}  // namespace tanada::comex
