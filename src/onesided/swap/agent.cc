#include "onesided/swap/agent.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"
#include "seams/os/thread.hpp"

namespace tanada::comex::swap {
namespace {

constexpr uint64_t look_ns = 1'000'000;       // at the board, when nobody rings
constexpr uint64_t store_look_ns = 100'000;   // while memory moves, milliseconds at a time
constexpr uint64_t request_look_ns = 20'000;  // while somebody waits for pages
constexpr uint64_t beside_period_ns = 5'000'000;

}  // namespace

mover_options moving_within(uint64_t budget) noexcept {
  constexpr uint32_t smallest = request::page_count_max;
  mover_options made;
  // A sixteenth.
  uint64_t const pages = budget / 16 / page_size;
  made.chunk_pages = uint32_t(std::clamp<uint64_t>(pages / made.depth, smallest, made.chunk_pages));
  made.depth = uint32_t(std::clamp<uint64_t>(pages / made.chunk_pages, 6, made.depth));
  return made;
}

result<std::unique_ptr<agent>> agent::create(board &shared, port::store &from,
                                             std::vector<moved_memory> ranks,
                                             agent_options chosen) {
  std::unique_ptr<agent> made{new agent{shared, std::move(chosen)}};
  auto const &with = made->options_;
  // Room for moves, and for objects that grow.
  auto objects = swap_objects::create(from, with.url, uint32_t(ranks.size()),
                                      2 * with.moving.depth + mover::copy_depth, with.timeout_ns);
  if (!objects.ok())
    return objects.error();
  made->objects_ = std::move(objects).value();
  std::vector<swappable> all;
  for (auto &each : ranks)
    all.push_back({each.memory, each.stored, made->objects_->file(uint32_t(all.size())),
                   std::move(each.window)});
  made->mover_ = std::make_unique<mover>(made->objects_->queue(), std::move(all), with.moving,
                                         shared.copies());
  made->counted_ns_ = shared.time().now_ns();
  return made;
}

agent::~agent() = default;

bool agent::step() {
  uint64_t const now_ns = shared_.time().now_ns();
  if (options_.beside && now_ns - beside_ns_ >= beside_period_ns) {
    beside_ns_ = now_ns;
    options_.beside(shared_);
  }
  if (shared_.failure() != nullptr)
    return false;
  bool has_happened = mover_->poll(news_);
  has_happened |= tell(news_);
  has_happened |= take_requests();
  has_happened |= begin_moves();
  has_happened |= trim_cache();
  count(now_ns);
  if (mover_->failure().empty())
    return has_happened;
  shared_.fail(
      ("swapping to TND_COMEX_SWAP=" + options_.url + " has failed: " + mover_->failure()).c_str());
  return false;
}

bool agent::begin_moves() {
  bool has_begun = false;
  while (auto const next = shared_.next_order()) {
    mover_->begin(*next);
    has_begun = true;
  }
  return has_begun;
}

bool agent::take_requests() {
  bool has_taken = false;
  while (request *const next = shared_.next_request()) {
    mover_->serve(*next);
    has_taken = true;
  }
  return has_taken;
}

// Others may need its room at any time. True: the next step may report a smaller cache.
bool agent::trim_cache() {
  uint64_t const cached = mover_->cached_size();
  if (cached == 0 && told_cached_ == 0)
    return false;
  told_cached_ = cached;
  uint64_t const allowed = shared_.cached(cached);
  return cached > allowed && mover_->trim(allowed);
}

bool agent::tell(mover_news &news) {
  bool const has_any = !news.moves.empty() || !news.served.empty() || !news.released.empty();
  for (auto *const each : news.served)
    shared_.grant(*each);
  for (auto *const each : news.released)
    shared_.recycle(*each);
  for (auto const &each : news.moves)
    shared_.moved(each.which, each.result);
  news.served.clear();
  news.released.clear();
  news.moves.clear();
  return has_any;
}

void agent::count(uint64_t now_ns) {
  auto &all = shared_.counters();
  if (mover_->has_moves())
    all.move_ns.fetch_add(now_ns - counted_ns_, relaxed);
  counted_ns_ = now_ns;
  all.bytes_served.fetch_add(mover_->served_size() - served_, relaxed);
  all.bytes_copied.fetch_add(mover_->copied_size() - copied_, relaxed);
  all.bytes_written_back.fetch_add(mover_->written_back_size() - written_back_, relaxed);
  served_ = mover_->served_size();
  copied_ = mover_->copied_size();
  written_back_ = mover_->written_back_size();
}

uint64_t agent::idle_ns() const noexcept {
  if (mover_->is_idle())
    return look_ns;
  return mover_->has_requests() ? request_look_ns : store_look_ns;
}

agent_thread::agent_thread(board &shared, std::unique_ptr<agent> of, std::function<void()> begin,
                           std::function<void()> end)
    : shared_{shared}, agent_{std::move(of)}, begin_{std::move(begin)}, end_{std::move(end)} {
  port::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    run();
  }};
}

agent_thread::~agent_thread() {
  is_over_.store(true);
  shared_.ring_agent();
  thread_.join();
}

void agent_thread::run() {
  port::thread_sleeps_precisely();
  port::thread_runs_briefly();
  if (begin_)
    begin_();
  while (!is_over_.load()) {
    if (!agent_->step())
      shared_.agent_sleep(agent_->idle_ns());
  }
  agent_.reset();
  if (end_)
    end_();
}

}  // namespace tanada::comex::swap
