// Transfers of objects' bytes over a fabric, posted and reaped by one thread.
#include "products/poold/data_mover.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <chrono>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t op_size_max = uint64_t{4} << 20;  // bytes of one fabric operation
constexpr size_t submitted_count_max = 4096;
constexpr uint32_t in_flight_count_max = 16;  // operations in flight of one transfer, for fairness
constexpr uint32_t message_count_max = 64;    // in flight, possibly to addresses without a receiver
constexpr uint64_t idle_ns = 1'000'000'000;
static_assert(in_flight_count_max > 0 && message_count_max > 0 && op_size_max > 0);

uint64_t mover_now_ns() {
  return seams::monotonic_clock().now_ns();
}

}  // namespace

data_mover::data_mover(std::unique_ptr<seams::fabric_endpoint> endpoint)
    : endpoint_{std::move(endpoint)}, provider_{endpoint_->properties().provider} {
  is_rdma_ = endpoint_->properties().path == seams::fabric_path::rdma;
  auto const bytes = endpoint_->address().span();
  address_.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

result<std::unique_ptr<data_mover>> data_mover::start(
    std::unique_ptr<seams::fabric_endpoint> endpoint) {
  std::unique_ptr<data_mover> instance{new data_mover{std::move(endpoint)}};
  instance->thread_ = std::thread{[mover = instance.get()] {
    mover->run();
  }};
  return instance;
}

data_mover::~data_mover() {
  {
    lock_guard lock{mutex_};
    is_stopping_ = true;
    wake_locked();
  }
  if (thread_.joinable())
    thread_.join();
}

bool data_mover::submit(transfer request) {
  lock_guard lock{mutex_};
  if (is_stopping_ || submitted_.size() >= submitted_count_max)
    return false;
  submitted_.push_back(std::move(request));
  wake_locked();
  return true;
}

void data_mover::wake_locked() noexcept {
  TND_ASSERT(mutex_.is_held());
  if (endpoint_ != nullptr)
    endpoint_->wake();
}

void data_mover::acquire_peer(const std::string &peer) {
  lock_guard lock{mutex_};
  peer_users_[peer]++;
}

void data_mover::release_peer(const std::string &peer) {
  lock_guard lock{mutex_};
  auto const users = peer_users_.find(peer);
  TND_ASSERT(users != peer_users_.end() && users->second > 0);
  if (--users->second > 0)
    return;
  peer_users_.erase(users);
  released_peers_.push_back(peer);
  wake_locked();
}

bool data_mover::unregister_memory(const std::byte *addr, size_t size, uint64_t timeout_ns) {
  unique_lock lock{mutex_};
  if (is_stopped_)
    return true;
  auto const [it, is_new] = unregister_states_.try_emplace(addr, false);
  if (is_new) {
    unregister_queue_.emplace_back(addr, size);
    wake_locked();
  }
  if (!unregistered_.wait_for(lock, std::chrono::nanoseconds{timeout_ns}, [&, entry = it] {
        mutex_.assert_held();
        return entry->second || is_stopped_;
      }))
    return false;
  unregister_states_.erase(it);
  return true;
}

void data_mover::accept_work() {
  queued_work work = take_work();
  unregister(work);
  remove_peers(work);
  for (transfer &request : work.submitted)
    begin_transfer(std::move(request));
}

data_mover::queued_work data_mover::take_work() {
  queued_work work;
  lock_guard lock{mutex_};
  work.submitted.swap(submitted_);
  work.released_peers.swap(released_peers_);
  work.unregistrations.swap(unregister_queue_);
  // Cancel transfers of sessions that have ended, and keep addresses that another session uses.
  for (transfer &request : work.submitted)
    if (!peer_users_.contains(request.peer))
      request.peer.clear();
  std::erase_if(work.released_peers, [this](const std::string &peer) {
    mutex_.assert_held();
    return peer_users_.contains(peer);
  });
  return work;
}

void data_mover::unregister(const queued_work &work) {
  if (work.unregistrations.empty())
    return;
  for (auto const &[addr, size] : work.unregistrations)
    endpoint_->memory_forget(addr, size);
  lock_guard lock{mutex_};
  for (auto const &[addr, size] : work.unregistrations)
    unregister_states_[addr] = true;
  unregistered_.notify_all();
}

void data_mover::remove_peers(const queued_work &work) {
  for (const std::string &peer : work.released_peers) {
    auto const it = peers_.find(peer);
    if (it == peers_.end())
      continue;
    (void)endpoint_->peer_remove(it->second);
    peers_.erase(it);
  }
}

void data_mover::begin_transfer(transfer request) {
  active_transfer active;
  active.request = std::move(request);
  active.deadline_ns = seams::deadline_after(mover_now_ns(), active.request.timeout_ns);
  active.code = find_peer(active.request.peer, active.peer);
  TND_ASSERT(active.code != status::ok || active.peer != seams::no_fabric_peer);
  active_.emplace(next_id_++, std::move(active));
}

// canceled: the address is empty, because its session has ended.
status data_mover::find_peer(const std::string &address, seams::fabric_peer &peer) {
  if (address.empty())
    return status::canceled;
  auto const known_peer = peers_.find(address);
  if (known_peer != peers_.end()) {
    peer = known_peer->second;
    return status::ok;
  }
  auto added = endpoint_->peer_add(std::as_bytes(std::span{address}));
  if (!added.ok())
    return added.error();
  peer = added.value();
  peers_[address] = peer;
  return status::ok;
}

// The next operation of a transfer.
seams::fabric_op data_mover::make_op(uint64_t number, const active_transfer &active) const {
  TND_ASSERT(active.part < active.request.parts.size());
  const iovec &part = active.request.parts[active.part];
  TND_ASSERT(active.part_posted <= part.iov_len);
  seams::fabric_op op;
  op.kind = active.request.kind;
  op.op_id = number;
  op.addr = static_cast<std::byte *>(part.iov_base) + active.part_posted;
  op.size = std::min<uint64_t>(op_size_max, part.iov_len - active.part_posted);
  op.peer = active.peer;
  op.remote = active.request.remote;
  op.offset = active.request.offset + active.posted_size;
  op.deadline_ns = active.is_message()
                       ? active.deadline_ns
                       : seams::deadline_after(mover_now_ns(), active.request.timeout_ns);
  return op;
}

void data_mover::record_posted(active_transfer &active, uint64_t size) {
  uint64_t const part_size = active.request.parts[active.part].iov_len;
  active.in_flight_count++;
  active.posted_size += size;
  active.part_posted += size;
  TND_ASSERT(active.part_posted <= part_size);
  if (active.is_message())
    message_count_++;
  if (active.part_posted == part_size) {
    active.part++;
    active.part_posted = 0;
  }
}

// False: the endpoint accepts no more operations for now.
bool data_mover::post_operations(uint64_t number, active_transfer &active) {
  if (active.is_message() && !active.is_posted() && mover_now_ns() >= active.deadline_ns)
    active.code = status::timed_out;
  TND_ASSERT(message_count_ <= message_count_max);
  if (active.is_message() && message_count_ == message_count_max)
    return true;  // posted once another message has completed
  while (!active.is_posted() && active.in_flight_count < in_flight_count_max) {
    seams::fabric_op const op = make_op(number, active);
    status const code = endpoint_->post(op);
    if (code == status::again)
      return false;
    if (code == status::ok)
      record_posted(active, op.size);
    else
      active.code = code;
  }
  return true;
}

bool data_mover::reap() {
  seams::fabric_completion done[32];
  size_t const count = endpoint_->poll(done);
  for (size_t i = 0; i < count; i++) {
    if (!done[i].settled)
      continue;  // the fabric still uses its memory: a later completion reports its status
    auto const it = active_.find(done[i].op_id);
    if (it == active_.end())
      continue;
    TND_ASSERT(it->second.in_flight_count > 0);
    it->second.in_flight_count--;
    if (it->second.is_message()) {
      TND_ASSERT(message_count_ > 0);
      message_count_--;
    }
    if (done[i].code != status::ok && it->second.code == status::ok)
      it->second.code = done[i].code;
  }
  return count > 0;
}

void data_mover::complete(std::map<uint64_t, active_transfer>::iterator it) {
  active_transfer const active = std::move(it->second);
  TND_ASSERT(active.is_posted() && active.in_flight_count == 0);
  active_.erase(it);
  if (active.code != status::ok)
    log(log_level::warning,
        "pool: a fabric {} over {} failed: {}",
        active.is_message() ? "message" : "transfer",
        provider_,
        tnd_status_name(tnd_status(active.code)));
  active.request.callback(active.code);
}

void data_mover::run() {
  for (;;) {
    accept_work();
    bool full = false;
    for (auto it = active_.begin(); it != active_.end();) {
      auto const current = it++;
      if (!full)
        full = !post_operations(current->first, current->second);
      if (current->second.is_posted() && current->second.in_flight_count == 0)
        complete(current);
    }
    bool const moved = reap();
    {
      lock_guard lock{mutex_};
      if (is_stopping_)
        break;
      if (!submitted_.empty())
        continue;
    }
    if (!moved)
      (void)endpoint_->wait(mover_now_ns() + idle_ns);
  }
  close();
}

// Close the endpoint first, so that no memory of the pool is in use when transfers are canceled.
void data_mover::close() {
  std::unique_ptr<seams::fabric_endpoint> closing;
  {
    lock_guard lock{mutex_};
    closing = std::move(endpoint_);
  }
  closing.reset();
  for (auto &[number, active] : active_)
    active.request.callback(status::canceled);
  lock_guard lock{mutex_};
  for (transfer &request : submitted_)
    request.callback(status::canceled);
  is_stopped_ = true;
  unregistered_.notify_all();
}

}  // namespace tanada::poold
