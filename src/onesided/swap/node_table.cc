// The ranks' calls of the node table: events, the decisions after each of them, and access to other
// ranks' memory.
#include "onesided/swap/node_table.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "onesided/swap/node_table_layout.hpp"

namespace tanada::onesided::swap {

using enum rank_state;

namespace {

status check_options(const node_table_options &options, size_t size) {
  if (options.rank_count == 0 || options.rank_count > node_view::rank_count_max) {
    return tanada::fail(status::invalid,
                        "{} processes of a node: swapping supports 1 to {}",
                        options.rank_count,
                        node_view::rank_count_max);
  }
  size_t const needed_size =
      node_table::memory_size(options.rank_count, options.has_remote_origins, options.copies_size);
  if (size >= needed_size && options.slots != 0 && options.moves_max != 0)
    return status::ok;
  return tanada::fail(status::invalid,
                      "invalid node table: {} bytes, {} slots, {} moves",
                      size,
                      options.slots,
                      options.moves_max);
}

// Processes share the lock. If one dies while it holds the lock, the next owner can still take the
// lock, and fails the table (see guard).
status init_shared_lock(pthread_mutex_t &lock) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  int const code = pthread_mutex_init(&lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (code == 0)
    return status::ok;
  return tanada::fail(
      status::not_supported, "processes cannot share a lock: {}", std::strerror(code));
}

}  // namespace

node_table::guard::guard(node_table &table) noexcept : lock_{&table.layout_->lock} {
  int const code = pthread_mutex_lock(lock_);
  if (code == 0)
    return;
  if (code == EOWNERDEAD)
    pthread_mutex_consistent(lock_);
  else
    lock_ = nullptr;
  table.fail("swapping: a process died while it held the lock of the node table");
}

node_table::guard::~guard() {
  if (lock_ != nullptr)
    pthread_mutex_unlock(lock_);
}

size_t node_table::memory_size(uint32_t rank_count,
                               bool has_remote_origins,
                               uint64_t copies_size) noexcept {
  size_t const size = layout::align(layout::views_offset(rank_count, has_remote_origins) +
                                    rank_count * sizeof(rank_view));
  return copies_size == 0 ? size : size + layout::large_page + copies_size;
}

status node_table::create(std::span<std::byte> bytes, const node_table_options &options) {
  TND_TRY(check_options(options, bytes.size()));
  auto *const table = reinterpret_cast<layout *>(bytes.data());
  table->options = options;
  table->reserved.store(options.reserved, relaxed);
  size_t const end = memory_size(options.rank_count, options.has_remote_origins),
               remainder = (reinterpret_cast<uintptr_t>(table) + end) % layout::large_page;
  table->copies_offset = end + (remainder == 0 ? 0 : layout::large_page - remainder);
  TND_ASSERT(table->copies_offset >= end);
  TND_TRY(init_shared_lock(table->lock));
  node_table const view{bytes};
  for (uint32_t i = 0; i < options.rank_count; i++) {
    view.entry_for(i).state.store(inactive, relaxed);
    view.entry_for(i).job_rank.store(int32_t(i), relaxed);
  }
  return status::ok;
}

node_table::node_table(std::span<std::byte> bytes, seams::clock &time, seams::alarm &alarm) noexcept
    : layout_{reinterpret_cast<layout *>(bytes.data())}, time_{&time}, alarm_{&alarm} {
  TND_ASSERT(reinterpret_cast<uintptr_t>(layout_) % alignof(layout) == 0);
}

const node_table_options &node_table::options() const noexcept {
  return layout_->options;
}
uint64_t node_table::reserved() const noexcept {
  return layout_->reserved.load(relaxed);
}
void node_table::set_reserved(uint64_t bytes) noexcept {
  layout_->reserved.store(bytes, relaxed);
}

uint64_t node_table::budget_for_ranks() const noexcept {
  uint64_t const budget = layout_->options.budget;
  return budget - std::min(budget, reserved());
}

node_table::rank_entry &node_table::entry_for(uint32_t rank) const noexcept {
  TND_ASSERT(rank < layout_->options.rank_count);
  return layout_->object_at<rank_entry>(layout::entries_offset())[rank];
}

void node_table::set_state(uint32_t rank, rank_state next) noexcept {
  auto &entry = entry_for(rank);
  rank_state const current = entry.state.load(relaxed);
  TND_ASSERT(may_follow(current, next));
  entry.state.store(next, std::memory_order_release);
  layout_->events[layout_->events_written++ % layout::event_capacity] = {
      time_->now_ns(), rank, current, next};
  wake(rank);
}

void node_table::grant_reservation(uint32_t rank) noexcept {
  auto &entry = entry_for(rank);
  entry.allocated.store(entry.allocated.load(relaxed) + entry.reserve.exchange(0, relaxed),
                        relaxed);
}

void node_table::warn_beyond_budget() noexcept {
  layout_->counters.beyond_budget.fetch_add(1, relaxed);
  if (std::exchange(layout_->has_warned, true))
    return;
  log(log_level::warning,
      "swapping: processes that must not leave memory fill the {} bytes of TND_COMEX_MEMORY; "
      "admitting another one beyond the budget",
      layout_->options.budget);
}

// Much longer than swapping one rank out and another in takes, so that turns cost at most a tenth
// of the time. It is not longer than that, because ranks wait for their turn.
uint64_t node_table::residency_slice_ns() const noexcept {
  constexpr uint64_t slice_ns_min = 250'000'000, moves_of_slice = 20;
  auto const &counters = layout_->counters;
  uint64_t const slice_ns_max = layout_->options.residency_slice_ns;
  uint64_t const moves =
      std::max<uint64_t>(counters.swaps_out.load(relaxed) + counters.swaps_in.load(relaxed), 1);
  return std::clamp(counters.move_ns.load(relaxed) / moves * moves_of_slice,
                    std::min(slice_ns_min, slice_ns_max),
                    slice_ns_max);
}

node_view node_table::make_view() noexcept {
  auto const &options = layout_->options;
  auto *const views = layout_->views();
  for (uint32_t i = 0; i < options.rank_count; i++)
    views[i] = snapshot(i);
  return {.ranks = {views, options.rank_count},
          .budget = budget_for_ranks(),
          .cached_size = layout_->cached_size - std::min(layout_->cached_size, options.cache_size),
          .slots = options.slots,
          .moves_max = options.moves_max,
          .now_ns = time_->now_ns(),
          .swap_out_delay_ns = options.swap_out_delay_ns,
          .slice_ns = options.slice_ns,
          .unresponsive_ns = 3 * options.slice_ns,
          .residency_slice_ns = residency_slice_ns(),
          .stall_timeout_ns = options.stall_timeout_ns};
}

// Carrying out a decision may lead to further decisions. The number of rounds is bounded, because
// each round advances a rank.
void node_table::apply_decisions(caller requester) noexcept {
  if (layout_->failure_state.load(relaxed) != 0)
    return;  // the contents cannot be relied on
  for (uint32_t round = 0; round < 16 * layout_->options.rank_count + 64; round++) {
    if (!apply_once(requester))
      return;
  }
  fail("swapping: the scheduler's decisions do not end, which is a bug");
}

bool node_table::apply_once(caller requester) noexcept {
  decision const plan = decide(make_view());
  layout_->cache_surplus = plan.cache_surplus;
  for (uint32_t const i : plan.yield)
    entry_for(i).is_yield_requested.store(true, relaxed);
  // The agent learns of a surplus from the result of update_cache_size() in every round. A wake-up
  // for it would keep the agent awake for as long as pages in use cannot leave the cache.
  bool const is_new_surplus = plan.cache_surplus > 0 && requester != caller::agent;
  if (is_new_surplus || plan.move_out.count + plan.move_in.count > 0)
    wake_agent();
  if (plan.is_empty())
    return false;
  if (plan.is_beyond_budget)
    warn_beyond_budget();
  apply_states(plan);
  return true;
}

void node_table::apply_states(const decision &plan) noexcept {
  for (uint32_t const i : plan.admit) {
    grant_reservation(i);
    entry_for(i).wants_to_run.store(false, relaxed);
    set_state(i, ready);
  }
  for (uint32_t const i : plan.run) {
    entry_for(i).since_ns.store(time_->now_ns(), relaxed);
    entry_for(i).is_yield_requested.store(false, relaxed);
    set_state(i, running);
  }
  for (uint32_t const i : plan.prepare) {
    entry_for(i).is_prepared.store(false, relaxed);
    set_state(i, swap_out_wait);
  }
  for (uint32_t const i : plan.move_out) {
    entry_for(i).gate.fetch_or(rank_entry::closed);
    entry_for(i).is_move_taken.store(false, relaxed);
    set_state(i, swap_out);
  }
  for (uint32_t const i : plan.move_in) {
    grant_reservation(i);
    entry_for(i).is_move_taken.store(false, relaxed);
    entry_for(i).is_swapped_in.store(false, relaxed);
    set_state(i, swap_in);
  }
}

void node_table::start(uint32_t rank, int32_t process_id) {
  guard const locked{*this};
  auto &entry = entry_for(rank);
  entry.process_id.store(process_id, relaxed);
  entry.since_ns.store(time_->now_ns(), relaxed);
  entry.admitted_ns.store(time_->now_ns(), relaxed);
  set_state(rank, ready);
  apply_decisions();
}

void node_table::finish(uint32_t rank) {
  guard const locked{*this};
  auto &entry = entry_for(rank);
  for (auto *field : {&entry.resident_size, &entry.swapped_size, &entry.allocated, &entry.reserve})
    field->store(0, relaxed);
  set_state(rank, inactive);
  apply_decisions();
}

void node_table::begin_wait(uint32_t rank, wait_kind kind) {
  guard const locked{*this};
  auto &entry = entry_for(rank);
  entry.kind.store(kind, relaxed);
  entry.wants_to_run.store(false, relaxed);
  entry.is_yield_requested.store(false, relaxed);
  entry.since_ns.store(time_->now_ns(), relaxed);
  set_state(rank, wait);
  apply_decisions();
}

bool node_table::try_resume(uint32_t rank) {
  auto &entry = entry_for(rank);
  rank_state const current = entry.state.load(std::memory_order_acquire);
  if (current == running)
    return true;
  if (current == ready || current == swap_in_wait || current == swap_in ||
      entry.wants_to_run.load(relaxed))
    return false;  // already recorded
  guard const locked{*this};
  entry.wants_to_run.store(true, relaxed);
  entry.since_ns.store(time_->now_ns(), relaxed);
  if (entry.state.load(relaxed) == swapped)
    set_state(rank, swap_in_wait);
  apply_decisions();
  return entry.state.load(relaxed) == running;
}

bool node_table::should_prepare(uint32_t rank) const noexcept {
  auto const &entry = entry_for(rank);
  return entry.state.load(std::memory_order_acquire) == swap_out_wait &&
         !entry.is_prepared.load(relaxed);
}

void node_table::set_prepared(uint32_t rank) {
  guard const locked{*this};
  if (entry_for(rank).state.load(relaxed) != swap_out_wait)
    return;  // its wait ended meanwhile
  entry_for(rank).is_prepared.store(true, relaxed);
  apply_decisions();
}

bool node_table::is_swapped_in(uint32_t rank) const noexcept {
  auto const &entry = entry_for(rank);
  return entry.state.load(std::memory_order_acquire) == swap_in &&
         entry.is_swapped_in.load(std::memory_order_acquire);
}

void node_table::complete_swap_in(uint32_t rank) {
  guard const locked{*this};
  auto &entry = entry_for(rank);
  TND_ASSERT(is_swapped_in(rank));
  TND_ASSERT((entry.gate.load(relaxed) & rank_entry::closed) != 0);
  entry.gate.fetch_and(~rank_entry::closed);
  entry.wants_to_run.store(false, relaxed);
  entry.admitted_ns.store(time_->now_ns(), relaxed);
  set_state(rank, ready);
  apply_decisions();
}

void node_table::set_resident_size(uint32_t rank, uint64_t size) {
  entry_for(rank).resident_size.store(size, relaxed);
}

node_table::reservation node_table::try_reserve(uint32_t rank, uint64_t bytes) {
  guard const locked{*this};
  auto &entry = entry_for(rank);
  uint64_t const budget = budget_for_ranks(), allocated = entry.allocated.load(relaxed);
  if (bytes > budget || allocated > budget - bytes)
    return reservation::too_large;
  entry.reserve.store(bytes, relaxed);
  auto const node = make_view();
  uint64_t used = node.cached_size;
  for (auto const &view : node.ranks)
    used += charge_of(view, budget);
  auto enlarged = node.ranks[rank];
  uint64_t const old_charge = charge_of(enlarged, budget);
  enlarged.allocated += bytes;
  uint64_t const extra = charge_of(enlarged, budget) - old_charge;
  if (extra > 0 && used + extra > budget)
    return reservation::wait;
  grant_reservation(rank);
  return reservation::granted;
}

void node_table::release(uint32_t rank, uint64_t bytes) {
  guard const locked{*this};
  auto &allocated = entry_for(rank).allocated;
  allocated.store(allocated.load(relaxed) - std::min(allocated.load(relaxed), bytes), relaxed);
  apply_decisions();
}

bool node_table::is_yield_requested(uint32_t rank) const noexcept {
  return entry_for(rank).is_yield_requested.load(relaxed);
}

void node_table::fail(const char *text) noexcept {
  uint32_t expected = 0;
  if (!layout_->failure_state.compare_exchange_strong(expected, 1))
    return;
  std::strncpy(layout_->failure, text, layout::failure_size - 1);
  layout_->failure_state.store(2, std::memory_order_release);
  for (uint32_t i = 0; i < rank_count(); i++)
    wake(i);
  wake_agent();
}

status node_table::report_failure() noexcept {
  constexpr uint64_t grace_ns = 3'000'000'000;
  if (layout_->is_failure_reported.exchange(true))
    time_->sleep_ns(grace_ns);
  set_last_message(failure());
  return status::peer_lost;
}

const char *node_table::failure() const noexcept {
  return layout_->failure_state.load(std::memory_order_acquire) == 2 ? layout_->failure : nullptr;
}

bool node_table::pin(uint32_t target) noexcept {
  auto &gate = entry_for(target).gate;
  if ((gate.fetch_add(1, std::memory_order_acquire) & rank_entry::closed) == 0) [[likely]]
    return true;
  gate.fetch_sub(1, relaxed);
  return false;
}

void node_table::unpin(uint32_t target) noexcept {
  uint32_t const gate = entry_for(target).gate.fetch_sub(1, std::memory_order_release);
  TND_ASSERT((gate & ~rank_entry::closed) != 0);
  if (gate == (rank_entry::closed | 1)) [[unlikely]]
    wake_agent();
}

bool node_table::has_left_out(uint32_t target) const noexcept {
  return entry_for(target).has_left_out.load(relaxed);
}

page_request *node_table::requests_from(uint32_t origin) const noexcept {
  TND_ASSERT(origin < origin_count());
  return layout_->object_at<page_request>(layout::requests_offset(layout_->options.rank_count)) +
         size_t{origin} * requests_per_origin;
}

std::span<std::byte> node_table::copies() const noexcept {
  return {layout_->object_at<std::byte>(layout_->copies_offset),
          options().copies_size / copy_size * copy_size};
}

const std::byte *node_table::copy_address(const page_request &request,
                                          uint64_t offset) const noexcept {
  if (request.copy == page_request::no_copy)
    return nullptr;
  uint64_t copy_offset = uint64_t{request.copy} * copy_size;
  for (auto const &run : request.pages()) {
    if (offset >= run.offset() && offset < run.offset() + run.size())
      return copies().subspan(copy_offset + (offset - run.offset())).data();
    copy_offset += run.size();
  }
  return nullptr;
}

page_request *node_table::post(uint32_t origin,
                               uint32_t target,
                               std::span<const page_run> pages,
                               bool is_reading) noexcept {
  TND_ASSERT(!pages.empty() && pages.size() <= page_request::run_count_max);
  TND_ASSERT(target < rank_count());
  auto *const requests = requests_from(origin);
  // Another thread of the process may post a request for a page that it has touched.
  auto *const slot =
      std::find_if(requests, requests + requests_per_origin, [](page_request &request) {
        auto expected = page_request::stage::unused;
        return request.current_stage.compare_exchange_strong(expected,
                                                             page_request::stage::claimed);
      });
  if (slot == requests + requests_per_origin)
    return nullptr;
  slot->origin = origin;
  slot->target = target;
  slot->is_reading = is_reading ? 1 : 0;
  slot->is_agent_granted = 0;
  slot->copy = page_request::no_copy;
  slot->run_count = uint32_t(pages.size());
  slot->page_count = 0;
  for (size_t i = 0; i < pages.size(); i++) {
    slot->runs[i] = pages[i];
    slot->page_count += pages[i].count;
  }
  TND_ASSERT(slot->page_count <= page_request::page_count_max);
  layout_->counters.requests.fetch_add(1, relaxed);
  slot->current_stage.store(page_request::stage::posted, std::memory_order_release);
  layout_->posted_count.fetch_add(1);
  wake_agent();
  return slot;
}

void node_table::complete_request(page_request &request) noexcept {
  TND_ASSERT(is_granted(request));
  uint32_t const target = request.target;
  bool const is_agent_granted = request.is_agent_granted != 0,
             is_copy = request.copy != page_request::no_copy;
  request.current_stage.store(
      is_agent_granted ? page_request::stage::completed : page_request::stage::unused,
      std::memory_order_release);
  if (!is_copy)
    unpin(target);
  if (is_agent_granted)
    wake_agent();
}

rank_state node_table::state(uint32_t rank) const noexcept {
  return entry_for(rank).state.load(std::memory_order_acquire);
}

rank_view node_table::snapshot(uint32_t rank) const noexcept {
  auto const &entry = entry_for(rank);
  return {.state = entry.state.load(std::memory_order_acquire),
          .kind = entry.kind.load(relaxed),
          .wants_to_run = entry.wants_to_run.load(relaxed),
          .is_prepared = entry.is_prepared.load(relaxed),
          .is_pinned = (entry.gate.load(relaxed) & ~rank_entry::closed) != 0,
          .resident_size = entry.resident_size.load(relaxed),
          .swapped_size = entry.swapped_size.load(relaxed),
          .allocated = entry.allocated.load(relaxed),
          .reserve = entry.reserve.load(relaxed),
          .since_ns = entry.since_ns.load(relaxed),
          .admitted_ns = entry.admitted_ns.load(relaxed)};
}

int32_t node_table::process_id_of(uint32_t rank) const noexcept {
  return entry_for(rank).process_id.load(relaxed);
}
int32_t node_table::job_rank_of(uint32_t rank) const noexcept {
  return entry_for(rank).job_rank.load(relaxed);
}
void node_table::set_job_rank(uint32_t rank, int32_t job_rank) noexcept {
  entry_for(rank).job_rank.store(job_rank, relaxed);
}
node_counters &node_table::counters() noexcept {
  return layout_->counters;
}
const node_counters &node_table::counters() const noexcept {
  return layout_->counters;
}

void node_table::sleep(uint32_t rank, uint64_t timeout_ns) noexcept {
  auto &entry = entry_for(rank);
  if (!entry.was_woken.exchange(false))
    entry.alarm.sleep([&] { return entry.was_woken.load(); }, timeout_ns, {}, *alarm_);
}

void node_table::wake(uint32_t rank) noexcept {
  entry_for(rank).was_woken.store(true);
  entry_for(rank).alarm.wake({}, *alarm_);
}

void node_table::wake_agent() noexcept {
  layout_->was_agent_woken.store(true);
  layout_->agent_alarm.wake({}, *alarm_);
}

}  // namespace tanada::onesided::swap
