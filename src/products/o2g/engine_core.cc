// Start, progress, failure and shutdown of the engine.

#include "products/o2g/engine_core.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/contention.hpp"

namespace tanada::o2g {

namespace {
constexpr int yield_count_max = 100;
// The share of a peer's credit that messages may use before the progress thread grants more.
constexpr uint64_t quiet_divisor = 4;
}  // namespace

result<std::unique_ptr<engine>> engine::create(std::unique_ptr<seams::stream_set> set,
                                               const engine_options &options,
                                               completion_sink &sink,
                                               regions &memory,
                                               std::unique_ptr<message_driver> driver) {
  bool const is_reachable =
      options.listen_address.family != seams::socket_address::family_kind::unspecified &&
      std::ranges::any_of(options.listen_address.bytes, [](uint8_t byte) { return byte != 0; });
  if (!is_reachable)
    return fail(status::invalid,
                "o2g: peers cannot connect to the address {}: use that of a network interface",
                to_text(options.listen_address));
  if (options.unexpected_size_hard < options.unexpected_size_soft ||
      options.cookie.size() > wire::o2g::cookie_size_max)
    return fail(status::invalid,
                "o2g: the hard limit is below the soft one, or the cookie has more than {} bytes",
                wire::o2g::cookie_size_max);
  auto created =
      std::make_unique<engine_core>(std::move(set), options, sink, memory, std::move(driver));
  status const started = created->start();
  if (started != status::ok)
    return started;
  return std::unique_ptr<engine>{std::move(created)};
}

engine_core::engine_core(std::unique_ptr<seams::stream_set> set,
                         const engine_options &options,
                         completion_sink &sink,
                         regions &memory,
                         std::unique_ptr<message_driver> driver)
    : set_{std::move(set)},
      driver_{std::move(driver)},
      options_{options},
      clock_{options.clock == nullptr ? seams::monotonic_clock() : *options.clock},
      sink_{sink},
      memory_{memory} {
  null_link_.current_phase = link::phase::closed;
  null_link_.full = &full_peers_;
}

status engine_core::start() {
  if (getrandom(endpoint_.data(), endpoint_.size(), 0) != ssize_t(endpoint_.size()))
    return status::io;
  set_->attach(*this);
  memory_.add_user(*this);
  if (driver_ != nullptr) {
    TND_TRY(set_->watch_also(driver_->descriptor()));
    driver_buffer_.resize(driver_buffer_size);
  }
  auto listening = set_->listen(options_.listen_address);
  if (!listening.ok())
    return listening.error();
  options_.listen_address = std::move(listening).value();
  name_ = to_text(options_.listen_address);
  if (!options_.has_thread)
    return status::ok;
  return progress_thread_.start(
      options_.tick_ns, [this] { return drive_in_thread(); }, [this] { set_->wake(); });
}

// What the progress thread does until the program calls again. False: a call has the lock.
bool engine_core::drive_in_thread() noexcept {
  uint64_t sleep_end_ns = ~uint64_t{0}, quiet_size = 0;
  // Without the yield, this running thread would lock again before a waiting thread wakes up.
  for (int i = 0; i < yield_count_max && mutex_.is_contended(); i++)
    std::this_thread::yield();
  {
    if (!mutex_.try_lock())
      return false;
    lock_guard const lock{mutex_, std::adopt_lock};
    counters_.thread_drive_count++;
    drive();
    if (handshaking_link_count_ != 0)
      sleep_end_ns = clock_.now_ns() + handshake_check_ns;
    quiet_size = credit_window() / quiet_divisor;
  }
  sleep_end_ns = std::min(sleep_end_ns, clock_.now_ns() + sleep_ns_limit);
  (void)wait_for_events(sleep_end_ns, quiet_size);
  return true;
}

engine_core::~engine_core() {
  progress_thread_.stop();
  memory_.remove_user(*this);
  lock_guard const lock{mutex_};
  is_shutting_down_ = true;
  if (owner_pid_ == getpid())
    handle_event(
        [&] { shut_down(); });  // a forked child shares the connections and must not use them
  for (auto const &peer_link : links_)
    if (!peer_link->is_self && peer_link->stream != seams::no_stream &&
        peer_link->current_phase != link::phase::closed)
      close(peer_link->stream);
  for (auto const &peer_link : links_)
    peer_link->stream = seams::no_stream;
  log_counters();
  fail_all(status::canceled);
  log_suppressed_count();
}

void engine_core::log_counters() const noexcept {
  log(log_level::info,
      "o2g: closed {}: sent {} messages, received {}, {} of them unexpected (at most {} bytes at a "
      "time), {} by rendezvous, {} by the driver; {} polls, {} sleeps, {} drives by the progress "
      "thread",
      name_,
      counters_.sent_count,
      counters_.received_count,
      counters_.unexpected_count,
      counters_.unexpected_size_peak,
      counters_.rendezvous_count,
      counters_.driver_received_count,
      counters_.poll_count,
      counters_.sleep_count,
      counters_.thread_drive_count);
}

// Sends the operations that have already completed to the program, waits up to shutdown_timeout_ns
// until the peers' systems have the bytes, and then sends goodbyes.
void engine_core::shut_down() {
  uint64_t const deadline_ns = clock_.now_ns() + shutdown_timeout_ns;
  flush_all_batches();
  flush_delayed_acks();
  auto const has_unsent = [&](auto const &peer_link) {
    if (peer_link->current_phase != link::phase::established || peer_link->is_self)
      return false;
    return peer_link->has_injected() || set_->unsent_size(peer_link->stream) != 0;
  };
  // A simulated clock may not advance when there are no events, so fruitless polls are counted,
  // too.
  uint64_t empty_poll_count = 0;
  while (std::ranges::any_of(links_, has_unsent) && clock_.now_ns() < deadline_ns &&
         empty_poll_count < shutdown_timeout_ns / shutdown_poll_ns)
    if (drive() == 0) {
      empty_poll_count++;
      (void)wait_for_events(std::min(deadline_ns, clock_.now_ns() + shutdown_poll_ns));
    }
  wire::o2g::envelope head;
  head.kind = uint8_t(wire::o2g::kind::goodbye);
  iovec const part{&head, sizeof head};
  for (auto const &peer_link : links_) {
    bool const is_at_boundary = peer_link->first == nullptr || peer_link->first->written_size == 0;
    if (peer_link->current_phase == link::phase::established && !peer_link->is_self &&
        is_at_boundary && !peer_link->is_blocked)
      (void)set_->send(peer_link->stream, {&part, 1});
  }
}

void engine_core::complete(const completion &done) noexcept {
  if (is_shutting_down_)
    return;
  backoff_.record_work();  // a completion is work found, so the caller does not back off
  try {
    sink_.complete(done);
  } catch (const std::bad_alloc &) {
    set_out_of_memory();
  }
  if (progress_thread_.has_sleepers())
    set_->wake();
}

// No caller waits for messages that the driver receives while the progress thread is the only one
// that sleeps.
void engine_core::arm_driver(uint64_t quiet_size) const noexcept {
  if (driver_ == nullptr)
    return;
  lock_guard const lock{arm_mutex_};
  bool const has_waiter = progress_thread_.has_sleepers() || is_descriptor_exposed_.load();
  driver_->arm(has_waiter ? 0 : quiet_size);
}

// Waits for events of the stream set and of the message driver. The next drive() handles both.
status engine_core::wait_for_events(uint64_t deadline_ns, uint64_t quiet_size) noexcept {
  arm_driver(quiet_size);
  status const code = set_->wait(deadline_ns);
  must_progress_.store(true, std::memory_order_relaxed);
  return code;
}

int engine_core::descriptor() const noexcept {
  if (driver_ != nullptr) {
    is_descriptor_exposed_.store(true);
    arm_driver(0);
  }
  return set_->descriptor();
}

// Handles the events of the message driver and of the stream set, and returns their number.
size_t engine_core::progress_all() noexcept try {
  size_t count = driver_ == nullptr ? 0 : drive_driver();
  if (!may_skip_set())
    count += set_->progress();
  return count;
} catch (const std::bad_alloc &) {
  set_out_of_memory();
  return 0;
}

// Frees closed links, when no caller up the stack can be using them.
void engine_core::free_closed_links() noexcept {
  if (!has_closed_links_ || is_out_of_memory_)
    return;
  has_closed_links_ = false;
  std::erase_if(links_, [](const std::unique_ptr<link> &peer_link) {
    return peer_link->current_phase == link::phase::closed;
  });
}

size_t engine_core::drive() noexcept {
  TND_ASSERT(mutex_.is_locked() && !is_driving_);
  if (progress_thread_.is_driving())
    ack_batcher_.record_absence();
  else
    ack_batcher_.record_poll();
  if (!batched_links_.empty())
    flush_all_batches();
  is_driving_ = true;
  has_reply_data_ = false;
  size_t const count = progress_all();
  is_driving_ = false;
  if (!batched_links_.empty())
    flush_replies();
  if (!delayed_ack_links_.empty())
    flush_due_acks(clock_.now_ns());
  if (handshaking_link_count_ != 0)
    check_deadlines();
  if (credit_changed_)
    grant_due_credit();
  fail_if_out_of_memory();
  free_closed_links();
  if (count != 0 && progress_thread_.has_sleepers())
    set_->wake();
  if (driver_ != nullptr && is_descriptor_exposed_.load(std::memory_order_relaxed))
    arm_driver(0);
  return count;
}

size_t engine_core::poll(bool may_sleep) {
  progress_thread_.visit();
  size_t count = 0;
  if (mutex_.try_lock()) {
    lock_guard const lock{mutex_, std::adopt_lock};
    counters_.poll_count++;
    count = drive();
  }
  if (count != 0) {
    backoff_.record_work();
    return count;
  }
  if (!may_sleep || options_.sleep_ns_max == 0)
    return 0;
  uint64_t const sleep_ns =
      backoff_.record_empty_poll(clock_.now_ns(), options_.sleep_ns_max, seams::processors{});
  if (sleep_ns == 0)
    return 0;
  progress_thread_.begin_sleep();
  uint64_t const sleep_end_ns = std::min(flush_before_sleep(), clock_.now_ns() + sleep_ns);
  (void)wait_for_events(sleep_end_ns);
  progress_thread_.end_sleep();
  seams::processors::record_sleep(clock_.now_ns());
  lock_guard const lock{mutex_};
  counters_.sleep_count++;
  count = drive();
  if (count != 0) {
    backoff_.record_work();
    progress_thread_.resume();
  }
  backoff_.record_poll_end(clock_.now_ns());
  return count;
}

status engine_core::wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) {
  progress_thread_.begin_sleep();
  uint64_t sleep_end_ns = std::min(deadline_ns, clock_.now_ns() + sleep_ns_limit);
  sleep_end_ns = std::min(sleep_end_ns, flush_before_sleep());
  status code = status::ok;
  if (!is_ready(argument))
    code = wait_for_events(sleep_end_ns);
  progress_thread_.end_sleep();
  if (code == status::ok)
    progress_thread_.resume();
  return code == status::timed_out && sleep_end_ns < deadline_ns ? status::ok : code;
}

