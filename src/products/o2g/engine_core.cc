#include "products/o2g/engine_core.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/contention.hpp"

namespace tanada::o2g {

namespace {
constexpr int yield_count_max = 100;
}  // namespace

result<std::unique_ptr<engine>> engine::create(std::unique_ptr<port::stream_set> set,
                                               const engine_options &options, completion_sink &sink,
                                               regions &memory) {
  bool const is_reachable =
      options.at.family != port::socket_address::family_kind::none &&
      std::ranges::any_of(options.at.bytes, [](uint8_t each) { return each != 0; });
  if (!is_reachable)
    return fail(status::invalid, "o2g: %s is no address that a peer could be told",
                to_text(options.at).c_str());
  if (options.dump_size_hard < options.dump_size_soft ||
      options.cookie.size() > wire::o2g::cookie_size_max)
    return fail(status::invalid,
                "o2g: a hard limit below the soft one, or a cookie of more than %zu bytes",
                wire::o2g::cookie_size_max);
  auto made = std::make_unique<engine_core>(std::move(set), options, sink, memory);
  status const started = made->start();
  if (started != status::ok)
    return started;
  return std::unique_ptr<engine>{std::move(made)};
}

engine_core::engine_core(std::unique_ptr<port::stream_set> set, const engine_options &options,
                         completion_sink &sink, regions &memory)
    : set_{std::move(set)},
      options_{options},
      clock_{options.clock == nullptr ? port::monotonic_clock() : *options.clock},
      sink_{sink},
      memory_{memory} {
  nobody_.now = link::phase::gone;
  nobody_.full = &full_peers_;
}

status engine_core::start() {
  if (getrandom(endpoint_.data(), endpoint_.size(), 0) != ssize_t(endpoint_.size()))
    return status::io;
  set_->attach(*this);
  memory_.enter(*this);
  auto at = set_->listen(options_.at);
  if (!at.ok())
    return at.error();
  options_.at = std::move(at).value();
  name_ = to_text(options_.at);
  if (!options_.has_thread)
    return status::ok;
  return attendance_.start(
      options_.tick_ns,
      [this] {
        uint64_t until_ns = ~uint64_t{0};
        // Else this thread, which is running, would take the lock again before a thread that wakes
        // up for it.
        for (int i = 0; i < yield_count_max && mutex_.is_wanted(); i++)
          std::this_thread::yield();
        {
          if (!mutex_.try_lock())
            return false;
          lock_guard const lock{mutex_, std::adopt_lock};
          counts_.thread_drives++;
          drive();
          if (young_count_ != 0)
            until_ns = clock_.now_ns() + young_check_ns;
        }
        (void)set_->wait(std::min(until_ns, clock_.now_ns() + longest_wait_ns));
        return true;
      },
      [this] { set_->wake(); });
}

engine_core::~engine_core() {
  attendance_.stop();
  memory_.leave(*this);
  lock_guard const lock{mutex_};
  is_mute_ = true;
  if (process_ == getpid())
    heard([&] { take_leave(); });  // a forked process has our connections, and no say in them
  for (auto const &each : links_)
    if (!each->is_self && each->stream != port::no_stream && each->now != link::phase::gone)
      close(each->stream);
  for (auto const &each : links_)
    each->stream = port::no_stream;
  tell_counts();
  end_all(status::canceled);
  tell_left_out();
}

void engine_core::tell_counts() const noexcept {
  auto const number = [](uint64_t value) {
    return static_cast<unsigned long long>(value);
  };
  log(log_level::info,
      "o2g: %s ends: %llu messages sent, %llu received, %llu of them unexpected (at most %llu "
      "bytes at a time), %llu announced; "
      "%llu polls, %llu sleeps, %llu turns of its own thread",
      name_.c_str(), number(counts_.sent_count), number(counts_.received_count),
      number(counts_.unexpected_count), number(counts_.dump_size_highest),
      number(counts_.announced_count), number(counts_.polls), number(counts_.sleeps),
      number(counts_.thread_drives));
}

// What was completed to the program and not yet handed to the system goes out, and what the system
// has reaches the peers', within leave_ns; then bye.
void engine_core::take_leave() {
  uint64_t const deadline_ns = clock_.now_ns() + leave_ns;
  send_all_gathered();
  send_all_late();
  auto const is_left = [&](auto const &each) {
    if (each->now != link::phase::up || each->is_self)
      return false;
    return each->has_promised() || set_->unsent_size(each->stream) != 0;
  };
  // A clock may stand still when nothing is left to happen, so looks in vain are counted, too.
  uint64_t in_vain = 0;
  while (std::ranges::any_of(links_, is_left) && clock_.now_ns() < deadline_ns &&
         in_vain < leave_ns / leave_look_ns)
    if (drive() == 0) {
      in_vain++;
      (void)set_->wait(std::min(deadline_ns, clock_.now_ns() + leave_look_ns));
    }
  wire::o2g::envelope head;
  head.what = uint8_t(wire::o2g::kind::bye);
  iovec const part{&head, sizeof head};
  for (auto const &each : links_) {
    bool const is_between = each->first == nullptr || each->first->handed == 0;
    if (each->now == link::phase::up && !each->is_self && is_between && !each->blocked)
      (void)set_->send(each->stream, {&part, 1});
  }
}

void engine_core::complete(const completion &done) noexcept {
  if (is_mute_)
    return;
  idle_.found();  // whoever hears of it has not waited in vain
  try {
    sink_.complete(done);
  } catch (const std::bad_alloc &) {
    out_of_memory();
  }
  if (attendance_.has_sleepers())
    set_->wake();
}

size_t engine_core::drive() noexcept {
  if (attendance_.has_taken_over())
    patience_.left();
  else
    patience_.looked();
  if (!gathering_.empty())
    send_all_gathered();
  size_t count = 0;
  is_driving_ = true;
  has_data_to_answer_ = false;
  try {
    count = set_->drive();
  } catch (const std::bad_alloc &) {
    out_of_memory();
  }
  is_driving_ = false;
  if (!gathering_.empty())
    send_answers();
  if (!late_.empty() &&
      (attendance_.has_taken_over() || clock_.now_ns() >= late_since_ns_ + late_ns))
    send_all_late();
  if (young_count_ != 0)
    check_deadlines();
  if (is_dump_moved_)
    tell_room();
  end_if_out_of_memory();
  if (has_gone_ && !is_out_of_memory_) {
    has_gone_ = false;
    std::erase_if(links_,
                  [](const std::unique_ptr<link> &each) { return each->now == link::phase::gone; });
  }
  if (count != 0 && attendance_.has_sleepers())
    set_->wake();
  return count;
}

size_t engine_core::poll(bool may_sleep) {
  attendance_.visit();
  size_t count = 0;
  if (mutex_.try_lock()) {
    lock_guard const lock{mutex_, std::adopt_lock};
    counts_.polls++;
    count = drive();
  }
  if (count != 0) {
    idle_.found();
    return count;
  }
  if (!may_sleep || options_.sleep_ns_max == 0)
    return 0;
  uint64_t const sleep_ns = idle_.vain(clock_.now_ns(), options_.sleep_ns_max, port::processors{});
  if (sleep_ns == 0)
    return 0;
  attendance_.begin_sleep();
  send_before_sleep();
  (void)set_->wait(clock_.now_ns() + sleep_ns);
  attendance_.end_sleep();
  port::processors::slept(clock_.now_ns());
  lock_guard const lock{mutex_};
  counts_.sleeps++;
  count = drive();
  if (count != 0) {
    idle_.found();
    attendance_.stir();
  }
  idle_.left(clock_.now_ns());
  return count;
}

status engine_core::wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) {
  attendance_.begin_sleep();
  uint64_t until_ns = std::min(deadline_ns, clock_.now_ns() + longest_wait_ns);
  if (send_before_sleep())
    until_ns = std::min(until_ns, clock_.now_ns() + young_check_ns);
  status code = status::ok;
  if (!is_ready(argument))
    code = set_->wait(until_ns);
  attendance_.end_sleep();
  if (code == status::ok)
    attendance_.stir();
  return code == status::timed_out && until_ns < deadline_ns ? status::ok : code;
}

