#include "products/comex/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "core/base/log.hpp"
#include "onesided/job/open_device.hpp"
#include "onesided/swap/memory_meter.hpp"
#include "products/comex/control.hpp"
#include "products/comex/refusal.hpp"
#include "products/comex/swapping.hpp"
#include "seams/os/processors.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::comex {

namespace {

// Where heaps may lie: processes have nothing there, with or without AddressSanitizer, and there is
// room for 32 TiB behind each.
constexpr uintptr_t places[] = {uintptr_t{0x2000} << 32, uintptr_t{0x3000} << 32,
                                uintptr_t{0x1000} << 32, uintptr_t{0x1800} << 32};
constexpr size_t room = size_t{1} << 45;            // bytes
constexpr size_t control_room = size_t{256} << 20;  // bytes before each heap, and more than enough

// Collective: what every process gave, by rank.
template <class T>
result<std::vector<T>> gather(port::bootstrap &launcher, const char *key, T mine) {
  std::vector<T> all(size_t(launcher.count()), mine);
  if (launcher.count() == 1)
    return all;
  TND_TRY(launcher.publish(key, std::as_bytes(std::span{&mine, 1})));
  TND_TRY(launcher.exchange(TND_NO_DEADLINE));
  for (int32_t i = 0; i < launcher.count(); i++) {
    auto told = launcher.lookup(i, key);
    if (!told.ok())
      return told.error();
    if (told.value().size() != sizeof(T))
      return fail(status::protocol, "process %d runs another version of the library", i);
    std::memcpy(&all[size_t(i)], told.value().data(), sizeof(T));
  }
  return all;
}

// Machines of one kind differ by some pages.
result<size_t> smallest(port::bootstrap &launcher, size_t mine) {
  auto all = gather(launcher, "comex.size", mine);
  if (!all.ok())
    return all.error();
  return *std::min_element(all.value().begin(), all.value().end());
}

// Collective: those that any of the node's processes may use.
result<uint32_t> count_processors(const pgas::job &job) {
  auto all = gather(job.launcher(), "comex.processors", port::processors_allowed());
  if (!all.ok())
    return all.error();
  port::processor_set together;
  for (pe_index const pe : job.node_pes())
    together |= all.value()[size_t(pe)];
  return uint32_t(std::max<size_t>(together.count(), 1));
}

// Collective: nodes are numbered as their lowest processes come.
result<uint32_t> number_of_node(const pgas::job &job) {
  pe_index const mine = job.node_pes().front();
  auto all = gather(job.launcher(), "comex.node", mine);
  if (!all.ok())
    return all.error();
  std::set<pe_index> const lowest{all.value().begin(), all.value().end()};
  return uint32_t(std::distance(lowest.begin(), lowest.find(mine)));
}

struct fixed_memory {
  uint64_t private_size, shared_size;  // bytes that cannot leave
};

// Collective: of the node's processes together.
result<fixed_memory> measure_fixed(const pgas::job &job) {
  uint64_t const of_library = swap::used_size_of(job.heap_file(job.me()).descriptor);
  auto all = gather(
      job.launcher(), "comex.fixed",
      fixed_memory{swap::private_size_of(getpid()), swap::shared_size_of_others() + of_library});
  if (!all.ok())
    return all.error();
  fixed_memory sum{};
  for (pe_index const pe : job.node_pes()) {
    sum.private_size += all.value()[size_t(pe)].private_size;
    sum.shared_size += all.value()[size_t(pe)].shared_size;
  }
  return sum;
}

// Collective. The same place in all processes, so that an address of the other's is one of ours:
// where all have room. Null: nowhere.
result<std::byte *> choose_place(port::bootstrap &launcher, size_t size) {
  uint32_t mine = 0;
  for (size_t i = 0; i < std::size(places); i++) {
    if (size <= room && port::is_unmapped(reinterpret_cast<void *>(places[i]), size))
      mine |= 1u << i;
  }
  auto all = gather(launcher, "comex.places", mine);
  if (!all.ok())
    return all.error();
  uint32_t common = mine;
  for (uint32_t const each : all.value())
    common &= each;
  if (common == 0) {
    log(log_level::warning,
        "processes have no %zu bytes of addresses in common: what is another's is not to be looked "
        "at directly",
        size);
    return nullptr;
  }
  return reinterpret_cast<std::byte *>(places[std::countr_zero(common)]);
}

}  // namespace

