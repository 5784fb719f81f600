// The swap agent's loop: completed work is reported to the node table, new work is taken from it.
#include "onesided/swap/agent.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"
#include "seams/os/thread.hpp"

namespace tanada::onesided::swap {
namespace {

// Between polls of the node table, when nobody wakes the agent.
constexpr uint64_t poll_ns = 1'000'000;
constexpr uint64_t store_poll_ns = 100'000;   // while memory moves, which takes milliseconds
constexpr uint64_t request_poll_ns = 20'000;  // while an origin waits for pages
constexpr uint64_t tick_period_ns = 5'000'000;

}  // namespace

page_mover_options mover_options_for(uint64_t budget) noexcept {
  constexpr uint32_t chunk_pages_min = page_request::page_count_max;
  page_mover_options options;
  // A sixteenth of the budget.
  uint64_t const pages = budget / 16 / page_size;
  options.chunk_pages =
      uint32_t(std::clamp<uint64_t>(pages / options.depth, chunk_pages_min, options.chunk_pages));
  options.depth = uint32_t(std::clamp<uint64_t>(pages / options.chunk_pages, 6, options.depth));
  TND_ASSERT(options.chunk_pages >= chunk_pages_min);
  return options;
}

result<std::unique_ptr<agent>> agent::create(node_table &table,
                                             seams::store &store,
                                             std::vector<rank_memory> ranks,
                                             agent_options options) {
  TND_ASSERT(ranks.size() <= table.rank_count());
  std::unique_ptr<agent> created{new agent{table, std::move(options)}};
  auto const &settings = created->options_;
  // Enough operations for moves, and for extending objects.
  auto objects = swap_objects::create(store,
                                      settings.url,
                                      uint32_t(ranks.size()),
                                      2 * settings.mover.depth + page_mover::copy_depth,
                                      settings.timeout_ns);
  if (!objects.ok())
    return objects.error();
  created->objects_ = std::move(objects).value();
  std::vector<swappable_memory> memories;
  for (auto &rank : ranks)
    memories.push_back({rank.memory,
                        rank.stored,
                        created->objects_->file(uint32_t(memories.size())),
                        std::move(rank.window),
                        rank.cold,
                        rank.left_out});
  created->mover_ = std::make_unique<page_mover>(
      created->objects_->queue(), std::move(memories), settings.mover, table.copies());
  created->counted_ns_ = table.time().now_ns();
  return created;
}

agent::~agent() = default;

bool agent::step() {
  uint64_t const now_ns = table_.time().now_ns();
  if (options_.on_tick && now_ns - ticked_ns_ >= tick_period_ns) {
    ticked_ns_ = now_ns;
    options_.on_tick(table_);
  }
  if (table_.failure() != nullptr)
    return false;
  bool has_happened = mover_->poll(events_);
  has_happened |= report_events(events_);
  has_happened |= take_requests();
  has_happened |= begin_moves();
  has_happened |= trim_cache();
  update_counters(now_ns);
  if (mover_->failure().empty())
    return has_happened;
  table_.fail(
      ("swapping to TND_COMEX_SWAP=" + options_.url + " has failed: " + mover_->failure()).c_str());
  return false;
}

bool agent::begin_moves() {
  bool has_begun = false;
  while (auto const order = table_.next_move()) {
    mover_->begin(*order);
    has_begun = true;
  }
  return has_begun;
}

bool agent::take_requests() {
  bool has_taken = false;
  while (page_request *const request = table_.next_request()) {
    mover_->serve(*request);
    has_taken = true;
  }
  return has_taken;
}

// Ranks may need the cache's memory at any time. True: the next step may report a smaller cache.
bool agent::trim_cache() {
  uint64_t const cached = mover_->cached_size();
  if (cached == 0 && reported_cache_size_ == 0)
    return false;
  reported_cache_size_ = cached;
  uint64_t const allowed = table_.update_cache_size(cached);
  return cached > allowed && mover_->trim(allowed);
}

bool agent::report_events(page_mover_events &events) {
  bool const has_any = !events.moves.empty() || !events.served.empty() || !events.released.empty();
  for (auto *const request : events.served)
    table_.grant(*request);
  for (auto *const request : events.released)
    table_.recycle(*request);
  for (auto const &move : events.moves)
    table_.complete_move(move.order, move.result);
  events.served.clear();
  events.released.clear();
  events.moves.clear();
  return has_any;
}

void agent::update_counters(uint64_t now_ns) {
  auto &counters = table_.counters();
  if (mover_->has_moves())
    counters.move_ns.fetch_add(now_ns - counted_ns_, relaxed);
  counted_ns_ = now_ns;
  TND_ASSERT(mover_->served_size() >= served_ && mover_->copied_size() >= copied_);
  TND_ASSERT(mover_->written_back_size() >= written_back_);
  counters.bytes_served.fetch_add(mover_->served_size() - served_, relaxed);
  counters.bytes_copied.fetch_add(mover_->copied_size() - copied_, relaxed);
  counters.bytes_written_back.fetch_add(mover_->written_back_size() - written_back_, relaxed);
  counters.bytes_zero.fetch_add(mover_->zero_size() - zero_, relaxed);
  served_ = mover_->served_size();
  copied_ = mover_->copied_size();
  written_back_ = mover_->written_back_size();
  zero_ = mover_->zero_size();
}

uint64_t agent::idle_ns() const noexcept {
  if (mover_->is_idle())
    return poll_ns;
  return mover_->has_requests() ? request_poll_ns : store_poll_ns;
}

agent_thread::agent_thread(node_table &table,
                           std::unique_ptr<agent> worker,
                           std::function<void()> on_begin,
                           std::function<void()> on_end)
    : table_{table},
      agent_{std::move(worker)},
      on_begin_{std::move(on_begin)},
      on_end_{std::move(on_end)} {
  TND_ASSERT(agent_ != nullptr);
  seams::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    run();
  }};
}

agent_thread::~agent_thread() {
  is_stopping_.store(true);
  table_.wake_agent();
  thread_.join();
}

void agent_thread::run() {
  seams::thread_set_precise_sleep();
  seams::thread_set_short_slice();
  if (on_begin_)
    on_begin_();
  while (!is_stopping_.load()) {
    if (!agent_->step())
      table_.sleep_agent(agent_->idle_ns());
  }
  agent_.reset();
  if (on_end_)
    on_end_();
}

}  // namespace tanada::onesided::swap
