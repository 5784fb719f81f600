// products/gfile/host/engine.cc: the service threads: dispatcher, helpers, parking.
#include "products/gfile/host/engine.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "products/gfile/host/exit_flush.hpp"
#include "products/gfile/host/names.hpp"
#include "seams/os/thread.hpp"

namespace tanada::gfile {

namespace {

constexpr uint32_t queue_depth =
    16384;  // so deep that a hung store does not fill it: operations on other files follow
constexpr size_t assigned_count_max = 64;  // operations that a thread takes at a time
constexpr size_t shared_count_max = 8;     // the same, when other threads share the work
constexpr size_t own_count_max =
    2;  // the dispatcher posts so few itself: passing them to a helper takes as long
constexpr uint64_t own_size_max = 64u << 10;  // and bytes
constexpr uint64_t round_size_max =
    512u << 10;  // that a thread posts between two polls of the ring or the backlog
constexpr uint64_t large_size = 32u << 10;  // of an operation that justifies waking a thread
constexpr uint32_t small_awake_max =
    4;  // threads for smaller operations: more would contend for the locks
constexpr uint32_t names_awake_max = 12;  // the same where files are opened, which takes longer
constexpr uint64_t tick_ns = 200'000;
constexpr uint64_t spin_ns = 200'000;          // an idle thread polls for so long before it sleeps
constexpr uint64_t signaled_spin_ns = 20'000;  // the same, where it is woken without delay
constexpr uint64_t signaled_sleep_ns = 200'000;  // for deadlines, and write-backs that become due
constexpr uint32_t rounds_per_yield = 8;
constexpr uint32_t lock_tries = 64;
constexpr size_t fetched_ahead = 4;  // completions that are fetched while others are handled
static_assert(own_count_max <= shared_count_max && shared_count_max <= assigned_count_max);
static_assert(small_awake_max <= names_awake_max && large_size <= own_size_max);

// For locks that are held for a microsecond at most: sleeping for one would take longer.
unique_lock<tanada::mutex> lock_spinning(tanada::mutex &mutex) {
  for (uint32_t i = 0; i < lock_tries; i++) {
    if (mutex.try_lock())
      return {mutex, std::adopt_lock};
    seams::spin_pause();
  }
  return unique_lock{mutex};
}

// Fetch an operation that another thread has completed into this processor's cache.
void fetch(const operation &done) {
  constexpr size_t line_size = 64;
  const char *const bytes = reinterpret_cast<const char *>(&done);
  for (size_t offset = 0; offset < sizeof done; offset += line_size)
    __builtin_prefetch(bytes + offset, 1);
}

// As lock_spinning(), but never sleeps. The lock may not be acquired.
unique_lock<tanada::mutex> try_lock_spinning(tanada::mutex &mutex) {
  for (uint32_t i = 0; i < lock_tries; i++) {
    if (mutex.try_lock())
      return {mutex, std::adopt_lock};
    seams::spin_pause();
  }
  return {};
}

}  // namespace

engine::engine(core &core,
               rpc::server &server,
               backends::store_registry &stores,
               seams::clock &clock,
               const engine_options &options)
    : core_{core},
      server_{server},
      stores_{stores},
      clock_{clock},
      node_{options.node},
      do_kernels_signal_{options.do_kernels_signal} {
  observe::trace::name_requests(request_names);
  for (uint32_t i = 0; i < std::max(options.thread_count, 1u); i++)
    workers_.push_back(std::make_unique<worker>());
  if (do_kernels_signal_)
    workers_[0]->signaled = &simt::host::host_event();
  for (uint32_t i = 0; i < options.thread_count; i++) {
    try {
      workers_[i]->thread = std::thread{[this, i] {
        run(i);
      }};
    } catch (const std::system_error &error) {
      stop();  // joins the threads that were started
      throw std::system_error(error.code(),
                              "service thread " + std::to_string(i + 1) + " of " +
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
  for (auto &entry : workers_) {
    entry->wake.notify_one();
    entry->signaled->signal();
  }
  for (auto &entry : workers_)
    if (entry->thread.joinable())
      entry->thread.join();
}

void engine::run(uint32_t index) {
  seams::thread_leave_single_core();
  seams::thread_bind_to_node(node_);
  seams::thread_set_precise_sleep();
  worker &self = *workers_[index];
  self.last_work_ns = clock_.now_ns();
  // Creating an io_uring takes a millisecond; do it before the first open of a file.
  if (auto files = stores_.find("/"); files.ok()) {
    status code = status::ok;
    (void)queue_of(self, files.value(), code);
  }
  while (!stopping_.load(std::memory_order_acquire)) {
    if (!step(index) && !park(self, index))
      idle(self, index);
  }
}

bool engine::step(uint32_t index) {
  TND_ASSERT(index < workers_.size());
  worker &self = *workers_[index];
  observe::trace::round traced;
  self.now_ns = clock_.now_ns();
  self.ticket = self.signaled->ticket();
  bool const has_worked = index == 0 ? dispatch(self) : help(self);
  if (has_worked)
    self.last_work_ns = self.now_ns;
  if (has_worked)
    traced.work();
  return has_worked;
}

// ---- the dispatcher

bool engine::dispatch(worker &self) {
  reap(self);
  collect_done(self);
  uint32_t const first = server_.next_active_share(0);
  bool const has_work = first < rpc::share_count || !self.done.empty() || core_.has_closes();
  if (has_work || self.now_ns - last_tick_ns_ >= tick_ns) {
    last_tick_ns_ = self.now_ns;
    auto const lock = lock_spinning(mutex_);
    for (uint32_t share = first; share < rpc::share_count;
         share = server_.next_active_share(share + 1))
      server_.poll(share, core_);
    report_done(self);
  }
  distribute_work(self, has_work);
  bool const has_unshared = !unshared_.empty();
  bool const posted = post_assigned(self);
  if (posted &&
      reap(self)) {  // operations that a store completed at once are answered in this round
    auto const lock = lock_spinning(mutex_);
    report_done(self);
  }
  return posted || has_work || has_unshared;
}

// Pass completions to the core, and take the operations that it wants posted.
void engine::report_done(worker &self) {
  mutex_.assert_held();
  for (size_t i = 0; i < self.done.size(); i++) {
    if (i + fetched_ahead < self.done.size())
      fetch(*self.done[i + fetched_ahead]);
    auto &io = self.done[i];
    seams::store_completion &result = io->result;
    core_.on_completion(std::move(io), std::move(result));
  }
  self.done.clear();
  core_.tick();
  trace_counters();
  core_.empty_outbox([this](std::unique_ptr<operation> io) {
    unshared_size_ += io->size();
    unshared_count_ += io->count();
    unshared_.push_back(std::move(io));
  });
}

void engine::trace_counters() {
  if (!observe::trace::is_on())
    return;
  core_statistics const &current = core_.statistics();
  observe::trace::counter("evictions", current.evictions, traced_.evictions);
  observe::trace::counter("write-backs", current.store_writes, traced_.store_writes);
  observe::trace::counter("write errors", current.write_errors, traced_.write_errors);
}

// Put the core's operations into the backlog of all threads, and take the dispatcher's share.
void engine::distribute_work(worker &self, bool has_work) {
  if (unshared_.empty() && backlog_count_.load(std::memory_order_relaxed) == 0)
    return;
  uint32_t const awake = awake_.load(std::memory_order_relaxed);
  bool const is_small = unshared_count_ <= own_count_max && unshared_size_ <= own_size_max;
  bool needs_helper = false;
  {
    auto const lock = try_lock_spinning(work_mutex_);
    if (!lock)
      return;
    work_mutex_.assert_held();
    needs_helper = share_operations(awake);
    if (awake == 1)
      take_work(self, assigned_count_max);
    else if (is_small || (!has_work && backlog_.size() > awake))
      take_work(self, own_count_max);
    count_work();
  }
  unshared_.clear();
  unshared_size_ = 0;
  unshared_count_ = 0;
  if (needs_helper)
    wake_another();
  if (backlog_count_.load(std::memory_order_relaxed) > 0)
    for (uint32_t i = 1; i < awake; i++)
      workers_[i]->signaled->signal();
}

// Move the core's operations into the backlog. Returns true if they justify waking a thread, where
// `awake` are not parked.
bool engine::share_operations(uint32_t awake) {
  TND_ASSERT(awake > 0 && awake <= workers_.size());
  size_t const count = unshared_.size();
  bool has_load = false;
  bool has_open = false;
  for (auto &io : unshared_) {
    has_open |= io->type == operation::kind::open;
    bool const is_for_helper = io->type == operation::kind::load && workers_.size() > 1;
    has_load |= is_for_helper;
    (is_for_helper ? loads_ : backlog_).push_back(std::move(io));
  }
  if (has_load)
    return true;
  if (unshared_size_ > own_size_max && unshared_size_ >= count * large_size)
    return backlog_.size() > awake;
  uint32_t const awake_max = has_open ? names_awake_max : small_awake_max;
  return awake < awake_max && backlog_.size() > awake * shared_count_max;
}

void engine::collect_done(worker &self) {
  if (returned_count_.load(std::memory_order_relaxed) == 0)
    return;
  for (auto &helper : workers_) {
    if (helper->returned_count.load(std::memory_order_relaxed) == 0)
      continue;
    if (!helper->done_mutex.try_lock())
      continue;
    lock_guard const lock{helper->done_mutex, std::adopt_lock};
    TND_ASSERT(helper->returned_count.load(std::memory_order_relaxed) == helper->returned.size());
    returned_count_.fetch_sub(helper->returned.size(), std::memory_order_relaxed);
    for (auto &io : helper->returned)
      self.done.push_back(std::move(io));
    helper->returned.clear();
    helper->returned_count.store(0, std::memory_order_relaxed);
  }
}

// ---- helpers

bool engine::help(worker &self) {
  bool has_worked = reap(self);
  if (self.assigned.empty() && backlog_count_.load(std::memory_order_relaxed) > 0) {
    if (work_mutex_.try_lock()) {
      lock_guard const lock{work_mutex_, std::adopt_lock};
      if (!loads_.empty()) {
        self.assigned.push_back(std::move(loads_.front()));
        loads_.pop_front();
      } else {
        take_work(self, shared_count_max);
      }
      count_work();
    }
  }
  has_worked |= post_assigned(self);
  if (reap(self)) {
    auto const lock = lock_spinning(self.done_mutex);
    returned_count_.fetch_add(self.done.size(), std::memory_order_relaxed);
    for (auto &io : self.done)
      self.returned.push_back(std::move(io));
    self.done.clear();
    self.returned_count.store(self.returned.size(), std::memory_order_relaxed);
    workers_[0]->signaled->signal();
  }
  return has_worked;
}

// ---- both

// Take one round's share of the backlog; the rest is for the other threads.
void engine::take_work(worker &self, size_t count_max) {
  uint64_t size = 0;
  while (!backlog_.empty() && size < round_size_max && self.assigned.size() < count_max) {
    size += backlog_.front()->size();
    self.assigned.push_back(std::move(backlog_.front()));
    backlog_.pop_front();
  }
}

void engine::count_work() {
  backlog_count_.store(backlog_.size() + loads_.size(), std::memory_order_relaxed);
}

seams::store_queue *engine::queue_of(worker &self, seams::store *target_store, status &code) {
  for (auto &[store, queue] : self.queues)
    if (store == target_store)
      return queue.get();
  auto created = target_store->queue_create(queue_depth);
  if (!created.ok()) {
    code = created.error();
    return nullptr;
  }
  self.queues.emplace_back(target_store, std::move(created).value());
  self.queues.back().second->set_listener([signaled = self.signaled] { signaled->signal(); });
  return self.queues.back().second.get();
}

// The thread that opened the file queries how it can be accessed.
void engine::query_access(operation &opened) {
  if (opened.result.code == status::ok)
    opened.access = opened.store->access(opened.result.file);
}

// ok: `next` was posted, or has completed if `done` is set. again: the store's queue is full.
// Otherwise the store refused the operation.
status engine::post(worker &self, operation &next, bool &done) {
  if (next.type == operation::kind::load) {
    done = true;
    auto const opened = stores_.find(next.body.url);
    exit_flush::run_first();
    return opened.ok() ? status::ok : opened.error();
  }
  status code = status::ok;
  seams::store_queue *const queue = queue_of(self, next.store, code);
  if (queue == nullptr)
    return code;
  next.traced.posted(
      name_of(next.type), next.body.offset, observe::trace::is_on() ? next.size() : 0);
  return post_to(*queue, next, done);
}

// As post(), to the queue of the operation's store.
status engine::post_to(seams::store_queue &queue, operation &next, bool &done) {
  if (next.type == operation::kind::read_list)
    return post_list(queue, next, done);
  if (next.type == operation::kind::close_batch) {
    close_each(queue, next);
    done = true;
    next.traced.done(name_of(next.type), status::ok, 0);
    return status::ok;
  }
  done = queue.try_perform(next.body, next.result);
  if (done) {
    if (next.type == operation::kind::open)
      query_access(next);
    next.traced.done(name_of(next.type), next.result.code, next.result.size);
    return status::ok;
  }
  status const code = queue.post(next.body);
  if (code != status::ok)
    next.traced.refused();
  return code;
}

// Close the files of a batch, except those whose close would wait.
void engine::close_each(seams::store_queue &queue, operation &batch) {
  for (batched_close &entry : batch.closes) {
    batch.body.file = entry.store_file;
    seams::store_completion result;
    entry.is_done = queue.try_perform(batch.body, result);
    entry.code = result.code;
  }
}

// Read the pages of a list that the store can read at once, and post a read for each other page. If
// the queue is full, the next call goes on.
status engine::post_list(seams::store_queue &queue, operation &list, bool &done) {
  TND_ASSERT(list.body.buffers.size() == 1 && list.unfinished_count > 0);
  if (list.posted_count == 0)
    queue.try_read_each(list.handle->file, list.reads);
  for (; list.posted_count < list.pages.size(); list.posted_count++) {
    seams::store_read &read = list.reads[list.posted_count];
    status code = status::ok;
    if (!read.is_done) {
      list.body.op_id =
          reinterpret_cast<uint64_t>(&list.pages[list.posted_count]) | page_read::mark;
      list.body.offset = read.offset;
      list.body.buffers[0] = read.buffer;
      code = queue.post(list.body);
    }
    if (code == status::again)
      return code;
    if (code == status::ok && !read.is_done)
      continue;
    if (code != status::ok)
      read.code = code;
    list.unfinished_count--;
  }
  done = --list.unfinished_count == 0;
  return status::ok;
}

// Returns the list if this was its last page.
operation *engine::finish_page_read(const seams::store_completion &result) {
  auto &page = *reinterpret_cast<page_read *>(result.op_id & ~page_read::mark);
  operation &list = *page.list;
  TND_ASSERT(list.unfinished_count > 0);
  seams::store_read &read = list.reads[size_t(&page - list.pages.data())];
  read.code = result.code;
  read.size = result.size;
  return --list.unfinished_count == 0 ? &list : nullptr;
}

// Post the assigned operations to the stores. If a queue is full, its operation stays assigned. If
// a store refuses an operation, it completes with that status.
bool engine::post_assigned(worker &self) {
  bool posted = false;
  while (!self.assigned.empty()) {
    bool done = false;
    status const code = post(self, *self.assigned.front(), done);
    if (code == status::again)
      return posted;
    std::unique_ptr<operation> io = std::move(self.assigned.front());
    self.assigned.pop_front();
    posted = true;
    if (code != status::ok)
      io->result.code = code;
    if (done || code != status::ok)
      self.done.push_back(std::move(io));
    else
      (void)io.release();  // its op_id is its address: reap() takes it back
  }
  return posted;
}

// Returns true if there are completions that the core has not received.
bool engine::reap(worker &self) {
  for (auto &[store, queue] : self.queues) {
    if (queue->pending_count() == 0)
      continue;
    seams::store_completion results[64];
    for (size_t count = queue->poll(results); count > 0; count = queue->poll(results))
      for (size_t i = 0; i < count; i++) {
        if ((results[i].op_id & page_read::mark) != 0) {
          if (operation *const list = finish_page_read(results[i]); list != nullptr)
            self.done.emplace_back(list);
          continue;
        }
        operation &done = *self.done.emplace_back(reinterpret_cast<operation *>(results[i].op_id));
        done.traced.done(name_of(done.type), results[i].code, results[i].size);
        done.result = std::move(results[i]);
        if (done.type == operation::kind::open)
          query_access(done);
      }
  }
  return !self.done.empty();
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
  TND_ASSERT(count > 0);  // the dispatcher is never parked
  workers_[count]->wake.notify_one();
}

// Park a helper that has been idle for a while and waits for no store. The last of the awake
// threads is parked first. Returns false if it is not this thread's turn.
bool engine::park(worker &self, uint32_t index) {
  bool const pending = !self.assigned.empty() ||
                       std::any_of(self.queues.begin(), self.queues.end(), [](auto &entry) {
                         return entry.second->pending_count() != 0;
                       });
  if (index == 0 || pending)
    return false;
  if (index < awake_.load(std::memory_order_relaxed) && self.now_ns - self.last_work_ns < spin_ns)
    return false;
  unique_lock lock{park_mutex_};
  uint32_t const awake = awake_.load(std::memory_order_relaxed);
  if (awake == index + 1)
    awake_.store(index, std::memory_order_relaxed);
  else if (awake > index)
    return false;
  self.wake.wait(lock, [&] {
    return index < awake_.load(std::memory_order_relaxed) ||
           stopping_.load(std::memory_order_acquire);
  });
  self.last_work_ns = clock_.now_ns();
  return true;
}

// Whether everything that the thread waits for signals its event: kernels, stores, and the threads
// that pass operations to it. If another thread had a lock, this one looks again.
bool engine::can_sleep(const worker &self, uint32_t index) const {
  if (index == 0 && (!do_kernels_signal_ || returned_count_.load(std::memory_order_relaxed) != 0))
    return false;
  if (backlog_count_.load(std::memory_order_relaxed) != 0 || !self.assigned.empty())
    return false;
  return std::all_of(self.queues.begin(), self.queues.end(), [](auto &entry) {
    return entry.second->pending_count() == 0 || entry.second->is_listened();
  });
}

// Nothing to do: spin for a moment, because a kernel's next request often follows soon, then
// release the processor. Each sleep costs about 5 us of processor time, so short ones are only for
// an instance that was in use a second ago. A yield takes longer than a poll of the whole ring. On
// a machine with a processor for each thread it would be half of a request's latency. On a busy
// machine it takes longer than a sleep.
void engine::idle(worker &self, uint32_t index) {
  uint64_t const idle_ns = self.now_ns - self.last_work_ns;
  bool const is_signaled = can_sleep(self, index);
  if (idle_ns < (is_signaled ? signaled_spin_ns : spin_ns)) {
    if (++self.empty_rounds % rounds_per_yield != 0)
      return seams::spin_pause();
    if (self.yielder.yield())
      return;
  }
  if (is_signaled)
    self.signaled->wait(self.ticket, idle_ns < 10'000'000 ? signaled_sleep_ns : 1'000'000);
  else if (idle_ns < 10'000'000)
    clock_.sleep_ns(20'000);
  else
    clock_.sleep_ns(idle_ns < 1'000'000'000 ? 100'000 : 1'000'000);
}

void engine::finish_closes(uint64_t limit_ns, bool abandons_late) {
  uint64_t const deadline_ns = seams::deadline_after(clock_.now_ns(), limit_ns);
  for (;;) {
    bool const is_late = clock_.now_ns() >= deadline_ns;
    bool const is_done = with_core([&](core &locked) {
      mutex_.assert_held();
      abandoned_count_ = std::min(abandoned_count_, locked.closing_count());
      if (is_late && abandons_late)
        abandoned_count_ = locked.closing_count();
      return !locked.has_closes() && locked.closing_count() <= abandoned_count_;
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
    bool const done = with_core([](core &locked) {
      locked.start_shutdown();
      return locked.idle();
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