result<std::unique_ptr<engine>> engine::start(port::bootstrap &launcher, const settings &chosen,
                                              std::function<void()> idle) {
  settings with = chosen;
  if (with.heap_size == 0) {
    size_t const memory = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    size_t const most = with.swap.is_on()
                            ? std::min<size_t>({memory, 2 * with.swap.budget, size_t{1} << 40})
                            : memory;  // what is more than the budget is refused
    auto const size = smallest(launcher, default_heap_size(most, size_t(launcher.count())));
    if (!size.ok())
      return size.error();
    with.heap_size = result{size}.value();
  }
  with.job.heap_size = with.heap_size;
  with.job.control_size = sizeof(control) + alignof(control);
  if (with.swap.is_on()) {
    with.job.control_offered_size = with.job.control_size;
    with.job.control_size += swapping::control_size(with.heap_size, launcher.count());
    with.job.keeps_descriptors = true;
    with.job.offers_heap = false;  // nobody moves bytes of what may be away
  }
  with.job.shares_program_data = false;
  if (chosen.has_common_addresses) {
    with.job.heap_stride = with.heap_size + control_room;
    auto place = choose_place(launcher, with.job.heap_stride * size_t(launcher.count()));
    if (!place.ok())
      return place.error();
    with.job.heaps_at = place.value();
  }
  std::unique_ptr<engine> made{new engine};
  made->idle_ = std::move(idle);
  with.job.calls = &made->server_;
  TND_TRY(made->open_device(launcher, with));
  auto job = pgas::job::start(launcher, with.job);
  if (!job.ok())
    return job.error();
  made->job_ = std::move(job).value();
  auto const lane = made->job_->lane_acquire(true);
  if (!lane.ok())
    return lane.error();
  made->lane_ = result{lane}.value();
  auto queue = made->job_->device_queue_open();
  if (!queue.ok())
    return queue.error();
  made->context_.emplace(made->job_->map(), made->lane_, std::move(queue).value(), false,
                         made->gpu_ ? made->job_->staging() : nullptr);
  auto const begin = reinterpret_cast<uintptr_t>(made->job_->control().data());
  made->control_ = reinterpret_cast<control *>((begin + alignof(control) - 1) / alignof(control) *
                                               alignof(control));
  if (!with.swap.is_on())
    made->server_.open(*made->job_, made->control_->locks);
  if (auto *const staging = made->job_->staging(); staging != nullptr)
    made->staged_.emplace(*staging);
  made->pieces_ = std::make_unique<heap::pieces>(made->job_->heap());
  made->held_.resize(control::place_count);
  // Heaps begin alike. What is allocated in the same order must not lie at the same place of a page
  // in all of them: caches, and processors that compare the low bits of addresses, would take one
  // for another.
  constexpr size_t shift = 4 * 4096 + 3 * 64, shift_count = 61;  // bytes
  if (size_t const pad = size_t(made->me()) % shift_count * shift; pad != 0)
    (void)made->pieces_->allocate(pad);
  TND_TRY(made->tell_heaps(launcher));
  if (with.swap.is_on())
    TND_TRY(made->start_swapping(with.swap));
  return made;
}

status engine::open_device(port::bootstrap &launcher, settings &with) {
  if (with.device_heap_size == 0)
    return status::ok;
  auto opened = pgas::open_device(launcher, with.device);
  if (!opened.ok())
    return opened.error();
  gpu_ = std::move(opened).value();
  with.job.device = gpu_.get();
  with.job.device_heap_size = with.device_heap_size;
  return status::ok;
}

// Nobody is answered before memory may be away, nor waits for who is not answered: what is given is
// told by who runs.
status engine::start_swapping(swap_settings chosen) {
  auto const processors = count_processors(*job_), node = number_of_node(*job_);
  if (!processors.ok())
    return processors.error();
  if (!node.ok())
    return node.error();
  if (chosen.slots == 0)
    chosen.slots = result{processors}.value();
  chosen.node = result{node}.value();
  auto const fixed = measure_fixed(*job_);
  if (!fixed.ok())
    return fixed.error();
  chosen.private_size = result{fixed}.value().private_size;
  chosen.shared_size = result{fixed}.value().shared_size;
  auto made = swapping::start(*job_, chosen, *pieces_, reinterpret_cast<std::byte *>(control_ + 1));
  if (!made.ok())
    return made.error();
  swapping_ = std::move(made).value();
  if (staged_) {
    auto const window = swapping_->open_window();
    if (!window.ok())
      return window.error();
    server_.open(*job_, control_->locks,
                 {&swapping_->shared(), swapping_->rank_of(me()), swapping_->stored(),
                  result{window}.value()});
    swapping_->beside_set([this] { return !staged_->is_busy(); },
                          [this] { return finish_packed(); });
  }
  return swapping_->begin(!chosen.comes_whole);
}

// The threads that serve others use what swapping has.
engine::~engine() {
  if (swapping_) {
    swapping_->beside_set({}, {});
    staged_.reset();
    job_->retire();
  }
  swapping_.reset();
  stopped_.reset();
  context_.reset();
  staged_.reset();
  if (lane_ != nullptr)
    job_->lane_release(lane_);
}

