#include "products/gfile/host/engine.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/mutex.hpp"
#include "products/gfile/host/exit_flush.hpp"
#include "products/gfile/host/names.hpp"
#include "seams/os/thread.hpp"

namespace tanada::gfile {

namespace {

constexpr uint32_t queue_depth =
    16384;  // so deep that a store which does not answer fills none: others come after it
constexpr size_t taken_count_max = 64;  // operations a thread takes at a time
constexpr size_t helped_count_max = 8;  // when there are others to take some
constexpr size_t own_count_max =
    2;  // so few the dispatcher does itself: to hand them over takes as long
constexpr uint64_t own_size_max = 64u << 10;  // and bytes
constexpr uint64_t bytes_a_round =
    512u << 10;  // a thread posts between two looks at the ring or the backlog
constexpr uint64_t large_size = 32u
                                << 10;  // of an operation, for which a processor is worth waking
constexpr uint32_t small_awake_max =
    4;  // threads for smaller ones: more would wait for one another
constexpr uint32_t names_awake_max = 12;  // and where files are opened, which takes longer
constexpr uint64_t tick_ns = 200'000;
constexpr uint64_t spin_ns = 200'000;  // an idle thread looks on for so long before it sleeps
constexpr uint32_t rounds_a_yield = 8;
constexpr uint32_t lock_tries = 64;

// For locks that are held for a microsecond at most: who sleeps for one sleeps for longer than
// that.
unique_lock<tanada::mutex> lock_soon(tanada::mutex &mutex) {
  for (uint32_t i = 0; i < lock_tries; i++) {
    if (mutex.try_lock())
      return {mutex, std::adopt_lock};
    port::spin_pause();
  }
  return unique_lock{mutex};
}

// The same, but without sleep: the lock may not be had.
unique_lock<tanada::mutex> try_lock_soon(tanada::mutex &mutex) {
  for (uint32_t i = 0; i < lock_tries; i++) {
    if (mutex.try_lock())
      return {mutex, std::adopt_lock};
    port::spin_pause();
  }
  return {};
}

}  // namespace

engine::engine(core &core, rpc::server &server, port::store_registry &stores, port::clock &clock,
               const engine_options &options)
    : core_{core}, server_{server}, stores_{stores}, clock_{clock}, node_{options.node} {
  port::trace::name_requests(request_names);
  for (uint32_t i = 0; i < std::max(options.thread_count, 1u); i++)
    workers_.push_back(std::make_unique<worker>());
  for (uint32_t i = 0; i < options.thread_count; i++) {
    try {
      workers_[i]->thread = std::thread{[this, i] {
        run(i);
      }};
    } catch (const std::system_error &error) {
      stop();  // nobody else ends those that run
      throw std::system_error(error.code(), "service thread " + std::to_string(i + 1) + " of " +
                                                std::to_string(options.thread_count));
    }
  }
}

engine::~engine() {
  stop();
}

void engine::stop() {
  {
    lock_guard const lock{park_mutex_};
    stopping_.store(true, std::memory_order_release);
  }
  for (auto &each : workers_)
    each->wake.notify_one();
  for (auto &each : workers_)
    if (each->thread.joinable())
      each->thread.join();
}

void engine::run(uint32_t index) {
  port::thread_bind_to_node(node_);
  port::thread_sleeps_precisely();
  worker &mine = *workers_[index];
  mine.last_news_ns = clock_.now_ns();
  // A ring takes a millisecond to make: the first open of a file must not wait for it.
  if (auto files = stores_.find("/"); files.ok()) {
    status code = status::ok;
    (void)queue_of(mine, files.value(), code);
  }
  while (!stopping_.load(std::memory_order_acquire)) {
    if (!step(index) && !park(mine, index))
      rest(mine);
  }
}

bool engine::step(uint32_t index) {
  worker &mine = *workers_[index];
  port::trace::round traced;
  mine.now_ns = clock_.now_ns();
  bool const did = index == 0 ? dispatch(mine) : help(mine);
  if (did)
    mine.last_news_ns = mine.now_ns;
  if (did)
    traced.work();
  return did;
}

// ---- the dispatcher

bool engine::dispatch(worker &mine) {
  reap(mine);
  take_done(mine);
  uint32_t const first = server_.next_news(0);
  bool const news = first < rpc::share_count || !mine.done.empty() || core_.has_closes();
  if (news || mine.now_ns - last_tick_ns_ >= tick_ns) {
    last_tick_ns_ = mine.now_ns;
    auto const lock = lock_soon(mutex_);
    for (uint32_t share = first; share < rpc::share_count; share = server_.next_news(share + 1))
      server_.poll(share, core_);
    tell_done(mine);
  }
  share_work(mine, news);
  bool const is_left = !made_.empty();
  bool const posted = post_taken(mine);
  if (posted &&
      reap(mine)) {  // what a store had at hand is answered without another look at the ring
    auto const lock = lock_soon(mutex_);
    tell_done(mine);
  }
  return posted || news || is_left;
}

// Tell the core what the stores have done, and take what it wants of them now. Under the lock.
void engine::tell_done(worker &mine) {
  for (auto &each : mine.done) {
    port::store_completion &result = each->result;
    core_.on_completion(std::move(each), std::move(result));
  }
  mine.done.clear();
  core_.tick();
  trace_counters();
  core_.empty_outbox([this](std::unique_ptr<operation> made) {
    made_size_ += made->size();
    made_.push_back(std::move(made));
  });
}

void engine::trace_counters() {
  if (!port::trace::is_on())
    return;
  core_statistics const &now = core_.statistics();
  port::trace::counter("evictions", now.evictions, traced_.evictions);
  port::trace::counter("write-backs", now.store_writes, traced_.store_writes);
  port::trace::counter("write errors", now.write_errors, traced_.write_errors);
}

// Put what the core wants done before all threads, and take the dispatcher's part of it.
void engine::share_work(worker &mine, bool news) {
  if (made_.empty() && backlog_count_.load(std::memory_order_relaxed) == 0)
    return;
  uint32_t const awake = awake_.load(std::memory_order_relaxed);
  size_t const made_count = made_.size();
  bool const few = made_count <= own_count_max && made_size_ <= own_size_max;
  bool much = false, opens = false;
  {
    auto const lock = try_lock_soon(work_mutex_);
    if (!lock)
      return;
    for (auto &made : made_) {
      opens |= made->what == operation::kind::open;
      bool const load = made->what == operation::kind::load && workers_.size() > 1;
      much |= load;
      (load ? loads_ : backlog_).push_back(std::move(made));
    }
    bool const large = made_size_ > own_size_max && made_size_ >= made_count * large_size;
    uint32_t const small_max = opens ? names_awake_max : small_awake_max;
    much |= large ? backlog_.size() > awake
                  : awake < small_max && backlog_.size() > awake * helped_count_max;
    if (awake == 1)
      take_work(mine, taken_count_max);
    else if (few || (!news && backlog_.size() > awake))
      take_work(mine, own_count_max);
    count_work();
  }
  made_.clear();
  made_size_ = 0;
  if (much)
    wake_another();
}

void engine::take_done(worker &mine) {
  if (handed_back_count_.load(std::memory_order_relaxed) == 0)
    return;
  for (auto &helper : workers_) {
    if (helper->handed_back_count.load(std::memory_order_relaxed) == 0)
      continue;
    if (!helper->done_mutex.try_lock())
      continue;
    lock_guard const lock{helper->done_mutex, std::adopt_lock};
    handed_back_count_.fetch_sub(helper->handed_back.size(), std::memory_order_relaxed);
    for (auto &each : helper->handed_back)
      mine.done.push_back(std::move(each));
    helper->handed_back.clear();
    helper->handed_back_count.store(0, std::memory_order_relaxed);
  }
}

// ---- helpers

bool engine::help(worker &mine) {
  bool did = reap(mine);
  if (mine.taken.empty() && backlog_count_.load(std::memory_order_relaxed) > 0) {
    if (work_mutex_.try_lock()) {
      lock_guard const lock{work_mutex_, std::adopt_lock};
      if (!loads_.empty()) {
        mine.taken.push_back(std::move(loads_.front()));
        loads_.pop_front();
      } else {
        take_work(mine, helped_count_max);
      }
      count_work();
    }
  }
  did |= post_taken(mine);
  if (reap(mine)) {
    auto const lock = lock_soon(mine.done_mutex);
    handed_back_count_.fetch_add(mine.done.size(), std::memory_order_relaxed);
    for (auto &each : mine.done)
      mine.handed_back.push_back(std::move(each));
    mine.done.clear();
    mine.handed_back_count.store(mine.handed_back.size(), std::memory_order_relaxed);
  }
  return did;
}

// ---- both

// A round's part of the backlog; the rest is for the other threads. Under work_mutex_.
void engine::take_work(worker &mine, size_t count_max) {
  uint64_t size = 0;
  while (!backlog_.empty() && size < bytes_a_round && mine.taken.size() < count_max) {
    size += backlog_.front()->size();
    mine.taken.push_back(std::move(backlog_.front()));
    backlog_.pop_front();
  }
}

void engine::count_work() {
  backlog_count_.store(backlog_.size() + loads_.size(), std::memory_order_relaxed);
}

port::store_queue *engine::queue_of(worker &mine, port::store *where, status &code) {
  for (auto &[store, queue] : mine.queues)
    if (store == where)
      return queue.get();
  auto made = where->queue_create(queue_depth);
  if (!made.ok()) {
    code = made.error();
    return nullptr;
  }
  mine.queues.emplace_back(where, std::move(made).value());
  return mine.queues.back().second.get();
}

// What the core wants to know of a file that is open now: found by the thread that has opened it.
void engine::look_at(operation &opened) {
  if (opened.result.code == status::ok)
    opened.access = opened.where->access(opened.result.file);
}

// ok: `next` is at its store, or done where `done` says so. again: its queue is full. Otherwise the
// store refuses it.
status engine::post(worker &mine, operation &next, bool &done) {
  if (next.what == operation::kind::load) {
    done = true;
    auto const found = stores_.find(next.body.url);
    exit_flush::run_first();
    return found.ok() ? status::ok : found.error();
  }
  status code = status::ok;
  port::store_queue *const queue = queue_of(mine, next.where, code);
  if (queue == nullptr)
    return code;
  next.traced.posted(name_of(next.what), next.body.offset, port::trace::is_on() ? next.size() : 0);
  done = queue->try_perform(next.body, next.result);
  if (done) {
    if (next.what == operation::kind::open)
      look_at(next);
    next.traced.done(name_of(next.what), next.result.code, next.result.size);
    return status::ok;
  }
  code = queue->post(next.body);
  if (code != status::ok)
    next.traced.refused();
  return code;
}

// Hand over to the stores. What a full queue refuses stays; what a store refuses for good completes
// with that.
bool engine::post_taken(worker &mine) {
  bool posted = false;
  while (!mine.taken.empty()) {
    bool done = false;
    status const code = post(mine, *mine.taken.front(), done);
    if (code == status::again)
      return posted;
    std::unique_ptr<operation> taken = std::move(mine.taken.front());
    mine.taken.pop_front();
    posted = true;
    if (code != status::ok)
      taken->result.code = code;
    if (done || code != status::ok)
      mine.done.push_back(std::move(taken));
    else
      (void)taken.release();  // comes back by its op_id
  }
  return posted;
}

// True if there is something that the core has not heard of.
bool engine::reap(worker &mine) {
  for (auto &[where, queue] : mine.queues) {
    if (queue->pending_count() == 0)
      continue;
    port::store_completion results[64];
    for (size_t count = queue->poll(results); count > 0; count = queue->poll(results))
      for (size_t i = 0; i < count; i++) {
        operation &done = *mine.done.emplace_back(reinterpret_cast<operation *>(results[i].op_id));
        done.traced.done(name_of(done.what), results[i].code, results[i].size);
        done.result = std::move(results[i]);
        if (done.what == operation::kind::open)
          look_at(done);
      }
  }
  return !mine.done.empty();
}

// ---- waking and sleeping

void engine::wake_another() {
  uint32_t const count = awake_.load(std::memory_order_relaxed);
  if (count >= workers_.size())
    return;
  {
    lock_guard const lock{park_mutex_};
    if (awake_.load(std::memory_order_relaxed) != count)
      return;
    awake_.store(count + 1, std::memory_order_relaxed);
  }
  workers_[count]->wake.notify_one();
}

// A helper that has had nothing to do for a while and waits for no store sleeps until it is woken;
// the last of those awake goes first. False: it is not its turn.
bool engine::park(worker &mine, uint32_t index) {
  bool const pending = !mine.taken.empty() ||
                       std::any_of(mine.queues.begin(), mine.queues.end(),
                                   [](auto &each) { return each.second->pending_count() != 0; });
  if (index == 0 || pending)
    return false;
  if (index < awake_.load(std::memory_order_relaxed) && mine.now_ns - mine.last_news_ns < spin_ns)
    return false;
  unique_lock lock{park_mutex_};
  uint32_t const awake = awake_.load(std::memory_order_relaxed);
  if (awake == index + 1)
    awake_.store(index, std::memory_order_relaxed);
  else if (awake > index)
    return false;
  mine.wake.wait(lock, [&] {
    return index < awake_.load(std::memory_order_relaxed) ||
           stopping_.load(std::memory_order_acquire);
  });
  mine.last_news_ns = clock_.now_ns();
  return true;
}

// Nothing to do: spin for a moment, for the next request of a kernel is often near, then leave the
// processor. Each sleep costs some 5 us of it: short ones are for an instance that was in use a
// second ago. A yield takes longer than a look at the whole ring: on a machine with a processor for
// each thread it would be half of what a request waits. On a busy machine it takes longer than a
// sleep.
void engine::rest(worker &mine) {
  uint64_t const idle_ns = mine.now_ns - mine.last_news_ns;
  if (idle_ns < spin_ns) {
    if (++mine.empty_rounds % rounds_a_yield != 0)
      return port::spin_pause();
    if (mine.yielder.yield())
      return;
  }
  if (idle_ns < 10'000'000)
    clock_.sleep_ns(20'000);
  else
    clock_.sleep_ns(idle_ns < 1'000'000'000 ? 100'000 : 1'000'000);
}

void engine::finish_closes(uint64_t limit_ns, bool gives_up) {
  uint64_t const deadline_ns = port::deadline_after(clock_.now_ns(), limit_ns);
  for (;;) {
    bool const is_late = clock_.now_ns() >= deadline_ns;
    bool const is_done = with_core([&](core &held) {
      given_up_count_ = std::min(given_up_count_, held.closing_count());
      if (is_late && gives_up)
        given_up_count_ = held.closing_count();
      return !held.has_closes() && held.closing_count() <= given_up_count_;
    });
    if (is_done || is_late)
      return;
    if (workers_[0]->thread.joinable())
      clock_.sleep_ns(20'000);
    else if (!step(0))
      clock_.sleep_ns(10'000);
  }
}

status engine::shut_down(uint64_t deadline_ns) {
  for (;;) {
    bool const done = with_core([](core &held) {
      held.start_shutdown();
      return held.idle();
    });
    if (done)
      return status::ok;
    if (clock_.now_ns() >= deadline_ns)
      return status::timed_out;
    if (workers_[0]->thread.joinable())
      clock_.sleep_ns(200'000);
    else if (!step(0))
      clock_.sleep_ns(10'000);
  }
}

}  // namespace tanada::gfile
