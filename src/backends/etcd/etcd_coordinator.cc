// The coordinator on etcd: requests wait in queues, threads perform them, and progress() calls the
// callbacks.
#include "backends/etcd/etcd_coordinator.hpp"

#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include "backends/etcd/etcd_watch.hpp"
#include "core/base/assert.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::backends {

namespace {

constexpr size_t pending_count_max = 4096;     // requests of one coordinator
constexpr size_t backlog_size_max = 64 << 20;  // bytes of events that progress() has not taken

using callback = std::function<void()>;

// A request, until it is reported.
struct pending_request {
  uint64_t deadline_ns = 0;
  std::function<callback(status)> fail;  // the call of its callback with an error
};

// A request on its way through a queue. `complete` makes the call of its callback from the answer.
struct queued_call {
  uint64_t id = 0, deadline_ns = 0;
  std::function<etcd_call()> encode;  // by the thread of the queue, as values may be large
  std::function<callback(result<std::string>)> complete;
};

size_t event_size(const std::vector<seams::watch_event> &events) {
  size_t size = 0;
  for (auto const &event : events)
    size += sizeof event + event.entry.key.size() + event.entry.value.size();
  return size;
}

}  // namespace

class etcd_coordinator final : public seams::coordinator {
 public:
  etcd_coordinator(std::unique_ptr<etcd_members> members, uint64_t timeout_ns)
      : members_{std::move(members)},
        timeout_ns_{timeout_ns},
        watch_{*members_, timeout_ns, [this](uint64_t number, result<etcd_watch::events> events) {
                 return receive_events(number, std::move(events));
               }} {
    seams::signals_blocked const signal_guard;
    for (call_queue *queue : {&requests_, &renewals_})
      queue->thread = std::thread([this, queue] { run(*queue); });
  }

  ~etcd_coordinator() override {
    {
      lock_guard const lock{mutex_};
      is_stopping_ = true;
      watch_number_ = 0;
    }
    for (call_queue *queue : {&requests_, &renewals_}) {
      queue->interrupt.raise();
      queue->added.notify_all();
      queue->thread.join();
    }
  }

  void read(const std::string &prefix, range_callback done) override {
    post<seams::coordinated_range>(
        requests_, [prefix] { return read_call(prefix); }, decode_range, std::move(done));
  }

  void transact(std::vector<seams::transaction_condition> conditions,
                std::vector<seams::transaction_change> changes,
                transaction_callback done) override {
    if (status const code = seams::check_transaction(conditions, changes); code != status::ok) {
      add_due([done = std::move(done), code] { done(code); });
      return;
    }
    post<seams::transaction_outcome>(
        requests_,
        [conditions = std::move(conditions), changes = std::move(changes)] {
          return transaction_call(conditions, changes);
        },
        decode_transaction,
        std::move(done));
  }

  void grant_lease(uint64_t ttl_s, lease_callback done) override {
    if (ttl_s == 0 || ttl_s > seams::lease_ttl_s_max) {
      add_due([done = std::move(done)] { done(status::invalid); });
      return;
    }
    post<seams::lease_id>(
        requests_, [ttl_s] { return grant_call(ttl_s); }, decode_grant, std::move(done));
  }

  void renew_lease(seams::lease_id lease, status_callback done) override {
    post_status(renewals_, [lease] { return renew_call(lease); }, decode_renewal, std::move(done));
  }

  void revoke_lease(seams::lease_id lease, status_callback done) override {
    auto const decode = [](std::string_view) {
      return status::ok;
    };
    post_status(requests_, [lease] { return revoke_call(lease); }, decode, std::move(done));
  }

  void watch(const std::string &prefix, uint64_t after_revision, watch_handler handler) override {
    TND_ASSERT(handler);
    uint64_t number = 0;
    {
      lock_guard const lock{mutex_};
      number = ++last_watch_number_;
      watch_number_ = number;
      handler_ = std::move(handler);
      arrived_.clear();
      backlog_size_ = 0;
    }
    watch_.start(number, prefix, after_revision);
  }

  size_t progress() override {
    std::deque<callback> due;
    {
      lock_guard const lock{mutex_};
      expire();
      due.swap(due_);
    }
    for (auto const &call : due)
      call();
    return due.size() + deliver_events();
  }

  status wait(uint64_t deadline_ns) override {
    unique_lock lock{mutex_};
    for (;;) {
      uint64_t const now_ns = seams::monotonic_clock().now_ns();
      expire();
      if (is_woken_ || !due_.empty() || !arrived_.empty()) {
        is_woken_ = false;
        return status::ok;
      }
      if (now_ns >= deadline_ns)
        return status::timed_out;
      // Requests have one timeout, so that the first one is the first to expire.
      uint64_t const expiry_ns =
          pending_.empty() ? ~uint64_t{0} : pending_.begin()->second.deadline_ns;
      uint64_t const wake_ns = std::min(deadline_ns, expiry_ns);
      uint64_t const wait_ns =
          std::min<uint64_t>(wake_ns > now_ns ? wake_ns - now_ns : 0, 3'600'000'000'000);
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
    }
  }

  void wake() noexcept override {
    lock_guard const lock{mutex_};
    is_woken_ = true;
    changed_.notify_all();
  }

 private:
  struct call_queue {
    std::deque<queued_call> calls{};
    condition_variable added{};
    etcd_interrupt interrupt{};
    std::thread thread{};
  };

  void add_due(callback call) {
    lock_guard const lock{mutex_};
    due_.push_back(std::move(call));
  }

