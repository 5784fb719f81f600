#include "gfile/host/engine.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace tanada::gfile {

namespace {

constexpr uint32_t queue_depth = 16384;     // so deep that a store which does not answer fills none: others come after it
constexpr uint32_t taken_count_max = 256;   // operations a thread takes at a time
constexpr uint64_t tick_ns = 200'000;
constexpr uint64_t spin_ns = 200'000;       // an idle thread looks on for so long before it sleeps
constexpr uint64_t bytes_a_round = 2u << 20;  // a thread posts between two looks at the ring

// Takes the engine's lock at the first news of a poll.
struct locked_handler final : rpc::server::handler {
  core &to;
  std::unique_lock<std::mutex> lock;
  locked_handler(core &core, std::mutex &mutex) : to{core}, lock{mutex, std::defer_lock} {}
  void take() {
    if (!lock.owns_lock()) lock.lock();
  }
  void on_request(u32 slot, const rpc::request &asked, std::string_view text) override {
    take();
    to.on_request(slot, asked, text);
  }
  void on_finished(u32 slot, bool canceled) override {
    take();
    to.on_finished(slot, canceled);
  }
};

}  // namespace

engine::engine(core &core, rpc::server &server, port::clock &clock, uint32_t thread_count)
    : core_{core}, server_{server}, clock_{clock} {
  uint32_t const count = std::max(thread_count, 1u);
  for (uint32_t i = 0; i < count; i++) {
    auto made = std::make_unique<worker>();
    constexpr uint32_t share = rpc::server::slots_a_share;
    made->first_slot = rpc::slot_count / share * i / count * share;
    made->slots = rpc::slot_count / share * (i + 1) / count * share - made->first_slot;
    workers_.push_back(std::move(made));
  }
  for (uint32_t i = 0; i < thread_count; i++) workers_[i]->thread = std::thread{[this, i] { run(i); }};
}

engine::~engine() { stop(); }

void engine::stop() {
  stopping_.store(true, std::memory_order_release);
  for (auto &each : workers_)
    if (each->thread.joinable()) each->thread.join();
}

void engine::run(uint32_t index) {
  worker &mine = *workers_[index];
  while (!stopping_.load(std::memory_order_acquire)) {
    if (step(index)) mine.last_news_ns = clock_.now_ns();
    else rest(mine);
  }
}

bool engine::step(uint32_t index) {
  worker &mine = *workers_[index];
  bool news = reap(mine);
  {
    locked_handler to{core_, mutex_};
    news |= server_.poll(mine.first_slot, mine.slots, to) > 0;
    uint64_t const now = clock_.now_ns();
    bool const tick = news || now - mine.last_tick_ns >= tick_ns;
    if (tick || has_backlog_.load(std::memory_order_relaxed)) to.take();
    if (tick) {
      mine.last_tick_ns = now;
      complete(mine);
    }
    if (to.lock.owns_lock()) take_work(mine);
  }
  bool const posted = post_taken(mine);
  if (posted && reap(mine)) {  // what a store had at hand is answered without another look at the ring
    std::lock_guard const lock{mutex_};
    complete(mine);
    take_work(mine);
  }
  return posted || news;
}

// Tell the core what the stores have done, under the lock.
void engine::complete(worker &mine) {
  for (auto &[done, result] : mine.reaped) core_.on_completion(std::move(done), std::move(result));
  mine.reaped.clear();
  core_.tick();
  for (auto &made : core_.take_outbox()) backlog_.push_back(std::move(made));
}

// A round's share of the backlog; the rest is for the other threads.
void engine::take_work(worker &mine) {
  uint64_t size = 0;
  while (!backlog_.empty() && size < bytes_a_round && mine.taken.size() < taken_count_max) {
    for (auto const &buffer : backlog_.front()->body.buffers) size += buffer.size;
    mine.taken.push_back(std::move(backlog_.front()));
    backlog_.pop_front();
  }
  has_backlog_.store(!backlog_.empty(), std::memory_order_relaxed);
}

// Hand over to the stores. What a full queue refuses stays; what a store refuses for good completes with that.
bool engine::post_taken(worker &mine) {
  bool posted = false;
  while (!mine.taken.empty()) {
    operation &next = *mine.taken.front();
    auto &queue = mine.queues[next.where];
    status code = status::ok;
    if (queue == nullptr) {
      auto made = next.where->queue_create(queue_depth);
      if (made.ok()) queue = std::move(made).value();
      else code = made.error();
    }
    if (queue != nullptr) code = queue->post(next.body);
    if (code == status::again) return posted;
    std::unique_ptr<operation> taken = std::move(mine.taken.front());
    mine.taken.pop_front();
    posted = true;
    if (code == status::ok) {
      (void)taken.release();  // comes back by its op_id
    } else {
      port::store_completion refused;
      refused.code = code;
      mine.reaped.emplace_back(std::move(taken), std::move(refused));
    }
  }
  return posted;
}

bool engine::reap(worker &mine) {
  port::store_completion results[64];
  for (auto &[where, queue] : mine.queues) {
    if (queue == nullptr) continue;
    for (size_t count; (count = queue->poll(results)) > 0;)
      for (size_t i = 0; i < count; i++) {
        std::unique_ptr<operation> done{reinterpret_cast<operation *>(results[i].op_id)};
        mine.reaped.emplace_back(std::move(done), std::move(results[i]));
      }
  }
  return !mine.reaped.empty();
}

// Nothing to do: spin for a moment, for the next request of a kernel is often near, then leave the processor, longer
// and longer.
void engine::rest(worker &mine) {
  uint64_t const idle_ns = clock_.now_ns() - mine.last_news_ns;
  if (idle_ns < spin_ns) simt::pause();
  else if (idle_ns < 4'000'000) clock_.sleep_ns(10'000);
  else clock_.sleep_ns(std::min<uint64_t>(idle_ns / 20, 1'000'000));
}

status engine::shut_down(uint64_t deadline_ns) {
  for (;;) {
    bool const done = with_core([](core &held) {
      held.start_shutdown();
      return held.idle();
    });
    if (done) return status::ok;
    if (clock_.now_ns() >= deadline_ns) return status::timed_out;
    if (workers_[0]->thread.joinable()) clock_.sleep_ns(200'000);
    else if (!step(0)) clock_.sleep_ns(10'000);
  }
}

}  // namespace tanada::gfile