engine_statistics engine_core::statistics() const {
  lock_guard const lock{mutex_};
  engine_statistics snapshot = counters_;
  snapshot.peer_count = peers_.size();
  snapshot.driver_connection_count = driver_links_.size();
  snapshot.announced_count = announced_count_;
  for (auto const &peer_link : links_)
    snapshot.connection_count +=
        peer_link->current_phase == link::phase::established && !peer_link->is_self;
  return snapshot;
}

// Drops every connection and message, and fails every posted receive.
void engine_core::fail_all(status cause) noexcept {
  TND_ASSERT(mutex_.is_locked() && cause != status::ok);
  for (size_t i = 0; i < links_.size(); i++) {
    if (links_[i]->current_phase != link::phase::closed)
      drop_link(*links_[i], cause);
  }
  for (matcher *queue : {&tagged_matcher_, &untagged_matcher_}) {
    queue->find_posted_if([&](posted_entry &entry) {
      auto &receiver = static_cast<receive &>(entry);
      if (!claim_posted(receiver))
        return false;
      remove_posted(receiver);
      fail_receive(&receiver, cause);
      return false;
    });
    queue->find_arrived_if([&](arrived_entry &entry) {
      queue->remove(entry);
      free_unexpected(static_cast<message *>(&entry));
      return false;
    });
  }
  for (auto const &[context, claimed] : claims_)
    free_unexpected(claimed);
  claims_.clear();
}