// Where everybody's heap begins for itself.
status engine::tell_heaps(port::bootstrap &launcher) {
  auto const heap = job_->heap();
  auto const mine = reinterpret_cast<uintptr_t>(heap.data());
  auto begins = gather(launcher, "comex.heap", mine);
  if (!begins.ok())
    return begins.error();
  if (gpu_) {
    auto const given = job_->device_heap();
    auto theirs = gather(launcher, "comex.device", reinterpret_cast<uintptr_t>(given.data()));
    if (!theirs.ok())
      return theirs.error();
    device_.emplace(given, std::move(theirs).value());
  }
  for (size_t i = 0; i < begins.value().size(); i++) {
    auto *const theirs = reinterpret_cast<control *>(
        job_->map().locate(control_, sizeof *control_, pe_index(i)).mapped);
    peers_.push_back({.begin = begins.value()[i],
                      .mapped = job_->map().at(0).mapped[i],
                      .shared = theirs,
                      .locks = theirs == nullptr ? nullptr : theirs->locks});
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
  swapping_->beside_set({}, {});
  staged_.reset();
  job_->retire();
  swapping_->retire();
  return status::ok;
}

void engine::release_given() {
  for (void *const each : given_)
    pieces_->release(each);
  given_.clear();
}

void *engine::allocate(size_t size) {
  void *const piece = pieces_->allocate(size);
  if (piece != nullptr && swapping_)
    given_.insert(piece);
  return piece;
}

bool engine::release(void *piece) {
  if (swapping_)
    given_.erase(piece);
  return pieces_->release(piece) || (device_ && device_->release(piece));
}

// wait(deadline): whether it is over. Answers of other nodes land in this process's memory, which
// stays.
status engine::wait_served(const std::function<bool(uint64_t)> &wait) {
  auto &time = job_->time();
  if (wait(time.now_ns() + look_ns))
    return status::ok;
  auto &residence = swapping_->residence();
  residence.leave(swap::wait_kind::served);
  status code = status::ok;
  while (code == status::ok && !wait(time.now_ns() + slice_ns)) {
    residence.poll();
    if (swapping_->failure() != nullptr)
      code = swapping_->failed();
    else if (auto const gone = job_->lost(); gone >= 0)
      code = refuse(status::peer_lost, "process %d has died, or is not reached", gone);
    else if (idle_)
      idle_();
  }
  if (code == status::ok)
    code = swapping_->enter();
  if (code == status::ok)
    return code;
  // Nobody waits for what comes now: where it was to land may be something else.
  staged_->abandon();
  landings_.clear();
  return code;
}

// Most waits are short: they leave nothing to do for others.
status engine::wait_away(const std::function<bool()> &ready, std::span<const std::byte> on) {
  TND_TRY(
      swapping_
          ->offer());  // programs may wait a hundred thousand times a second, and never for long
  status code = job_->wait(ready, on, job_->time().now_ns() + look_ns);
  if (code != status::timed_out)
    return code;
  swapping_->leave();
  // Who is away has nothing to tell, and there are many of them: what they wait for wakes them.
  constexpr uint64_t slice_ns_last = 16'000'000;
  for (uint64_t now_slice_ns = slice_ns;;
       now_slice_ns = swapping_->is_away() ? std::min(2 * now_slice_ns, slice_ns_last) : slice_ns) {
    code = job_->wait(ready, on, job_->time().now_ns() + now_slice_ns, now_slice_ns);
    if (code != status::timed_out)
      break;
    swapping_->attend();
    if (swapping_->failure() != nullptr)
      return swapping_->failed();
    if (idle_)
      idle_();
  }
  TND_TRY(swapping_->enter());
  return code;
}

std::span<std::byte> engine::collective_memory(pe_index pe) const noexcept {
  if (!is_one_node() || swapping_ != nullptr)
    return {};
  return peers_[size_t(pe)].shared->collective;
}

// Each tells process 0 that it has come; who is last tells all.
status engine::node_barrier() {
  TND_TRY(finish());
  if (count() == 1)
    return status::ok;
  uint64_t const mine = ++barriers_;
  __atomic_store_n(&control_->come.barriers, mine, __ATOMIC_RELEASE);
  uint64_t before = 0;
  TND_TRY(context_->update(port::fabric_atomic::add, &control_->arrivals, uint64_t{1}, uint64_t{0},
                           &before, 0));
  if (before + 1 == mine * uint64_t(count())) {
    for (pe_index pe = 0; pe < count(); pe++) {
      TND_TRY(
          context_->update<uint64_t>(port::fabric_atomic::add, &control_->go, 1, 0, nullptr, pe));
    }
  } else {
    auto const is_over = [&] {
      return __atomic_load_n(&control_->go, __ATOMIC_ACQUIRE) >= mine;
    };
    TND_TRY(wait(is_over, std::as_bytes(std::span{&control_->go, 1})));
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

}  // namespace tanada::comex
