// What happens to ranks: events, and what is decided after each; access to the memory of others.
#include "onesided/swap/board.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "onesided/swap/board_memory.hpp"

namespace tanada::comex::swap {

using enum rank_state;

board::hold::hold(board &of) noexcept : lock_{&of.memory_->lock} {
  int const code = pthread_mutex_lock(lock_);
  if (code == 0)
    return;
  if (code == EOWNERDEAD)
    pthread_mutex_consistent(lock_);
  else
    lock_ = nullptr;
  of.fail("a process has died while it changed what its neighbours know of one another's memory");
}

board::hold::~hold() {
  if (lock_ != nullptr)
    pthread_mutex_unlock(lock_);
}

size_t board::memory_size(uint32_t rank_count, bool has_servers, uint64_t copies_size) noexcept {
  size_t const size =
      memory::align(memory::views_at(rank_count, has_servers) + rank_count * sizeof(rank_view));
  return copies_size == 0 ? size : size + memory::large_page + copies_size;
}

status board::create(std::span<std::byte> bytes, const board_options &options) {
  if (options.rank_count == 0 || options.rank_count > node_view::rank_count_max) {
    return tanada::fail(status::invalid,
                        "%u processes of a node: their memory can leave for 1 to %u",
                        options.rank_count, node_view::rank_count_max);
  }
  if (bytes.size() < memory_size(options.rank_count, options.has_servers, options.copies_size) ||
      options.slots == 0 || options.moves_max == 0) {
    return tanada::fail(status::invalid, "a board of %zu bytes, %u slots, %u moves", bytes.size(),
                        options.slots, options.moves_max);
  }
  auto *const made = reinterpret_cast<memory *>(bytes.data());
  made->options = options;
  made->reserved.store(options.reserved, relaxed);
  size_t const end = memory_size(options.rank_count, options.has_servers),
               past = (reinterpret_cast<uintptr_t>(made) + end) % memory::large_page;
  made->copies_at = end + (past == 0 ? 0 : memory::large_page - past);
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  int const code = pthread_mutex_init(&made->lock, &kind);
  pthread_mutexattr_destroy(&kind);
  if (code != 0)
    return tanada::fail(status::not_supported, "no lock that processes share: %s",
                        std::strerror(code));
  board const view{bytes};
  for (uint32_t i = 0; i < options.rank_count; i++) {
    view.of(i).state.store(gone, relaxed);
    view.of(i).number.store(int32_t(i), relaxed);
  }
  return status::ok;
}

board::board(std::span<std::byte> bytes, port::clock &time, port::alarm &alarm) noexcept
    : memory_{reinterpret_cast<memory *>(bytes.data())}, time_{&time}, alarm_{&alarm} {}

const board_options &board::options() const noexcept {
  return memory_->options;
}
uint64_t board::reserved() const noexcept {
  return memory_->reserved.load(relaxed);
}
void board::reserve_set(uint64_t bytes) noexcept {
  memory_->reserved.store(bytes, relaxed);
}

uint64_t board::budget_for_ranks() const noexcept {
  uint64_t const budget = memory_->options.budget;
  return budget - std::min(budget, reserved());
}

board::place &board::of(uint32_t rank) const noexcept {
  return memory_->at<place>(memory::places_at())[rank];
}

void board::change(uint32_t rank, rank_state to) noexcept {
  auto &there = of(rank);
  rank_state const from = there.state.load(relaxed);
  TND_ASSERT(may_follow(from, to));
  there.state.store(to, std::memory_order_release);
  memory_->events[memory_->events_written++ % memory::event_capacity] = {time_->now_ns(), rank,
                                                                         from, to};
  ring(rank);
}

void board::grant_room(uint32_t rank) noexcept {
  auto &there = of(rank);
  there.allocated.store(there.allocated.load(relaxed) + there.reserve.exchange(0, relaxed),
                        relaxed);
}

void board::warn() noexcept {
  memory_->counters.beyond_budget.fetch_add(1, relaxed);
  if (std::exchange(memory_->has_warned, true))
    return;
  log(log_level::warning,
      "swapping: processes that must not leave memory fill the %llu bytes of TND_COMEX_MEMORY: "
      "another is let in beyond them",
      static_cast<unsigned long long>(memory_->options.budget));
}

// Long beside what moving a rank out and another in costs, so that turns cost a tenth of the time
// at most; and no longer, because ranks wait for their turn.
uint64_t board::room_slice_ns() const noexcept {
  constexpr uint64_t slice_ns_min = 250'000'000, moves_of_slice = 20;
  auto const &counters = memory_->counters;
  uint64_t const most_ns = memory_->options.room_slice_ns;
  uint64_t const moves =
      std::max<uint64_t>(counters.swaps_out.load(relaxed) + counters.swaps_in.load(relaxed), 1);
  return std::clamp(counters.move_ns.load(relaxed) / moves * moves_of_slice,
                    std::min(slice_ns_min, most_ns), most_ns);
}

node_view board::view() noexcept {
  auto const &options = memory_->options;
  auto *const views = memory_->views();
  for (uint32_t i = 0; i < options.rank_count; i++)
    views[i] = look(i);
  return {.ranks = {views, options.rank_count},
          .budget = budget_for_ranks(),
          .cached = memory_->cached - std::min(memory_->cached, options.cache_size),
          .slots = options.slots,
          .moves_max = options.moves_max,
          .now_ns = time_->now_ns(),
          .patience_ns = options.patience_ns,
          .slice_ns = options.slice_ns,
          .silence_ns = 3 * options.slice_ns,
          .room_slice_ns = room_slice_ns(),
          .stuck_ns = options.stuck_ns};
}

// What is decided may make more to decide; never for long: each round brings a rank further.
void board::apply(caller by) noexcept {
  if (memory_->failing.load(relaxed) != 0)
    return;  // nothing can be relied on
  for (uint32_t round = 0; round < 16 * memory_->options.rank_count + 64; round++) {
    if (!apply_once(by))
      return;
  }
  fail("swapping: what is decided has no end, which is a bug");
}

bool board::apply_once(caller by) noexcept {
  decision const made = decide(view());
  memory_->cache_surplus = made.cache_surplus;
  for (uint32_t const i : made.ask)
    of(i).is_asked.store(true, relaxed);
  // The agent learns of a surplus from what cached() returns, in every round. A ring of its own
  // would keep it awake for as long as pages that are in use cannot leave the cache.
  bool const is_surplus_news = made.cache_surplus > 0 && by != caller::agent;
  if (is_surplus_news || made.out.count + made.come.count > 0)
    ring_agent();
  if (made.is_empty())
    return false;
  if (made.is_beyond_budget)
    warn();
  for (uint32_t const i : made.admit) {
    grant_room(i);
    of(i).wants.store(false, relaxed);
    change(i, ready);
  }
  for (uint32_t const i : made.run) {
    of(i).since_ns.store(time_->now_ns(), relaxed);
    of(i).is_asked.store(false, relaxed);
    change(i, running);
  }
  for (uint32_t const i : made.leave) {
    of(i).is_prepared.store(false, relaxed);
    change(i, swap_out_wait);
  }
  for (uint32_t const i : made.out) {
    of(i).gate.fetch_or(place::closed);
    of(i).is_taken.store(false, relaxed);
    change(i, swap_out);
  }
  for (uint32_t const i : made.come) {
    grant_room(i);
    of(i).is_taken.store(false, relaxed);
    of(i).has_landed.store(false, relaxed);
    change(i, swap_in);
  }
  return true;
}

void board::start(uint32_t rank, int32_t process_id) {
  hold const held{*this};
  auto &there = of(rank);
  there.process_id.store(process_id, relaxed);
  there.since_ns.store(time_->now_ns(), relaxed);
  there.let_in_ns.store(time_->now_ns(), relaxed);
  change(rank, ready);
  apply();
}

void board::finish(uint32_t rank) {
  hold const held{*this};
  auto &there = of(rank);
  for (auto *each : {&there.here, &there.away, &there.allocated, &there.reserve})
    each->store(0, relaxed);
  change(rank, gone);
  apply();
}

void board::leave(uint32_t rank, wait_kind kind) {
  hold const held{*this};
  auto &there = of(rank);
  there.kind.store(kind, relaxed);
  there.wants.store(false, relaxed);
  there.is_asked.store(false, relaxed);
  there.since_ns.store(time_->now_ns(), relaxed);
  change(rank, wait);
  apply();
}

bool board::try_enter(uint32_t rank) {
  auto &there = of(rank);
  rank_state const now = there.state.load(std::memory_order_acquire);
  if (now == running)
    return true;
  if (now == ready || now == swap_in_wait || now == swap_in || there.wants.load(relaxed))
    return false;  // all is said
  hold const held{*this};
  there.wants.store(true, relaxed);
  there.since_ns.store(time_->now_ns(), relaxed);
  if (there.state.load(relaxed) == swapped)
    change(rank, swap_in_wait);
  apply();
  return there.state.load(relaxed) == running;
}

bool board::should_prepare(uint32_t rank) const noexcept {
  auto const &there = of(rank);
  return there.state.load(std::memory_order_acquire) == swap_out_wait &&
         !there.is_prepared.load(relaxed);
}

void board::prepared(uint32_t rank) {
  hold const held{*this};
  if (of(rank).state.load(relaxed) != swap_out_wait)
    return;  // its wait ended meanwhile
  of(rank).is_prepared.store(true, relaxed);
  apply();
}

bool board::has_landed(uint32_t rank) const noexcept {
  auto const &there = of(rank);
  return there.state.load(std::memory_order_acquire) == swap_in &&
         there.has_landed.load(std::memory_order_acquire);
}

void board::arrived(uint32_t rank) {
  hold const held{*this};
  auto &there = of(rank);
  TND_ASSERT(has_landed(rank));
  there.gate.fetch_and(~place::closed);
  there.wants.store(false, relaxed);
  there.let_in_ns.store(time_->now_ns(), relaxed);
  change(rank, ready);
  apply();
}

void board::touched(uint32_t rank, uint64_t here) {
  of(rank).here.store(here, relaxed);
}

board::room board::try_reserve(uint32_t rank, uint64_t bytes) {
  hold const held{*this};
  auto &there = of(rank);
  uint64_t const budget = budget_for_ranks(), allocated = there.allocated.load(relaxed);
  if (bytes > budget || allocated > budget - bytes)
    return room::never;
  there.reserve.store(bytes, relaxed);
  auto const now = view();
  uint64_t used = now.cached;
  for (auto const &each : now.ranks)
    used += charge_of(each, budget);
  auto with = now.ranks[rank];
  uint64_t const before = charge_of(with, budget);
  with.allocated += bytes;
  uint64_t const more = charge_of(with, budget) - before;
  if (more > 0 && used + more > budget)
    return room::wait;
  grant_room(rank);
  return room::granted;
}

void board::release(uint32_t rank, uint64_t bytes) {
  hold const held{*this};
  auto &allocated = of(rank).allocated;
  allocated.store(allocated.load(relaxed) - std::min(allocated.load(relaxed), bytes), relaxed);
  apply();
}

bool board::is_asked(uint32_t rank) const noexcept {
  return of(rank).is_asked.load(relaxed);
}

void board::fail(const char *text) noexcept {
  uint32_t nobody = 0;
  if (!memory_->failing.compare_exchange_strong(nobody, 1))
    return;
  std::strncpy(memory_->failure, text, memory::failure_size - 1);
  memory_->failing.store(2, std::memory_order_release);
  for (uint32_t i = 0; i < rank_count(); i++)
    ring(i);
  ring_agent();
}

status board::failed() noexcept {
  constexpr uint64_t end_ns = 3'000'000'000;
  if (memory_->is_told.exchange(true))
    time_->sleep_ns(end_ns);
  set_last_message(failure());
  return status::peer_lost;
}

const char *board::failure() const noexcept {
  return memory_->failing.load(std::memory_order_acquire) == 2 ? memory_->failure : nullptr;
}

bool board::pin(uint32_t target) noexcept {
  auto &gate = of(target).gate;
  if ((gate.fetch_add(1, std::memory_order_acquire) & place::closed) == 0) [[likely]]
    return true;
  gate.fetch_sub(1, relaxed);
  return false;
}

void board::unpin(uint32_t target) noexcept {
  if (of(target).gate.fetch_sub(1, std::memory_order_release) == (place::closed | 1)) [[unlikely]]
    ring_agent();
}

request *board::requests_of(uint32_t origin) const noexcept {
  return memory_->at<request>(memory::requests_at(memory_->options.rank_count)) +
         size_t{origin} * requests_of_rank;
}

std::span<std::byte> board::copies() const noexcept {
  return {memory_->at<std::byte>(memory_->copies_at),
          options().copies_size / copy_size * copy_size};
}

const std::byte *board::copied(const request &which, uint64_t offset) const noexcept {
  if (which.copy == request::no_copy)
    return nullptr;
  uint64_t before = uint64_t{which.copy} * copy_size;
  for (auto const &run : which.pages()) {
    if (offset >= run.offset() && offset < run.offset() + run.size())
      return copies().subspan(before + (offset - run.offset())).data();
    before += run.size();
  }
  return nullptr;
}

request *board::post(uint32_t origin, uint32_t target, std::span<const page_run> pages,
                     bool is_reading) noexcept {
  TND_ASSERT(!pages.empty() && pages.size() <= request::run_count_max);
  auto *const all = requests_of(origin);
  auto *const found = std::find_if(all, all + requests_of_rank, [](const request &each) {
    return each.at.load(std::memory_order_acquire) == request::step::none;
  });
  if (found == all + requests_of_rank)
    return nullptr;
  found->origin = origin;
  found->target = target;
  found->is_reading = is_reading ? 1 : 0;
  found->is_served = 0;
  found->copy = request::no_copy;
  found->run_count = uint32_t(pages.size());
  found->page_count = 0;
  for (size_t i = 0; i < pages.size(); i++) {
    found->runs[i] = pages[i];
    found->page_count += pages[i].count;
  }
  TND_ASSERT(found->page_count <= request::page_count_max);
  memory_->counters.requests.fetch_add(1, relaxed);
  found->at.store(request::step::posted, std::memory_order_release);
  memory_->posted.fetch_add(1);
  ring_agent();
  return found;
}

void board::done(request &which) noexcept {
  uint32_t const target = which.target;
  bool const is_served = which.is_served != 0, is_copy = which.copy != request::no_copy;
  which.at.store(is_served ? request::step::done : request::step::none, std::memory_order_release);
  if (!is_copy)
    unpin(target);
  if (is_served)
    ring_agent();
}

rank_state board::state(uint32_t rank) const noexcept {
  return of(rank).state.load(std::memory_order_acquire);
}

rank_view board::look(uint32_t rank) const noexcept {
  auto const &there = of(rank);
  return {.state = there.state.load(std::memory_order_acquire),
          .kind = there.kind.load(relaxed),
          .wants = there.wants.load(relaxed),
          .is_prepared = there.is_prepared.load(relaxed),
          .is_pinned = (there.gate.load(relaxed) & ~place::closed) != 0,
          .here = there.here.load(relaxed),
          .away = there.away.load(relaxed),
          .allocated = there.allocated.load(relaxed),
          .reserve = there.reserve.load(relaxed),
          .since_ns = there.since_ns.load(relaxed),
          .let_in_ns = there.let_in_ns.load(relaxed)};
}

int32_t board::process_of(uint32_t rank) const noexcept {
  return of(rank).process_id.load(relaxed);
}
int32_t board::number_of(uint32_t rank) const noexcept {
  return of(rank).number.load(relaxed);
}
void board::number_set(uint32_t rank, int32_t number) noexcept {
  of(rank).number.store(number, relaxed);
}
board_counters &board::counters() noexcept {
  return memory_->counters;
}
const board_counters &board::counters() const noexcept {
  return memory_->counters;
}

void board::sleep(uint32_t rank, uint64_t timeout_ns) noexcept {
  auto &there = of(rank);
  if (!there.has_news.exchange(false))
    there.alarm.sleep([&] { return there.has_news.load(); }, timeout_ns, {}, *alarm_);
}

void board::ring(uint32_t rank) noexcept {
  of(rank).has_news.store(true);
  of(rank).alarm.ring({}, *alarm_);
}

void board::ring_agent() noexcept {
  memory_->has_news.store(true);
  memory_->agent.ring({}, *alarm_);
}

}  // namespace tanada::comex::swap
