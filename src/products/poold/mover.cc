#include "products/poold/mover.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <chrono>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t op_size_max = uint64_t{4} << 20;  // bytes of one operation
constexpr size_t arrived_count_max = 4096;
constexpr uint32_t out_count_max = 16;  // operations of one transfer under way, so that all get on
constexpr uint32_t message_count_max = 64;  // under way: to addresses where nobody answers, maybe
constexpr uint64_t idle_ns = 1'000'000'000;

uint64_t monotonic_now() {
  return port::monotonic_clock().now_ns();
}

}  // namespace

mover::mover(std::unique_ptr<port::fabric_endpoint> endpoint)
    : endpoint_{std::move(endpoint)}, provider_{endpoint_->properties().provider} {
  is_rdma_ = endpoint_->properties().path == port::fabric_path::rdma;
  auto const bytes = endpoint_->address().span();
  address_.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

result<std::unique_ptr<mover>> mover::start(std::unique_ptr<port::fabric_endpoint> endpoint) {
  std::unique_ptr<mover> made{new mover{std::move(endpoint)}};
  made->thread_ = std::thread{[one = made.get()] {
    one->run();
  }};
  return made;
}

mover::~mover() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
    wake_locked();
  }
  if (thread_.joinable())
    thread_.join();
}

bool mover::submit(transfer what) {
  std::lock_guard lock{mutex_};
  if (stopping_ || arrived_.size() >= arrived_count_max)
    return false;
  arrived_.push_back(std::move(what));
  wake_locked();
  return true;
}

void mover::wake_locked() noexcept {
  if (endpoint_ != nullptr)
    endpoint_->wake();
}

void mover::keep_peer(const std::string &peer) {
  std::lock_guard lock{mutex_};
  sessions_[peer]++;
}

void mover::forget_peer(const std::string &peer) {
  std::lock_guard lock{mutex_};
  if (--sessions_[peer] > 0)
    return;
  sessions_.erase(peer);
  gone_.push_back(peer);
  wake_locked();
}

bool mover::forget_memory(const std::byte *addr, size_t size, uint64_t timeout_ns) {
  std::unique_lock lock{mutex_};
  if (ended_)
    return true;
  auto const [mine, is_new] = forgetting_.try_emplace(addr, false);
  if (is_new) {
    forgotten_.emplace_back(addr, size);
    wake_locked();
  }
  if (!changed_.wait_for(lock, std::chrono::nanoseconds{timeout_ns},
                         [&, entry = mine] { return entry->second || ended_; }))
    return false;
  forgetting_.erase(mine);
  return true;
}

void mover::take_work() {
  std::deque<transfer> arrived;
  std::deque<std::string> gone;
  std::deque<std::pair<const std::byte *, size_t>> forgotten;
  {
    std::lock_guard lock{mutex_};
    arrived.swap(arrived_);
    gone.swap(gone_);
    forgotten.swap(forgotten_);
    // Of sessions that have ended since, and of addresses that another session has.
    for (transfer &one : arrived)
      if (!sessions_.contains(one.peer))
        one.peer.clear();
    std::erase_if(gone, [this](const std::string &one) { return sessions_.contains(one); });
  }
  for (auto const &[addr, size] : forgotten)
    endpoint_->memory_forget(addr, size);
  if (!forgotten.empty()) {
    std::lock_guard lock{mutex_};
    for (auto const &[addr, size] : forgotten)
      forgetting_[addr] = true;
    changed_.notify_all();
  }
  for (const std::string &one : gone) {
    auto const found = peers_.find(one);
    if (found == peers_.end())
      continue;
    (void)endpoint_->peer_remove(found->second);
    peers_.erase(found);
  }
  for (transfer &one : arrived) {
    running made;
    made.what = std::move(one);
    made.deadline_ns = port::deadline_after(monotonic_now(), made.what.timeout_ns);
    auto const known = peers_.find(made.what.peer);
    if (made.what.peer.empty()) {
      made.code = status::canceled;
    } else if (known != peers_.end()) {
      made.peer = known->second;
    } else {
      auto added = endpoint_->peer_add(std::as_bytes(std::span{made.what.peer}));
      if (added.ok()) {
        peers_[made.what.peer] = added.value();
        made.peer = peers_[made.what.peer];
      } else
        made.code = added.error();
    }
    running_.emplace(next_id_++, std::move(made));
  }
}

// False: nothing more can be posted now.
bool mover::post_some(uint64_t number, running &one) {
  if (one.is_message() && !one.is_posted() && monotonic_now() >= one.deadline_ns)
    one.code = status::timed_out;
  if (one.is_message() && message_count_ == message_count_max)
    return true;  // it waits for its turn
  while (!one.is_posted() && one.out < out_count_max) {
    const iovec &part = one.what.parts[one.part];
    port::fabric_op op;
    op.kind = one.what.kind;
    op.op_id = number;
    op.addr = static_cast<std::byte *>(part.iov_base) + one.part_done;
    op.size = std::min<uint64_t>(op_size_max, part.iov_len - one.part_done);
    op.peer = one.peer;
    op.remote = one.what.remote;
    op.offset = one.what.offset + one.posted;
    op.deadline_ns = one.is_message() ? one.deadline_ns
                                      : port::deadline_after(monotonic_now(), one.what.timeout_ns);
    status const code = endpoint_->post(op);
    if (code == status::again)
      return false;
    if (code != status::ok) {
      one.code = code;
      break;
    }
    one.out++;
    one.posted += op.size;
    one.part_done += op.size;
    if (one.is_message())
      message_count_++;
    if (one.part_done == part.iov_len) {
      one.part++;
      one.part_done = 0;
    }
  }
  return true;
}

bool mover::reap() {
  port::fabric_completion done[32];
  size_t const count = endpoint_->poll(done);
  for (size_t i = 0; i < count; i++) {
    if (!done[i].settled)
      continue;  // its memory is in use still: what it became is told later
    auto const found = running_.find(done[i].op_id);
    if (found == running_.end())
      continue;
    found->second.out--;
    if (found->second.is_message())
      message_count_--;
    if (done[i].code != status::ok && found->second.code == status::ok)
      found->second.code = done[i].code;
  }
  return count > 0;
}

void mover::finish(std::map<uint64_t, running>::iterator which) {
  running const one = std::move(which->second);
  running_.erase(which);
  if (one.code != status::ok)
    log(log_level::warning, "pool: a %s over %s failed: %s",
        one.is_message() ? "message" : "transfer", provider_.c_str(),
        tnd_status_name(tnd_status(one.code)));
  one.what.done(one.code);
}

void mover::run() {
  for (;;) {
    take_work();
    bool full = false;
    for (auto at = running_.begin(); at != running_.end();) {
      auto const which = at++;
      if (!full)
        full = !post_some(which->first, which->second);
      if (which->second.is_posted() && which->second.out == 0)
        finish(which);
    }
    bool const moved = reap();
    {
      std::lock_guard lock{mutex_};
      if (stopping_)
        break;
      if (!arrived_.empty())
        continue;
    }
    if (!moved)
      (void)endpoint_->wait(monotonic_now() + idle_ns);
  }
  // Nothing of the pool may be in use once this has ended.
  std::unique_ptr<port::fabric_endpoint> closing;
  {
    std::lock_guard lock{mutex_};
    closing = std::move(endpoint_);
  }
  closing.reset();
  for (auto &[number, one] : running_)
    one.what.done(status::canceled);
  std::lock_guard lock{mutex_};
  for (transfer &one : arrived_)
    one.done(status::canceled);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace tanada::poold
