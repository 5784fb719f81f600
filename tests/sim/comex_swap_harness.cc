// What processes do: random programs, in which each wait uses the library's residency.
#include "comex_swap_harness.hpp"

#include <algorithm>
#include <utility>

#include "onesided/swap/node_table_layout.hpp"

namespace tanada::onesided::swap {

struct node_table_testing {
  // As if the rank had been admitted with its last wait.
  static void renew_age(node_table &shared, uint32_t rank) {
    auto &place = shared.entry_for(rank);
    place.admitted_ns.store(place.since_ns.load());
  }
};

}  // namespace tanada::onesided::swap

namespace tanada::test {

using swap::page_size;
using swap::rank_state;
using swap::wait_kind;

struct swap_run::process {
  uint32_t rank;
  sim::prng random;
  swap::residency here;
  uint32_t allocated = 0;  // pages
  uint64_t barriers = 0, sent = 0, received = 0;
};

swap_run::swap_run(uint64_t seed, swap_weather kind, swap_plant planted)
    : kind_{kind}, planted_{planted}, world_{seed} {
  auto &random = world_.random;
  chosen_.ranks = uint32_t(random.between(2, 9));
  chosen_.pages = uint32_t(random.between(1, 10));
  chosen_.rounds = uint32_t(random.between(2, 5));
  // From a budget for one process to a budget for nearly all.
  chosen_.budget_pages = random.between(chosen_.pages, chosen_.pages * chosen_.ranks);
  if (kind == swap_weather::unseen)
    chosen_.budget_pages = chosen_.pages * chosen_.ranks;  // a rank that is not seen waiting cannot
                                                           // be swapped out
  chosen_.slots = uint32_t(random.between(1, 4));
  chosen_.moves_max = uint32_t(random.between(1, 3));
  chosen_.cache_pages =
      std::max<uint64_t>(random.between(2, 8), chosen_.pages);  // a request is for no more
  chosen_.fixed_pages_max = random.between(0, 4);
  if (kind == swap_weather::tasks)
    chosen_.rounds = 1;
  chosen_.has_strangers =
      kind == swap_weather::strangers || (kind == swap_weather::failing && random.chance(50));
  make();
}

swap_run::swap_run(uint64_t seed, swap_weather kind, const swap_setting &chosen)
    : chosen_{chosen}, kind_{kind}, planted_{swap_plant::none}, world_{seed} {
  make();
}

swap_run::~swap_run() = default;

void swap_run::make() {
  uint64_t const budget =
      (chosen_.budget_pages + chosen_.cache_pages + chosen_.fixed_pages_max) * page_size;
  uint64_t const reserved =
      planted_ == swap_plant::cache_beside_budget ? 0 : chosen_.cache_pages * page_size;
  swap::node_table_options const options{.rank_count = chosen_.ranks,
                                         .budget = budget,
                                         .reserved = reserved,
                                         .slots = chosen_.slots,
                                         .moves_max = chosen_.moves_max,
                                         .has_remote_origins = chosen_.has_strangers,
                                         .cache_size = chosen_.cache_pages * page_size,
                                         .slice_ns = 10'000'000,
                                         .residency_slice_ns = 50'000'000};
  size_t const size = swap::node_table::memory_size(chosen_.ranks, chosen_.has_strangers);
  memory_.resize(size + 64);
  void *at = memory_.data();
  size_t room = memory_.size();
  auto *const begin = static_cast<std::byte *>(std::align(64, size, at, room));
  std::span<std::byte> const bytes{begin, room};
  TND_ASSERT(swap::node_table::create(bytes, options) == status::ok);
  make_alarm();
  board_.emplace(bytes, clock_, *alarm_);
  heaps_ = std::vector<swap_heap>(chosen_.ranks);
  for (auto &each : heaps_) {
    each.memory.resize(chosen_.pages);
    each.store.resize(chosen_.pages, swap_heap::nothing);
    each.truth.resize(chosen_.pages);
    each.write_count.resize(chosen_.pages);
    each.users.resize(chosen_.pages);
    each.used_at.resize(chosen_.pages);
    each.is_touched.resize(chosen_.pages);
    each.is_cached.resize(chosen_.pages);
    each.has_written.resize(chosen_.pages);
    each.words = std::vector<swap::page_bits::word>(swap::page_bits::word_count(chosen_.pages));
    stored_.emplace_back(each.words.data(), chosen_.pages);
    each.left_out_words =
        std::vector<swap::page_bits::word>(swap::page_bits::word_count(chosen_.pages));
    left_out_.emplace_back(each.left_out_words.data(), chosen_.pages);
  }
  arrivals_.resize(chosen_.ranks);
  locks_.resize(2);
  sent_.resize(chosen_.ranks);
  counters_.resize(chosen_.rounds);
}

bool swap_run::step() {
  if (!world_.step())
    return false;
  for (auto const &each : std::exchange(due_, {}))
    each();
  return true;
}

void swap_run::resume(size_t index) {
  running_ = index;
  if (!fibers_->is_over(index))
    fibers_->resume(index);
}

void swap_run::make_alarm() {
  sim::program_switch programs{.running = [this] { return running_; },
                               .yield = [this] { fibers_->yield(); },
                               .resume = [this](size_t index) { resume(index); },
                               .schedule_after =
                                   [this](uint64_t delay_ns, std::function<void()> action) {
                                     later(clock_.now_ns() + delay_ns, std::move(action));
                                   }};
  alarm_.emplace(std::move(programs), planted_ == swap_plant::lost_wakeups);
}

std::string swap_run::run() {
  fibers_ = std::make_unique<fiber_set>();
  clock_.sleep = [this](uint64_t duration_ns) {
    size_t const index = running_;
    later(clock_.now_ns() + duration_ns, [this, index] { resume(index); });
    fibers_->yield();
  };
  for (uint32_t i = 0; i < chosen_.ranks; i++)
    fibers_->add([this, i] { play(i); });
  fibers_->add([this] { agent(); });
  serving_ = chosen_.has_strangers ? chosen_.ranks : 0;
  processes_.resize(chosen_.ranks);
  for (uint32_t i = 0; i < serving_; i++) {
    fibers_->add([this, i] {
      while (processes_[i] == nullptr)
        clock_.sleep_ns(10'000);
      serve_strangers(i);
    });
  }
  for (size_t i = 0; i <= chosen_.ranks + serving_; i++)
    later(1 + i, [this, i] { resume(i); });
  constexpr uint64_t end_ns = 30'000'000'000;
  while (world_.now_ns() < end_ns && step()) {
    uint32_t at_work = 0;
    for (uint32_t i = 0; i < chosen_.ranks; i++) {
      auto const each = board_->snapshot(i);
      bool const is_silent = each.since_ns + 3 * board_->options().slice_ns <= clock_.now_ns();
      at_work += each.state == swap::rank_state::running && !is_silent;
    }
    if (at_work > chosen_.slots)
      found("more run than there are slots");
    check_waits_for_room();
    if (!why_.empty())
      board_->fail("found");
  }
  if (over_ < chosen_.ranks) {
    std::string states;
    for (uint32_t i = 0; i < chosen_.ranks; i++)
      states += std::string(" ") + swap::name_of(board_->state(i));
    found("it has no end:" + states);
    board_->fail("it has no end");
    while (over_ < chosen_.ranks && step()) {}
  }
  while (step()) {}
  fibers_.reset();
  if (alarm_->lost_wakeup_count() != 0)
    found("a wake-up was lost: a sleep ended by its time although its condition held");
  return why_;
}

// A rank waits for admission no longer than the others may keep their memory together, plus a
// little for the time between their calls. There is no such bound if memory stays for messages, or
// if ranks make no calls.
void swap_run::check_waits_for_room() {
  bool const is_bounded =
      !waits_for_messages() && kind_ != swap_weather::unseen && kind_ != swap_weather::failing;
  if (!is_bounded)
    return;
  constexpr uint64_t between_calls_ns = 25'000'000;
  uint64_t const limit_ns =
      chosen_.ranks * (board_->options().residency_slice_ns + between_calls_ns);
  for (uint32_t i = 0; i < chosen_.ranks; i++) {
    auto const rank = board_->snapshot(i);
    if (planted_ == swap_plant::age_of_last_wait)
      swap::node_table_testing::renew_age(*board_, i);
    if (rank.state != rank_state::swap_in_wait || rank.since_ns + limit_ns >= clock_.now_ns())
      continue;
    found("process " + std::to_string(i) + " has waited for room since " +
          std::to_string(rank.since_ns / 1000) + " us");
  }
}

// As the process's fault handler does, if its own touch finds that a page was left out.
bool swap_run::bring_own(process &self, uint32_t page) {
  return !left_out_[self.rank].test(page) || self.here.read_left_out({page, 1}) == status::ok;
}

bool swap_run::touch_own(process &self, uint32_t page, bool is_writing) {
  auto &of = heaps_[self.rank];
  if (!bring_own(self, page))
    return false;
  if (of.memory[page] != of.truth[page]) {
    found("process " + std::to_string(self.rank) + " finds " + std::to_string(of.memory[page]) +
          " in place of " + std::to_string(of.truth[page]));
    return false;
  }
  of.is_touched[page] = true;
  if (is_writing) {
    of.write(page);
    of.has_written[page] = true;
  }
  check_budget();
  return true;
}

bool swap_run::compute(process &self) {
  clock_.sleep_ns(self.random.between(1000, chosen_.compute_ns_max));
  if (board_->failure() != nullptr)
    return false;
  for (uint32_t i = 0; i < self.allocated; i++) {
    if (kind_ != swap_weather::sweeps && self.random.chance(40))
      continue;
    if (!touch_own(self, i, self.random.chance(60)))
      return false;
  }
  return true;
}

bool swap_run::wait(process &self, wait_kind kind, const std::function<bool()> &is_over) {
  self.here.begin_wait(kind);
  while (!is_over()) {
    if (board_->failure() != nullptr)
      return false;
    if (planted_ != swap_plant::never_prepared)
      self.here.prepare_swap_out();
    if (planted_ == swap_plant::touches_while_waiting && kind == wait_kind::swappable &&
        self.allocated > 0 && !touch_own(self, 0, true))
      return false;
    clock_.sleep_ns(self.random.between(100'000, 1'000'000));
  }
  return self.here.end_wait() == status::ok;
}

bool swap_run::barrier(process &self) {
  arrivals_[self.rank] = ++self.barriers;
  auto const is_over = [&] {
    return *std::min_element(arrivals_.begin(), arrivals_.end()) >= self.barriers;
  };
  return wait(self, wait_kind::swappable, is_over);
}

bool swap_run::with_lock(process &self) {
  size_t const which = self.random.below(locks_.size());
  auto const take = [&] {
    if (locks_[which])
      return false;
    return bool(locks_[which] = true);
  };
  if (!take() && !wait(self, wait_kind::swappable, take))
    return false;
  bool const is_well = compute(self) && use_others(self);
  locks_[which] = false;
  return is_well;
}

// Reads of another process's pages, or adds to them.
swap::page_access swap_run::access_to(uint32_t target, sim::prng &random) {
  swap::page_access what{
      .target = target, .is_writing = random.chance(50), .unit = 8, .extents = {}, .on_piece = {}};
  for (uint32_t page = 0; page < processes_[target]->allocated; page++) {
    if (random.chance(30))
      what.extents.push_back({page * page_size, random.chance(50) ? page_size : 8});
  }
  what.on_piece = [this, pages = what.extents, target, is_writing = what.is_writing](
                      size_t index, uint64_t, uint64_t, const std::byte *) {
    auto const page = uint32_t(pages[index].offset / page_size);
    auto &of = heaps_[target];
    if (of.memory[page] != of.truth[page])
      found("page " + std::to_string(page) + " of process " + std::to_string(target) +
            " is not as it was left");
    of.is_touched[page] = true;
    if (!is_writing)
      return;
    of.write(page);
    check_budget();
  };
  if (planted_ == swap_plant::unmarked_writes)
    what.is_writing = false;
  return what;
}

// Some of them later.
bool swap_run::use_others(process &self) {
  uint32_t const count = uint32_t(self.random.between(1, 3));
  for (uint32_t k = 0; k < count; k++) {
    uint32_t const target = uint32_t(self.random.below(chosen_.ranks));
    if (target == self.rank)
      continue;
    if (!make_way(self))
      return false;
    (void)self.here.begin(access_to(target, self.random));
    if (self.random.chance(40) && self.here.complete() != status::ok)
      return false;
  }
  return self.here.complete() == status::ok;
}

// The thread of a process that carries out remote requests on its memory. Nothing wakes it, and it
// is not notified when that memory is swapped out.
void swap_run::serve_strangers(uint32_t rank) {
  sim::prng random{world_.random.next()};
  swap::page_request_queue asks{*board_, board_->remote_origin_for(rank), stored_, left_out_};
  uint32_t ended = 0, begun = 0;
  while (board_->failure() == nullptr && (!is_quiet_ || !asks.is_empty())) {
    clock_.sleep_ns(random.between(30'000, 2'000'000));
    for (uint64_t k = random.between(0, 3); k > 0 && !is_quiet_ && processes_[rank]->allocated > 0;
         k--) {
      auto what = access_to(rank, random);
      if (what.extents.empty())
        continue;
      what.on_complete = [&ended] {
        ended++;
      };
      if (!asks.begin(std::move(what)))
        begun++;
    }
    asks.poll();
  }
  if (board_->failure() == nullptr && ended != begun)
    found("strangers were told of " + std::to_string(ended) + " ends of " + std::to_string(begun));
  serving_--;
}

// Messages to the next rank and from the previous one, whose buffers are in pinned memory.
bool swap_run::message(process &self) {
  sent_[self.rank] = ++self.sent;
  uint32_t const before = (self.rank + chosen_.ranks - 1) % chosen_.ranks;
  uint64_t const wanted = ++self.received;
  return wait(self, self.random.chance(50) ? wait_kind::pinned : wait_kind::swappable, [&] {
    return sent_[before] >= wanted;
  });
}

bool swap_run::allocate(process &self) {
  uint32_t const more = uint32_t(self.random.between(0, chosen_.pages - self.allocated));
  if (more == 0)
    return true;
  if (self.here.reserve(more * page_size) != status::ok)
    return false;
  self.allocated += more;
  return true;
}

// All ranks but one poll for the last one's progress without waiting, by calls that yield or by no
// calls.
bool swap_run::spin(process &self) {
  uint64_t const wanted = self.barriers + 1;
  if (self.rank == chosen_.ranks - 1) {
    if (!compute(self))
      return false;
    flag_ = wanted;
  }
  while (flag_ < wanted) {
    if ((kind_ != swap_weather::unseen && self.here.yield_if_requested() != status::ok) ||
        board_->failure() != nullptr)
      return false;
    clock_.sleep_ns(200'000);
  }
  return true;
}

// What the engine does before each operation on another process's memory.
bool swap_run::make_way(process &self) {
  if (!board_->is_yield_requested(self.rank))
    return true;
  return self.here.complete() == status::ok && self.here.yield_if_requested() == status::ok;
}

// Atomic for all, on the first page of rank `home`.
bool swap_run::add_to_counter(process &self, uint32_t home, uint64_t amount, uint64_t *before) {
  if (!make_way(self) || (home == self.rank && !bring_own(self, 0)))
    return false;
  swap::page_access request{
      .target = home, .is_writing = true, .unit = 8, .extents = {{0, 8}}, .on_piece = {}};
  request.on_piece = [this, home, amount, before, &self](
                         size_t, uint64_t, uint64_t, const std::byte *) {
    auto &heap = heaps_[home];
    if (heap.memory[0] != heap.truth[0])
      found("the counter of process " + std::to_string(home) + " is not as it was left");
    heap.is_touched[0] = true;
    heap.write(0);
    if (home == self.rank)
      heap.has_written[0] = true;
    *before = counters_[self.barriers - 1];
    counters_[self.barriers - 1] += amount;
    check_budget();
  };
  (void)self.here.begin(std::move(request));
  return self.here.complete() == status::ok;
}

// `while (NGA_Read_inc(counter) == 0)` on all ranks but one, which works on its own memory before
// it counts.
bool swap_run::poll_counter(process &self) {
  auto const home = uint32_t(self.barriers % chosen_.ranks);
  uint64_t seen = 0;
  if (self.rank == chosen_.ranks - 1)
    return compute(self) && add_to_counter(self, home, 1, &seen);
  while (seen == 0) {
    if (board_->failure() != nullptr || !add_to_counter(self, home, 0, &seen))
      return false;
    clock_.sleep_ns(self.random.between(1000, 20'000));
  }
  return true;
}

// Numbered tasks until none is left. Each reads other ranks' data, and ends in less time than a
// rank may keep its memory. All of them together take much longer.
bool swap_run::run_tasks(process &self) {
  auto const home = uint32_t(self.barriers % chosen_.ranks);
  uint64_t const task_count = 250 * chosen_.slots;
  for (uint64_t task = 0;;) {
    if (!add_to_counter(self, home, 1, &task))
      return false;
    if (task >= task_count)
      return true;
    if (!compute(self) || !use_others(self))
      return false;
  }
}

bool swap_run::one_of(process &self, uint32_t) {
  auto const chance = [&](uint32_t percent) {
    return self.random.chance(percent);
  };
  switch (kind_) {
    case swap_weather::sweeps:
      return compute(self);
    case swap_weather::gets:
      return compute(self) && use_others(self);
    case swap_weather::locks:
      return with_lock(self) && compute(self);
    case swap_weather::messages:
      return compute(self) && message(self);
    case swap_weather::allocations:
      return allocate(self) && compute(self) && (!chance(50) || use_others(self));
    case swap_weather::spins:
    case swap_weather::unseen:
      return spin(self);
    case swap_weather::polls:
      return poll_counter(self);
    case swap_weather::tasks:
      return run_tasks(self);
    case swap_weather::strangers:
      return compute(self) && (!chance(50) || use_others(self)) && (!chance(20) || with_lock(self));
    case swap_weather::failing:
    case swap_weather::mixed:
      break;
  }
  return (!chance(50) || compute(self)) && (!chance(50) || use_others(self)) &&
         (!chance(30) || with_lock(self)) && message(self) && allocate(self);
}

void swap_run::play(uint32_t rank) {
  auto &of = heaps_[rank];
  swap::memory_hooks mine{.collect =
                              [&of, this, rank] {
                                for (uint32_t i = 0; i < chosen_.pages; i++) {
                                  if (of.has_written[i])
                                    stored_[rank].clear({i, 1});
                                  of.has_written[i] = false;
                                }
                              },
                          .arm = [] {},
                          .resident_size =
                              [&of] {
                                return of.is_here ? of.touched_count() * page_size : 0;
                              }};
  processes_[rank].reset(new process{
      rank, sim::prng{world_.random.next()}, {*board_, rank, stored_, std::move(mine), left_out_}});
  auto &self = *processes_[rank];
  bool is_well = self.here.start(int32_t(rank) + 1) == status::ok;
  if (is_well && kind_ != swap_weather::allocations) {
    is_well = self.here.reserve(chosen_.pages * page_size) == status::ok;
    self.allocated = chosen_.pages;
  }
  is_well = is_well && barrier(self);
  for (uint32_t round = 0; is_well && round < chosen_.rounds; round++)
    is_well = one_of(self, round) && barrier(self);
  if (is_well && chosen_.has_strangers) {
    is_quiet_ = true;
    is_well = wait(self, wait_kind::swappable, [this] { return serving_ == 0; });
  }
  for (uint32_t i = 0; is_well && i < self.allocated; i++)
    is_well = touch_own(self, i, false);
  if (is_well) {
    self.here.finish();
    of.is_touched.assign(chosen_.pages, false);  // its memory is freed
  }
  over_++;
}

}  // namespace tanada::test