void engine_core::fail_engine(status cause,
                              const char *reason,
                              const wire::o2g::envelope &notice) noexcept {
  TND_ASSERT(cause != status::ok);
  if (failure_ != status::ok)
    return;
  log(log_level::error, "o2g: the endpoint {} failed: {}", name_, reason);
  failure_ = cause;
  send_failure(cause, notice);
  fail_all(cause);
}

// Notifies the peers of the failure. A peer that is receiving a partly sent message, or does not
// read, only sees the connection end.
void engine_core::send_failure(status cause, wire::o2g::envelope notice) noexcept {
  notice.kind = uint8_t(wire::o2g::kind::failure);
  notice.data = uint64_t(uint32_t(int(cause)));
  iovec const part{&notice, sizeof notice};
  for (auto const &peer_link : links_) {
    bool const is_at_boundary = peer_link->first == nullptr || peer_link->first->written_size == 0;
    if (peer_link->current_phase == link::phase::established && !peer_link->is_self &&
        is_at_boundary && !peer_link->is_blocked)
      (void)write_parts(*peer_link, {&part, 1});
  }
}

void engine_core::fail_if_out_of_memory() noexcept {
  if (is_out_of_memory_)
    fail_engine(status::no_memory, "insufficient memory for an operation that had begun");
}

void engine_core::log_suppressed_count() noexcept {
  if (uint64_t const count = peer_log_limit_.take_suppressed_count(); count != 0)
    log(log_level::warning, "o2g: suppressed {} log lines about peers of {}", count, name_);
}

}  // namespace tanada::o2g