  template <class Answer, class Decoder>
  void post(call_queue &queue,
            std::function<etcd_call()> encode,
            Decoder decode,
            std::function<void(result<Answer>)> done) {
    TND_ASSERT(done);
    auto const fail = [done](status code) -> callback {
      return [done, code] {
        done(code);
      };
    };
    auto const complete = [done, decode](const result<std::string> &answer) -> callback {
      result<Answer> decoded =
          answer.ok() ? result<Answer>{decode(answer.value())} : result<Answer>{answer.error()};
      return [done, decoded = std::move(decoded)] {
        done(decoded);
      };
    };
    add_call(queue, std::move(encode), fail, complete);
  }

  template <class Decoder>
  void post_status(call_queue &queue,
                   std::function<etcd_call()> encode,
                   Decoder decode,
                   status_callback done) {
    TND_ASSERT(done);
    auto const fail = [done](status code) -> callback {
      return [done, code] {
        done(code);
      };
    };
    auto const complete = [done, decode](const result<std::string> &answer) -> callback {
      status const code = answer.ok() ? decode(answer.value()) : answer.error();
      return [done, code] {
        done(code);
      };
    };
    add_call(queue, std::move(encode), fail, complete);
  }

  void add_call(call_queue &queue,
                std::function<etcd_call()> encode,
                std::function<callback(status)> fail,
                std::function<callback(result<std::string>)> complete) {
    lock_guard const lock{mutex_};
    if (pending_.size() >= pending_count_max) {
      due_.push_back(fail(status::busy));
      return;
    }
    uint64_t const id = ++last_id_;
    uint64_t const deadline_ns =
        seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns_);
    pending_[id] = {deadline_ns, std::move(fail)};
    queue.calls.push_back({id, deadline_ns, std::move(encode), std::move(complete)});
    queue.added.notify_all();
  }

  // Makes requests due whose deadline has passed. Their threads drop what they find out later.
  void expire() TND_REQUIRES(mutex_) {
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    while (!pending_.empty() && pending_.begin()->second.deadline_ns <= now_ns) {
      due_.push_back(pending_.begin()->second.fail(status::timed_out));
      pending_.erase(pending_.begin());
    }
  }

  // The thread of a queue.
  void run(call_queue &queue) {
    for (;;) {
      queued_call call;
      {
        unique_lock lock{mutex_};
        queue.added.wait(lock, [&] {
          mutex_.assert_held();
          return is_stopping_ || !queue.calls.empty();
        });
        if (is_stopping_)
          return;
        call = std::move(queue.calls.front());
        queue.calls.pop_front();
        // It was reported as timed out.
        if (!pending_.contains(call.id))
          continue;
      }
      auto const answer = members_->call(call.encode(), call.deadline_ns, queue.interrupt);
      callback report = call.complete(answer);
      lock_guard const lock{mutex_};
      if (pending_.erase(call.id) == 0)
        continue;
      due_.push_back(std::move(report));
      changed_.notify_all();
    }
  }

  // Called by the watch's threads.
  bool receive_events(uint64_t number, result<etcd_watch::events> events) {
    lock_guard const lock{mutex_};
    if (number != watch_number_)
      return false;
    if (events.ok())
      backlog_size_ += event_size(events.value());
    // The caller does not keep up, and has to read again.
    if (backlog_size_ > backlog_size_max)
      events = status::stale;
    bool const goes_on = events.ok();
    if (!goes_on)
      watch_number_ = 0;
    arrived_.push_back(std::move(events));
    changed_.notify_all();
    return goes_on;
  }

  // Passes what has arrived to the watch's handler, which may begin another watch.
  size_t deliver_events() {
    std::deque<result<etcd_watch::events>> arrived;
    uint64_t number = 0;
    {
      lock_guard const lock{mutex_};
      arrived.swap(arrived_);
      backlog_size_ = 0;
      number = last_watch_number_;
    }
    size_t count = 0;
    for (auto &events : arrived) {
      watch_handler handler;
      {
        lock_guard const lock{mutex_};
        if (number != last_watch_number_)
          break;
        handler = handler_;
      }
      handler(std::move(events));
      count++;
    }
    return count;
  }

  std::unique_ptr<etcd_members> const members_;
  uint64_t const timeout_ns_;

  mutex mutex_;
  condition_variable changed_;  // for wait()
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  bool is_woken_ TND_GUARDED_BY(mutex_) = false;
  std::deque<callback> due_ TND_GUARDED_BY(mutex_);
  std::map<uint64_t, pending_request> pending_ TND_GUARDED_BY(mutex_);  // by number, so by deadline
  uint64_t last_id_ TND_GUARDED_BY(mutex_) = 0;

  uint64_t watch_number_ TND_GUARDED_BY(mutex_) = 0;  // whose events are accepted; 0: none
  uint64_t last_watch_number_ TND_GUARDED_BY(mutex_) = 0;
  watch_handler handler_ TND_GUARDED_BY(mutex_);
  std::deque<result<etcd_watch::events>> arrived_ TND_GUARDED_BY(mutex_);
  size_t backlog_size_ TND_GUARDED_BY(mutex_) = 0;

  // Their calls are guarded by mutex_.
  call_queue requests_, renewals_;
  etcd_watch watch_;  // ends first
};

result<std::unique_ptr<seams::coordinator>> etcd_coordinator_create(const etcd_options &options) {
  TND_ASSIGN(auto members, etcd_members::create(options));
  std::unique_ptr<seams::coordinator> created =
      std::make_unique<etcd_coordinator>(std::move(members), options.request_timeout_ns);
  return created;
}

}  // namespace tanada::backends