engine_statistics engine_core::statistics() const {
  lock_guard const lock{mutex_};
  engine_statistics now = counts_;
  now.peer_count = peers_.size();
  for (auto const &each : links_)
    now.connection_count += each->now == link::phase::up && !each->is_self;
  return now;
}

// Every connection, and every receive that still waits.
void engine_core::end_all(status why) noexcept {
  for (size_t i = 0; i < links_.size(); i++)
    if (links_[i]->now != link::phase::gone)
      lose(*links_[i], why);
  for (matcher *queue : {&tagged_, &plain_}) {
    queue->find_posted_if([&](posted_entry &entry) {
      queue->remove(entry);
      fail_receive(static_cast<receive *>(&entry), why);
      return false;
    });
    queue->find_arrived_if([&](arrived_entry &entry) {
      queue->remove(entry);
      drop(static_cast<message *>(&entry));
      return false;
    });
  }
  for (auto const &[context, kept] : claims_)
    drop(kept);
  claims_.clear();
}

void engine_core::end_with(status why, const char *reason,
                           const wire::o2g::envelope &notice) noexcept {
  if (ended_ != status::ok)
    return;
  log(log_level::error, "o2g: the endpoint %s ends: %s", name_.c_str(), reason);
  ended_ = why;
  send_ending(why, notice);
  end_all(why);
}

// A peer that is in the middle of a message from here, or does not read, learns no more than that
// the connection has ended.
void engine_core::send_ending(status why, wire::o2g::envelope notice) noexcept {
  notice.what = uint8_t(wire::o2g::kind::ending);
  notice.data = uint64_t(uint32_t(int(why)));
  iovec const part{&notice, sizeof notice};
  for (auto const &each : links_) {
    bool const is_between = each->first == nullptr || each->first->handed == 0;
    if (each->now == link::phase::up && !each->is_self && is_between && !each->blocked)
      (void)hand_over(*each, {&part, 1});
  }
}

void engine_core::end_if_out_of_memory() noexcept {
  if (is_out_of_memory_)
    end_with(status::no_memory, "it has no memory to go on with");
}

void engine_core::tell_left_out() noexcept {
  if (uint64_t const count = complaints_.take_left_out(); count != 0)
    log(log_level::warning, "o2g: %llu lines about peers of %s were left out",
        static_cast<unsigned long long>(count), name_.c_str());
}

}  // namespace tanada::o2g
